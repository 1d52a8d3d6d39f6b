//! Records of a choice among candidates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, HeldOut};
use crate::metrics::Gain;
use crate::run::choice::{Choice, Choices};

/// The candidate that a client chose: α, or `shared`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Alpha {
    /// α
    Mixing(f64),
    /// `shared`
    Shared(String),
}

impl Alpha {
    /// Creates the record of a candidate.
    pub fn of(candidate: Candidate) -> Self {
        match candidate.mixing() {
            // The shortest decimal of the f32.
            Some(alpha) => Alpha::Mixing(alpha.to_string().parse().expect("its own digits")),
            None => Alpha::Shared(candidate.name()),
        }
    }

    /// Returns its name, as [`Candidate::name`] does.
    pub fn name(&self) -> String {
        match self {
            Alpha::Mixing(alpha) => alpha.to_string(),
            Alpha::Shared(name) => name.clone(),
        }
    }
}

/// `"chosen"` of a client: its choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenRecord {
    /// The chosen candidate.
    pub alpha: Alpha,
    /// The number of held-out rows.
    pub rows: u64,
    /// The mean loss of each candidate on them, by name; null without rows.
    pub losses: BTreeMap<String, Option<f64>>,
}

impl ChosenRecord {
    /// Creates the record of a client's choice from a list.
    pub fn of(choice: &Choice, list: &[Candidate]) -> Self {
        Self {
            alpha: Alpha::of(choice.candidate),
            rows: choice.held_out.rows,
            losses: losses(list, &choice.held_out),
        }
    }
}

/// `"prior"` of a summary: ℓ̄, by which new clients choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// The number of held-out rows of all clients.
    pub rows: u64,
    /// κ
    pub examples: f64,
    /// The mean loss of each candidate on them, by name.
    pub losses: BTreeMap<String, Option<f64>>,
}

impl Prior {
    /// Creates the prior from the choices of all clients.
    pub fn of(choices: &Choices, examples: f64) -> Self {
        Self {
            rows: choices.total.rows,
            examples,
            losses: losses(&choices.candidates, &choices.total),
        }
    }
}

fn losses(list: &[Candidate], held_out: &HeldOut) -> BTreeMap<String, Option<f64>> {
    let means = held_out.means().into_iter();
    let means = means.map(|mean| (held_out.rows > 0).then_some(mean));
    let means = means.chain(std::iter::repeat(None));
    list.iter().map(|c| c.name()).zip(means).collect()
}

/// A line of a pass's `held-out.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRecord {
    /// The client's name.
    pub client: String,
    /// Its number of rows and the sum of each candidate's losses, in list order.
    #[serde(flatten)]
    pub held_out: HeldOut,
}

/// The split on which a gain is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GainSplit {
    /// Test rows, by which nothing was chosen or tuned.
    Test,
    /// Validation rows, by which no α was chosen.
    Valid,
}

/// `"gain"` of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalGain {
    /// The rows that measured it.
    pub part: GainSplit,
    /// The gain over all of these rows.
    #[serde(flatten)]
    pub gain: Gain,
}
