//! State that cannot be reproduced from the seed: clients that did not respond, and records that
//! wait for deferred scores. Empty within one trust domain.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::RoundRecord;
use crate::metrics::{ByModel, Pool};

/// State that cannot be reproduced from the seed; part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// By round, the sampled clients that did not respond.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<u64, Vec<usize>>,
    /// Rounds that were trained but whose records are incomplete, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<PendingRecord>,
}

impl Recorded {
    /// Returns whether everything follows from the seed.
    pub fn is_empty(&self) -> bool {
        self.absent.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether a client that was sampled in a round responded.
    pub(super) fn took_part(&self, round: u64, client: usize) -> bool {
        !(self.absent.get(&round)).is_some_and(|absent| absent.contains(&client))
    }
}

/// A round whose record may still lack scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRecord {
    /// The record without its scores.
    pub record: RoundRecord,
    /// The scores so far; `None` if the record is complete.
    pub pools: Option<ByModel<Pool>>,
    /// The clients that score the shared model.
    pub scorers: Vec<usize>,
}

impl PendingRecord {
    /// Completes the record with the scores.
    pub(super) fn complete(&mut self, regression: bool) {
        if let Some(pools) = self.pools.take() {
            self.record.scores = Some(pools.map(|pool| pool.sum.scores(regression)));
            self.record.worst = Some(pools.map(|pool| pool.worst));
        }
    }
}
