//! Settings of local training.

use crate::schedule::Schedule;

/// Amount of local training in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalWork {
    /// τ steps.
    Steps(u64),
    /// E·⌈m/batch⌉ steps.
    Epochs(u64),
}

/// Settings with which every client trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalTraining {
    /// Steps or epochs per round.
    pub work: LocalWork,
    /// Examples per step; `None`: all of the client's.
    pub batch: Option<usize>,
    /// `training.learning_rate`.
    pub learning_rate: f64,
    /// The learning-rate schedule.
    pub schedule: Schedule,
    /// β of local momentum, applied by [`super::Sgd`].
    pub momentum: f64,
}

impl LocalTraining {
    /// Returns the number of steps in one pass over `m` examples.
    pub(crate) fn steps_per_epoch(&self, m: usize) -> u64 {
        self.batch.map_or(1, |batch| m.div_ceil(batch) as u64)
    }

    /// Returns the local steps per round of a client with `m` training examples.
    pub fn steps(&self, m: usize) -> u64 {
        match self.work {
            LocalWork::Steps(tau) => tau,
            LocalWork::Epochs(epochs) => epochs * self.steps_per_epoch(m),
        }
    }
}
