//! A run under differential privacy: its noise, who is exposed to what, and what it has cost.

use std::sync::Arc;

use rand::RngExt;

use super::Setup;
use crate::choice::Pass;
use crate::error::{Error, Result};
use crate::local_client::PrivateSteps;
use crate::privacy::{Budget, Exposure, Ledger, Level, PrivacySettings, last_that_fits};
use crate::rng::{Purpose, Stream, stream};

impl Setup {
    /// What is protected, where anything is.
    pub fn protects(&self) -> Option<Level> {
        self.privacy.as_ref().map(|budget| budget.settings.level)
    }

    /// The same run with privacy: the noise that its ε asks for, and no more rounds than that
    /// allows. Where the run has several passes, each of them releases a shared model, and ε is
    /// that of all together. An error where the model has no private steps, or ε is not enough
    /// for a round.
    pub fn privately(mut self, settings: PrivacySettings, passes: u64) -> Result<Self> {
        let example = settings.level == Level::Example;
        if example && self.context.model.example_norms().is_none() {
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
                steps: passes * round,
            }],
            Level::Example => self.exposures_of_examples(&self.rounds_taken(round)),
        };
        let budget = Budget::new(settings, self.rounds, passes, exposures);
        let budget = budget.map_err(|e| Error::Request(format!("federation.privacy: {e}")))?;
        self.notes.extend(budget.notes(self.rounds));
        self.rounds = budget.rounds;
        self.context.private = example.then_some(PrivateSteps {
            clip: settings.clip,
            noise: budget.noise,
            noise_seed: settings.noise_seed,
        });
        self.privacy = Some(Arc::new(budget));
        Ok(self)
    }

    /// In how many of the first rounds each client takes part.
    fn rounds_taken(&self, rounds: u64) -> Vec<u32> {
        let n = self.context.dataset.clients();
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
        let of = |(client, rounds): (usize, &u32)| self.exposure_of(client, *rounds);
        taken.iter().enumerate().map(of).collect()
    }

    /// The same of one client.
    pub(crate) fn exposure_of(&self, client: usize, rounds: u32) -> Exposure {
        let (m, _) = self.context.dataset.sizes(client);
        let batch = self.context.local_training.batch.unwrap_or(m);
        Exposure {
            sampling: (batch as f64 / m as f64).min(1.0),
            steps: u64::from(rounds) * self.context.local_training.steps(m),
        }
    }

    /// Everybody's exposure after `round` rounds, in so many of which each client was asked (who
    /// answers too late has released its update all the same): of
    /// examples client by client, of clients once for all.
    pub fn exposures(&self, round: u64, taken: &[u32]) -> Vec<Exposure> {
        let beside = self
            .ledger()
            .map(|ledger| ledger.beside(self.pass_number(), round));
        match self.protects() {
            None => Vec::new(),
            Some(Level::Client) => vec![Exposure {
                sampling: self.participation,
                steps: round + beside.map_or(self.passed().0, |beside| beside.len() as u64),
            }],
            Some(Level::Example) => {
                let mut taken = taken.to_vec();
                for client in beside
                    .iter()
                    .flatten()
                    .flat_map(|round| self.cohort(*round))
                {
                    taken[client] += 1;
                }
                self.exposures_of_examples(&taken)
            }
        }
    }

    /// Where releases are entered before they happen: the noise cannot be made again.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.privacy.as_ref()?.ledger.as_ref()
    }

    /// The pass of a choice: 0 is the last, or the only one.
    pub(super) fn pass_number(&self) -> u64 {
        match self.context.pass {
            Some(Pass::HeldOut(pass)) => pass,
            Some(Pass::Last) | None => 0,
        }
    }

    /// The rounds of all passes before this one, and of those after it.
    fn passed(&self) -> (u64, u64) {
        let passes = self.privacy.as_ref().map_or(1, |budget| budget.passes);
        let before = match self.context.pass {
            Some(Pass::HeldOut(pass)) => pass.min(passes) - 1,
            Some(Pass::Last) => passes - 1,
            None => 0,
        };
        (before * self.rounds, (passes - 1 - before) * self.rounds)
    }

    /// Enters a round in the ledger, where there is one, before anything of it is computed.
    pub(super) fn enter(&self, round: u64) -> Result<()> {
        let Some(ledger) = self.ledger() else {
            return Ok(());
        };
        let by_client = self.protects() == Some(Level::Client);
        let sampling = by_client.then(|| (self.participation, self.context.dataset.clients()));
        ledger.enter(self.pass_number(), round, sampling)
    }

    /// The last round that ε allows, after `round` rounds of which each client took part in so
    /// many: fewer than planned where rounds were repeated.
    pub(super) fn last_round(&self, round: u64, taken: &[u32]) -> u64 {
        let (Some(budget), Some(ledger)) = (&self.privacy, self.ledger()) else {
            return self.rounds;
        };
        let (before, after) = self.passed();
        if budget.settings.epsilon.is_none() || ledger.count() <= before + round {
            return self.rounds;
        }
        let fits = |last: u64| {
            let mut taken = taken.to_vec();
            if self.protects() == Some(Level::Example) {
                for client in (round + 1..=last).flat_map(|round| self.cohort(round)) {
                    taken[client] += 1;
                }
            }
            let mut exposures = self.exposures(round, &taken);
            if self.protects() == Some(Level::Client) {
                exposures[0].steps += last - round + after;
            }
            budget.fits(&exposures)
        };
        last_that_fits(round, self.rounds, fits)
    }

    /// Every client with probability q: in each pass others, for a sample that is used again
    /// protects nobody anew.
    pub(super) fn poisson_cohort(&self, round: u64) -> Vec<usize> {
        if let Some(ledger) = self.ledger() {
            return ledger.cohort(self.pass_number(), round);
        }
        let n = self.context.dataset.clients();
        let q = self.participation;
        let mut rng = stream(
            self.context.seed,
            Purpose::Cohort,
            round,
            self.pass_number(),
        );
        (0..n).filter(|_| q >= 1.0 || rng.random_bool(q)).collect()
    }

    /// The noise on a round's sum, in each pass another.
    pub(super) fn noise_stream(&self, round: u64) -> Stream {
        let budget = self.privacy.as_ref().expect("it protects");
        let from = budget.settings.noise_seed;
        from.stream(self.context.seed, Purpose::Noise, round, self.pass_number())
    }

    /// q·n: what a noisy sum is divided by, however many there were.
    pub(super) fn expected_cohort(&self) -> f64 {
        self.participation * self.context.dataset.clients() as f64
    }
}
