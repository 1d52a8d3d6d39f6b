//! What a run is, apart from its algorithm.

use std::sync::Arc;

use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::attack::Attackers;
use crate::choice::Choices;
use crate::clients::{RunContext, StateHome};
use crate::engine::EngineKind;
use crate::error::Result;
use crate::privacy::{Budget, Level};
use crate::rng::{Purpose, stream};

/// How updates are weighted in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All alike: the paper's.
    Uniform,
    /// By training examples.
    Examples,
}

/// Who gets a last local round at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizedClients {
    /// Every client.
    All,
    /// Every client that was ever drawn.
    Sampled,
    /// Nobody.
    None,
}

/// What a run is, apart from its algorithm.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Data, model, pace and seed.
    pub context: RunContext,
    /// Rounds to train.
    pub rounds: u64,
    /// K/n
    pub participation: f64,
    /// How updates are weighted.
    pub weights: Weights,
    /// How updates become one model.
    pub aggregation: Aggregation,
    /// How the server moves its model.
    pub server: ServerOptimizer,
    /// Who attacks.
    pub attackers: Attackers,
    /// What privacy costs, where there is any.
    pub privacy: Option<Arc<Budget>>,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Who gets a model at the end.
    pub finalized_clients: FinalizedClients,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Where clients live.
    pub engine: EngineKind,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// What a user should be told, such as numbers that were taken from the data.
    pub notes: Vec<String>,
    /// Where the clients' memories live.
    pub home: StateHome,
    /// What clients have chosen before it, where they have.
    pub choices: Arc<Choices>,
}

impl Setup {
    /// K: the clients drawn each round, at least one.
    pub fn cohort_size(&self) -> usize {
        let n = self.context.dataset.clients();
        ((self.participation * n as f64).round() as usize).clamp(1, n)
    }

    /// U_r: K of n clients, uniformly without replacement, ascending. With privacy by client
    /// each of them with probability K/n, so that there may be none.
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

    /// Whether a round is evaluated; the last one always is.
    pub fn evaluates(&self, round: u64) -> bool {
        round.is_multiple_of(self.evaluate_every) || round == self.rounds
    }

    /// The same, if what it asks for can be done: an aggregation rule may need more clients
    /// than a round has.
    pub fn checked(mut self) -> Result<Self> {
        let k = self.cohort_size();
        self.aggregation.check(k)?;
        self.notes.extend(self.aggregation.note(k));
        Ok(self)
    }

    /// Whether numbers are predicted, not classes.
    pub(super) fn regression(&self) -> bool {
        self.context.dataset.schema().task.classes() == 0
    }
}
