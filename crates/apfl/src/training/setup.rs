//! Setup: everything a training needs but the algorithm.

use std::sync::Arc;

use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::attack::Attackers;
use crate::clients::{RunContext, StateHome};
use crate::engine::EngineKind;
use crate::error::Result;
use crate::privacy::{Budget, Level};
use crate::rng::{Purpose, stream};

/// How updates are weighted in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All clients alike, as in the paper.
    Uniform,
    /// By training examples.
    Examples,
}

/// Clients that get a last local round and their models at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizedClients {
    /// Every client.
    All,
    /// Every client that was sampled at least once.
    Sampled,
    /// No client.
    None,
}

/// Everything a training needs but the algorithm.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Data, model, local training and seed.
    pub context: RunContext,
    /// Rounds to train.
    pub rounds: u64,
    /// K/n
    pub participation: f64,
    /// Weights of updates.
    pub weights: Weights,
    /// Aggregator of updates.
    pub aggregation: Aggregation,
    /// Optimizer of the server.
    pub server: ServerOptimizer,
    /// Clients that attack.
    pub attackers: Attackers,
    /// Budget of differential privacy.
    pub privacy: Option<Arc<Budget>>,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Clients that get a model at the end.
    pub finalized_clients: FinalizedClients,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Engine that reaches clients.
    pub engine: EngineKind,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// Messages for the user, such as numbers that were taken from the data.
    pub notes: Vec<String>,
    /// Where client states live.
    pub home: StateHome,
}

impl Setup {
    /// Returns K, the number of clients sampled per round: at least one.
    pub fn cohort_size(&self) -> usize {
        let n = self.context.dataset.clients();
        ((self.participation * n as f64).round() as usize).clamp(1, n)
    }

    /// Samples U_r, ascending: K of n clients, uniformly without replacement. With privacy by
    /// client each client is sampled with probability K/n, so that there may be none.
    pub fn cohort(&self, round: u64) -> Vec<usize> {
        let n = self.context.dataset.clients();
        if self.protects() == Some(Level::Client) {
            return self.poisson_cohort(round);
        }
        let k = self.cohort_size();
        if k == n {
            return (0..n).collect();
        }
        let mut rng = stream(self.context.seed, Purpose::Cohort, round, 0);
        let mut cohort = rand::seq::index::sample(&mut rng, n, k).into_vec();
        cohort.sort_unstable();
        cohort
    }

    /// Returns whether a round is evaluated. The last one always is.
    #[doc(hidden)]
    pub fn evaluates(&self, round: u64) -> bool {
        round.is_multiple_of(self.evaluate_every) || round == self.rounds
    }

    /// Checks that a round has as many clients as the aggregator needs.
    ///
    /// # Errors
    /// Fewer clients than the aggregator needs.
    #[doc(hidden)]
    pub fn checked(mut self) -> Result<Self> {
        let k = self.cohort_size();
        self.aggregation.check(k)?;
        self.notes.extend(self.aggregation.note(k));
        Ok(self)
    }

    /// Returns whether the task is regression.
    pub(super) fn regression(&self) -> bool {
        self.context.dataset.schema().task.classes() == 0
    }
}
