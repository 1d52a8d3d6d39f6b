//! The record of a round.

use serde::{Deserialize, Serialize};

use crate::metrics::{ByModel, Scores, Spread, WorstLosses};

/// A line of `rounds.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoundRecord {
    /// The round, from 1.
    pub round: u64,
    /// Local steps so far: of each round, the largest number that a client took.
    pub step: u64,
    /// The number of clients that took part and were not left out.
    pub cohort: usize,
    /// The number of attackers among them; they are excluded from scores.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attackers: usize,
    /// Wall time.
    pub seconds: f64,
    /// Scores over the cohort's honest clients, in evaluated rounds.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ByModel<Scores>>,
    /// The highest loss of any client of the cohort, in evaluated rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worst: Option<ByModel<WorstLosses>>,
    /// αᵢ over the same clients after the round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<Spread>,
    /// Clients that were left out: their loss was not finite, or they did not respond.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<String>,
    /// With privacy, the largest ε of all clients so far; absent if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epsilon: Option<f64>,
    /// The size of all updates in bytes.
    pub bytes_up: u64,
    /// The size of all broadcasts in bytes.
    pub bytes_down: u64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
