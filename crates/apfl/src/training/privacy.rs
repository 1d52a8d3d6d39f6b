//! Differential privacy of a run: noise, exposures and ε.

use std::sync::Arc;

use rand::RngExt;

use super::Setup;
use crate::choice::Pass;
use crate::error::{Error, Result};
use crate::local_client::PrivateSteps;
use crate::privacy::{Budget, Exposure, Ledger, Level, PrivacySettings, last_that_fits};
use crate::rng::{Purpose, Stream, stream};

impl Setup {
    /// Returns the level of privacy, if the run is private.
    #[doc(hidden)]
    pub fn protects(&self) -> Option<Level> {
        self.privacy.as_ref().map(|budget| budget.settings.level)
    }

    /// Adds privacy to the run: the noise for its ε, and at most the rounds that ε allows. With
    /// several passes each releases a shared model, and ε is that of all passes together.
    ///
    /// # Errors
    /// If the model has no private steps, or ε does not allow one round.
    pub(crate) fn privately(mut self, settings: PrivacySettings, passes: u64) -> Result<Self> {
        let example = settings.level == Level::Example;
        if example && self.context.model.example_norms().is_none() {
            return Err(Error::Request(
                "federation.privacy.level: found \"example\", which needs dense layers for the \
                 gradient norms of single examples; use model.kind = \"linear\" or \"mlp\", or \
                 level = \"client\""
                    .into(),
            ));
        }
        let exposures = |round: u64| match settings.level {
            Level::Client => vec![Exposure {
                sampling: self.participation,
                steps: passes * round,
            }],
            Level::Example => self.exposures_of_examples(&self.participations(round)),
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

    /// Returns in how many of the first `rounds` each client takes part.
    fn participations(&self, rounds: u64) -> Vec<u32> {
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

    /// Returns the exposures of all clients' examples after so many rounds of each.
    fn exposures_of_examples(&self, taken: &[u32]) -> Vec<Exposure> {
        let exposure = |(client, rounds): (usize, &u32)| self.exposure_of(client, *rounds);
        taken.iter().enumerate().map(exposure).collect()
    }

    /// Returns the exposure of a client's examples: qᵢ = batch/mᵢ and its local steps.
    pub(crate) fn exposure_of(&self, client: usize, rounds: u32) -> Exposure {
        let (m, _) = self.context.dataset.sizes(client);
        let batch = self.context.local_training.batch.unwrap_or(m);
        Exposure {
            sampling: (batch as f64 / m as f64).min(1.0),
            steps: u64::from(rounds) * self.context.local_training.steps(m),
        }
    }

    /// Returns the exposures after `round` rounds: of examples for each client, of clients one for
    /// all. `taken` counts each client's requests, because a late response is a release too.
    #[doc(hidden)]
    pub fn exposures(&self, round: u64, taken: &[u32]) -> Vec<Exposure> {
        let extra = self
            .ledger()
            .map(|ledger| ledger.extra_rounds(self.pass_number(), round));
        match self.protects() {
            None => Vec::new(),
            Some(Level::Client) => vec![Exposure {
                sampling: self.participation,
                steps: round + extra.map_or(self.other_rounds().0, |extra| extra.len() as u64),
            }],
            Some(Level::Example) => {
                let mut taken = taken.to_vec();
                for client in extra.iter().flatten().flat_map(|round| self.cohort(*round)) {
                    taken[client] += 1;
                }
                self.exposures_of_examples(&taken)
            }
        }
    }

    /// Returns the ledger of releases, if the noise is not reproducible.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.privacy.as_ref()?.ledger.as_ref()
    }

    /// Returns the number of the pass; 0 is the last or only one.
    pub(super) fn pass_number(&self) -> u64 {
        match self.context.pass {
            Some(Pass::HeldOut(pass)) => pass,
            Some(Pass::Last | Pass::Probe) | None => 0,
        }
    }

    /// Returns the number of rounds in the passes before this one and in those after it.
    fn other_rounds(&self) -> (u64, u64) {
        let passes = self.privacy.as_ref().map_or(1, |budget| budget.passes);
        let before = match self.context.pass {
            Some(Pass::HeldOut(pass)) => pass.min(passes) - 1,
            Some(Pass::Last) => passes - 1,
            Some(Pass::Probe) | None => 0,
        };
        (before * self.rounds, (passes - 1 - before) * self.rounds)
    }

    /// Records a round in the ledger, if there is one, before any of it is computed.
    pub(super) fn record_release(&self, round: u64) -> Result<()> {
        let Some(ledger) = self.ledger() else {
            return Ok(());
        };
        let by_client = self.protects() == Some(Level::Client);
        let sampling = by_client.then(|| (self.participation, self.context.dataset.clients()));
        ledger.record(self.pass_number(), round, sampling)
    }

    /// Returns the last round that ε allows; fewer than planned if rounds were repeated. `taken`
    /// counts each client's rounds so far.
    pub(super) fn last_round(&self, round: u64, taken: &[u32]) -> u64 {
        let (Some(budget), Some(ledger)) = (&self.privacy, self.ledger()) else {
            return self.rounds;
        };
        let (before, after) = self.other_rounds();
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

    /// Samples every client with probability q. Each pass has a sample of its own, because
    /// amplification by sampling needs fresh samples.
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

    /// Returns the random stream of a round's noise; each pass has its own.
    pub(super) fn noise_stream(&self, round: u64) -> Stream {
        let budget = self.privacy.as_ref().expect("the run is private");
        let from = budget.settings.noise_seed;
        from.stream(self.context.seed, Purpose::Noise, round, self.pass_number())
    }

    /// Returns q·n, the denominator of a noisy sum.
    pub(super) fn expected_cohort(&self) -> f64 {
        self.participation * self.context.dataset.clients() as f64
    }
}
