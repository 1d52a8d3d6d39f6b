//! A run under differential privacy: its noise, who is exposed to what, and what it has cost.

use std::sync::Arc;

use rand::RngExt;

use super::Setup;
use crate::error::{Error, Result};
use crate::privacy::{Budget, Exposure, Level, PrivacySettings};
use crate::rng::{Purpose, stream};
use crate::site::PrivateSteps;

impl Setup {
    /// What is protected, where anything is.
    pub fn protects(&self) -> Option<Level> {
        self.privacy.as_ref().map(|budget| budget.settings.level)
    }

    /// The same run with privacy: the noise that its ε asks for, and no more rounds than that
    /// allows. An error where the model has no private steps, or ε is not enough for a round.
    pub fn privately(mut self, settings: PrivacySettings) -> Result<Self> {
        let example = settings.level == Level::Example;
        if example && !self.world.model.has_example_norms() {
            return Err(Error::Request(
                "federation.privacy.level: found \"example\", but the norms of examples' gradients \
                 are known of dense layers alone: use model.kind = \"linear\" or \"mlp\", or level = \
                 \"client\""
                    .into(),
            ));
        }
        let exposures = |round: u64| match settings.level {
            Level::Client => vec![Exposure {
                sampling: self.participation,
                steps: round,
            }],
            Level::Example => self.exposures_of_examples(&self.rounds_taken(round)),
        };
        let budget = Budget::new(settings, self.rounds, exposures);
        let budget = budget.map_err(|e| Error::Request(format!("federation.privacy: {e}")))?;
        self.notes.extend(budget.notes(self.rounds));
        self.rounds = budget.rounds;
        self.world.private = example.then_some(PrivateSteps {
            clip: settings.clip,
            noise: budget.noise,
        });
        self.privacy = Some(Arc::new(budget));
        Ok(self)
    }

    /// In how many of the first rounds each client takes part.
    fn rounds_taken(&self, rounds: u64) -> Vec<u32> {
        let n = self.world.dataset.clients();
        if self.cohort_size() == n {
            return vec![rounds.try_into().unwrap_or(u32::MAX); n];
        }
        let mut taken = vec![0; n];
        for client in (1..=rounds).flat_map(|round| self.cohort(round)) {
            taken[client] += 1;
        }
        taken
    }

    /// qᵢ = batch/mᵢ and the local steps of the rounds taken.
    fn exposures_of_examples(&self, taken: &[u32]) -> Vec<Exposure> {
        let exposure = |(client, rounds): (usize, &u32)| {
            let (m, _) = self.world.dataset.sizes(client);
            let batch = self.world.pace.batch.unwrap_or(m);
            Exposure {
                sampling: (batch as f64 / m as f64).min(1.0),
                steps: u64::from(*rounds) * self.world.pace.steps(m),
            }
        };
        taken.iter().enumerate().map(exposure).collect()
    }

    /// Everybody's exposure after `round` rounds, of which each client took part in so many: of
    /// examples client by client, of clients once for all.
    pub fn exposures(&self, round: u64, taken: &[u32]) -> Vec<Exposure> {
        match self.protects() {
            None => Vec::new(),
            Some(Level::Client) => vec![Exposure {
                sampling: self.participation,
                steps: round,
            }],
            Some(Level::Example) => self.exposures_of_examples(taken),
        }
    }

    /// Every client with probability q.
    pub(super) fn poisson_cohort(&self, round: u64) -> Vec<usize> {
        let n = self.world.dataset.clients();
        let q = self.participation;
        let mut rng = stream(self.world.seed, Purpose::Cohort, round, 0);
        (0..n).filter(|_| q >= 1.0 || rng.random_bool(q)).collect()
    }

    /// q·n: what a noisy sum is divided by, however many there were.
    pub(super) fn expected_cohort(&self) -> f64 {
        self.participation * self.world.dataset.clients() as f64
    }
}
