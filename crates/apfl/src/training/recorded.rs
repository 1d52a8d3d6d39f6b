//! What of a run's course does not follow from its seed: who did not answer, and rounds whose
//! records wait for scores that ride on a later order. Empty within one trust domain.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::RoundRecord;
use crate::metrics::{ByModel, Pool};

/// What is kept with a checkpoint beside server and memories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// By round, those drawn that did not answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<u64, Vec<usize>>,
    /// Rounds that were trained and are not written down yet, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Waiting>,
}

impl Recorded {
    /// Whether all of it follows from the seed.
    pub fn is_empty(&self) -> bool {
        self.absent.is_empty() && self.waiting.is_empty()
    }

    /// Whether a client that was drawn in a round took part in it.
    pub(super) fn took_part(&self, round: u64, client: usize) -> bool {
        !(self.absent.get(&round)).is_some_and(|absent| absent.contains(&client))
    }
}

/// A round whose record is not whole yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// What is known.
    pub record: RoundRecord,
    /// The scores so far; None: nothing is missing.
    pub pools: Option<ByModel<Pool>>,
    /// Who scores the shared model.
    pub scorers: Vec<usize>,
}

impl Waiting {
    /// Makes the record whole.
    pub(super) fn complete(&mut self, regression: bool) {
        if let Some(pools) = self.pools.take() {
            self.record.scores = Some(pools.map(|pool| pool.sum.scores(regression)));
            self.record.worst = Some(pools.map(|pool| pool.worst));
        }
    }
}
