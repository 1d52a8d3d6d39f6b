//! How much and how fast clients work.

use crate::schedule::Schedule;

/// How much a client works in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalWork {
    /// τ steps.
    Steps(u64),
    /// E·⌈m/batch⌉ steps.
    Epochs(u64),
}

/// How every client trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalTraining {
    /// Steps or epochs a round.
    pub work: LocalWork,
    /// Examples a step; `None`: all of the client's.
    pub batch: Option<usize>,
    /// `training.learning_rate`.
    pub learning_rate: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// β of local momentum: [`super::Sgd`] takes it into account.
    pub momentum: f64,
}

impl LocalTraining {
    /// Steps that make one pass over `m` examples.
    pub fn steps_per_epoch(&self, m: usize) -> u64 {
        self.batch.map_or(1, |batch| m.div_ceil(batch) as u64)
    }

    /// Local steps of one round of a client with `m` training examples.
    pub fn steps(&self, m: usize) -> u64 {
        match self.work {
            LocalWork::Steps(tau) => tau,
            LocalWork::Epochs(epochs) => epochs * self.steps_per_epoch(m),
        }
    }
}
