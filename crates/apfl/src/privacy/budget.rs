//! The privacy budget of a run: one mechanism, and the exposure of every client to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Accountant, Ledger, Level, Mechanism, NoiseSeed, PrivacySettings, least_noise};

/// The exposure of a client or an example: the number of steps that sampled it with
/// probability q.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Exposure {
    /// q
    pub sampling: f64,
    /// The number of steps so far.
    pub steps: u64,
}

/// `privacy` of `summary.json`: the privacy spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spent {
    /// What is protected: `client` or `example`.
    pub level: String,
    /// The largest ε of all clients; null: infinite.
    pub epsilon: Option<f64>,
    /// δ
    pub delta: f64,
    /// σ
    pub noise: f64,
    /// C
    pub clip: f64,
    /// The number of steps: rounds, or the local steps of the client with that ε.
    pub steps: u64,
    /// Whether the noise follows from the run's seed, so that it can be removed with the seed.
    #[serde(default)]
    pub simulation: bool,
    /// Rounds that were begun and lost to an interruption; they count among the steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The noise of a run and the accounting of ε.
#[derive(Debug)]
#[doc(hidden)]
pub struct Budget {
    /// The settings of the spec.
    pub settings: PrivacySettings,
    /// σ
    pub noise: f64,
    /// The number of rounds that ε allows, at most the planned number.
    pub rounds: u64,
    /// The number of passes over these rounds.
    pub passes: u64,
    /// The ledger of releases, if the noise is not reproducible.
    pub ledger: Option<Ledger>,
    /// The largest number of steps at each q, by the bits of q.
    max_steps: BTreeMap<u64, u64>,
    accountants: Mutex<BTreeMap<u64, Arc<Accountant>>>,
}

impl Budget {
    /// Creates the budget for at most `rounds` rounds in each of `passes` passes. `exposures`
    /// returns the exposures after a number of rounds. `searched` is the noise of the same budget,
    /// if it was searched before: the search for an ε takes seconds.
    ///
    /// # Errors
    /// If no noise is enough for ε, or ε does not allow one round.
    pub fn new(
        settings: PrivacySettings,
        rounds: u64,
        passes: u64,
        exposures: impl Fn(u64) -> Vec<Exposure>,
        searched: Option<f64>,
    ) -> Result<Self, String> {
        let end = pareto_front(&exposures(rounds));
        let mut max_steps = BTreeMap::new();
        for exposure in &end {
            let steps = max_steps.entry(exposure.sampling.to_bits()).or_insert(0);
            *steps = exposure.steps.max(*steps);
        }
        let with = |noise: f64| Self {
            settings,
            noise,
            rounds,
            passes,
            ledger: (settings.noise_seed == NoiseSeed::System).then(Ledger::default),
            max_steps: max_steps.clone(),
            accountants: Mutex::default(),
        };
        let noise = match (settings.noise.or(searched), settings.epsilon) {
            (Some(noise), _) => noise,
            (None, Some(epsilon)) => least_noise(
                epsilon,
                |noise| with(noise).rdp_epsilon(&end),
                |noise| with(noise).largest(&end).0,
            )
            .ok_or("noise of 1e6 is not enough; raise epsilon, or lower training.rounds")?,
            (None, None) => {
                return Err("`epsilon` and `noise` are both missing; give one or both".into());
            }
        };
        let mut budget = with(noise);
        if let (Some(_), Some(epsilon)) = (settings.noise, settings.epsilon) {
            let fits = |rounds: u64| budget.fits(&exposures(rounds));
            if !fits(1) {
                let first = budget.largest(&exposures(1)).0;
                return Err(format!(
                    "the first round costs ε = {first:.3}, allowed is {epsilon}; raise noise or \
                     epsilon"
                ));
            }
            budget.rounds = last_that_fits(1, rounds, fits);
        }
        Ok(budget)
    }

    fn accountant(&self, sampling: f64, steps: u64) -> Arc<Accountant> {
        let bits = sampling.to_bits();
        let max_steps = self.max_steps.get(&bits).copied().unwrap_or(0).max(steps);
        let mut accountants = self
            .accountants
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let noise = self.noise;
            let mechanism = Mechanism { noise, sampling };
            Arc::new(Accountant::new(mechanism, max_steps, self.settings.delta))
        };
        accountants.entry(bits).or_insert_with(new).clone()
    }

    /// Returns whether these exposures are within the ε of the settings, if there is one.
    pub fn fits(&self, exposures: &[Exposure]) -> bool {
        let allowed = self.settings.epsilon.unwrap_or(f64::INFINITY);
        self.largest(exposures).0 <= allowed
    }

    /// Returns ε of one exposure.
    pub fn epsilon(&self, exposure: Exposure) -> f64 {
        let Exposure { sampling, steps } = exposure;
        self.accountant(sampling, steps).cost(steps).epsilon()
    }

    /// Returns ε of each exposure; computes equal ones once.
    pub fn each(&self, exposures: &[Exposure]) -> Vec<f64> {
        let key = |e: &Exposure| (e.sampling.to_bits(), e.steps);
        let distinct: BTreeSet<(u64, u64)> = exposures.iter().map(key).collect();
        let known: BTreeMap<(u64, u64), f64> = distinct
            .into_par_iter()
            .map(|(bits, steps)| {
                let sampling = f64::from_bits(bits);
                ((bits, steps), self.epsilon(Exposure { sampling, steps }))
            })
            .collect();
        exposures.iter().map(|e| known[&key(e)]).collect()
    }

    fn rdp_epsilon(&self, exposures: &[Exposure]) -> f64 {
        let epsilon = |e: &Exposure| self.accountant(e.sampling, e.steps).rdp_epsilon(e.steps);
        exposures.iter().map(epsilon).fold(0.0, f64::max)
    }

    /// Returns the largest ε of all and its number of steps.
    fn largest(&self, exposures: &[Exposure]) -> (f64, u64) {
        let bound = |e: &Exposure| self.accountant(e.sampling, e.steps).rdp_epsilon(e.steps);
        let mut all: Vec<(f64, Exposure)> = pareto_front(exposures)
            .into_iter()
            .map(|e| (bound(&e), e))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut largest = (0.0, 0);
        for (bound, exposure) in all {
            // ε is at most the ε by Rényi divergences.
            if bound <= largest.0 {
                break;
            }
            let epsilon = self.epsilon(exposure);
            if epsilon > largest.0 {
                largest = (epsilon, exposure.steps);
            }
        }
        largest
    }

    /// Returns the privacy spent by these exposures.
    pub fn spent(&self, exposures: &[Exposure]) -> Spent {
        let (epsilon, steps) = self.largest(exposures);
        Spent {
            level: self.settings.level.name().into(),
            epsilon: epsilon.is_finite().then_some(epsilon),
            delta: self.settings.delta,
            noise: self.noise,
            clip: self.settings.clip,
            steps,
            simulation: self.settings.noise_seed == NoiseSeed::Seed,
            lost: 0,
        }
    }

    /// Returns notes for the user before the run.
    pub fn notes(&self, planned: u64) -> Vec<String> {
        let PrivacySettings {
            level,
            epsilon,
            noise,
            delta,
            clip,
            noise_seed,
        } = self.settings;
        let source = match noise_seed {
            NoiseSeed::Seed => "the noise follows from the seed, so this is a simulation",
            NoiseSeed::System => {
                "the noise is the operating system's, so the fingerprint differs in every run, and \
                 rounds that are repeated after a resume count again"
            }
        };
        let unit = match level {
            Level::Client => "updates",
            Level::Example => "examples' gradients",
        };
        let mut notes = vec![format!(
            "privacy by {}: noise of {:.6} × {clip} on {unit} clipped to {clip}, δ = {delta:e}; {source}",
            level.name(),
            self.noise,
        )];
        if self.passes > 1 {
            notes.push(format!(
                "privacy: the shared model is trained {} times for the choice of α; ε is that of \
                 all passes together",
                self.passes
            ));
        }
        if let (Some(epsilon), Some(_)) = (epsilon, noise)
            && self.rounds < planned
        {
            notes.push(format!(
                "privacy: ε = {epsilon} is enough for {} of {planned} rounds; the run ends there",
                self.rounds
            ));
        }
        notes
    }
}

/// Returns the last round that fits by bisection; `first` if none does.
pub(crate) fn last_that_fits(first: u64, last: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (first, last + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// Returns the exposures that no other exceeds in both q and steps; ε rises with either.
fn pareto_front(exposures: &[Exposure]) -> Vec<Exposure> {
    let mut sorted: Vec<Exposure> = exposures.to_vec();
    sorted.sort_by(|a, b| {
        b.sampling
            .total_cmp(&a.sampling)
            .then(b.steps.cmp(&a.steps))
    });
    let mut front: Vec<Exposure> = Vec::new();
    for exposure in sorted {
        if front.last().is_none_or(|last| exposure.steps > last.steps) {
            front.push(exposure);
        }
    }
    front
}
