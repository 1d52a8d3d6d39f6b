//! What a run spends: one mechanism for all, and everybody's own exposure to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Accountant, Ledger, Level, Mechanism, NoiseSeed, PrivacySettings, least_noise};

/// How much somebody has been exposed: the steps in which they were in the sample with
/// probability q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// q
    pub sampling: f64,
    /// Steps so far.
    pub steps: u64,
}

/// `privacy` of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spent {
    /// What is protected: `client` or `example`.
    pub level: String,
    /// ε, the largest of all clients'; null: infinite.
    pub epsilon: Option<f64>,
    /// δ
    pub delta: f64,
    /// σ
    pub noise: f64,
    /// C
    pub clip: f64,
    /// The steps it was spent in: rounds, or the local steps of the client with that ε.
    pub steps: u64,
    /// Whether the noise follows from the run's seed, so that who knows it can take it away.
    #[serde(default)]
    pub simulation: bool,
    /// Rounds that were begun and lost to an interruption: they count among the steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The noise of a run, and the accounts of it.
#[derive(Debug)]
pub struct Budget {
    /// As they were written.
    pub settings: PrivacySettings,
    /// σ
    pub noise: f64,
    /// Rounds that can be afforded, at most those that were planned.
    pub rounds: u64,
    /// How often that many rounds are trained.
    pub passes: u64,
    /// What was released, where the noise cannot be made again.
    pub ledger: Option<Ledger>,
    /// The most steps at every q that the run can come to, by the bits of q.
    most: BTreeMap<u64, u64>,
    accounts: Mutex<BTreeMap<u64, Arc<Accountant>>>,
}

impl Budget {
    /// For so many rounds in each of so many passes, after each number of which everybody is
    /// exposed as `exposures` says.
    /// An error where no noise, or not one round, is within ε.
    pub fn new(
        settings: PrivacySettings,
        rounds: u64,
        passes: u64,
        exposures: impl Fn(u64) -> Vec<Exposure>,
    ) -> Result<Self, String> {
        let end = worst(&exposures(rounds));
        let mut most = BTreeMap::new();
        for exposure in &end {
            let steps = most.entry(exposure.sampling.to_bits()).or_insert(0);
            *steps = exposure.steps.max(*steps);
        }
        let with = |noise: f64| Self {
            settings,
            noise,
            rounds,
            passes,
            ledger: (settings.noise_seed == NoiseSeed::System).then(Ledger::default),
            most: most.clone(),
            accounts: Mutex::default(),
        };
        let noise = match (settings.noise, settings.epsilon) {
            (Some(noise), _) => noise,
            (None, Some(epsilon)) => least_noise(
                epsilon,
                |noise| with(noise).quick(&end),
                |noise| with(noise).largest(&end).0,
            )
            .ok_or("not even noise of 1e6 is enough; a larger ε, or fewer rounds")?,
            (None, None) => return Err("neither ε nor noise is said".into()),
        };
        let mut budget = with(noise);
        if let (Some(_), Some(epsilon)) = (settings.noise, settings.epsilon) {
            let fits = |rounds: u64| budget.fits(&exposures(rounds));
            if !fits(1) {
                let first = budget.largest(&exposures(1)).0;
                return Err(format!(
                    "the first round alone costs ε = {first:.3}, and {epsilon} is all there is; \
                     more noise, or a larger ε"
                ));
            }
            budget.rounds = last_that_fits(1, rounds, fits);
        }
        Ok(budget)
    }

    fn account(&self, sampling: f64, steps: u64) -> Arc<Accountant> {
        let bits = sampling.to_bits();
        let most = self.most.get(&bits).copied().unwrap_or(0).max(steps);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let noise = self.noise;
            let mechanism = Mechanism { noise, sampling };
            Arc::new(Accountant::new(mechanism, most, self.settings.delta))
        };
        accounts.entry(bits).or_insert_with(new).clone()
    }

    /// Whether it is within ε, where there is one, that everybody is exposed so.
    pub fn fits(&self, exposures: &[Exposure]) -> bool {
        let most = self.settings.epsilon.unwrap_or(f64::INFINITY);
        self.largest(exposures).0 <= most
    }

    /// ε of one exposure.
    pub fn epsilon(&self, exposure: Exposure) -> f64 {
        let Exposure { sampling, steps } = exposure;
        self.account(sampling, steps).cost(steps).epsilon()
    }

    /// ε of each, those that are alike once.
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

    fn quick(&self, exposures: &[Exposure]) -> f64 {
        let of = |e: &Exposure| self.account(e.sampling, e.steps).quick(e.steps);
        exposures.iter().map(of).fold(0.0, f64::max)
    }

    /// The largest ε of all, and the steps it was spent in.
    fn largest(&self, exposures: &[Exposure]) -> (f64, u64) {
        let quick = |e: &Exposure| self.account(e.sampling, e.steps).quick(e.steps);
        let mut all: Vec<(f64, Exposure)> = worst(exposures)
            .into_iter()
            .map(|e| (quick(&e), e))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut most = (0.0, 0);
        for (bound, exposure) in all {
            // ε is at most what the quick account says.
            if bound <= most.0 {
                break;
            }
            let epsilon = self.epsilon(exposure);
            if epsilon > most.0 {
                most = (epsilon, exposure.steps);
            }
        }
        most
    }

    /// What was spent where everybody is exposed so.
    pub fn spent(&self, exposures: &[Exposure]) -> Spent {
        let (epsilon, steps) = self.largest(exposures);
        Spent {
            level: self.settings.level.word().into(),
            epsilon: epsilon.is_finite().then_some(epsilon),
            delta: self.settings.delta,
            noise: self.noise,
            clip: self.settings.clip,
            steps,
            simulation: self.settings.noise_seed == NoiseSeed::Seed,
            lost: 0,
        }
    }

    /// What a user should be told before the run.
    pub fn notes(&self, planned: u64) -> Vec<String> {
        let PrivacySettings {
            level,
            epsilon,
            noise,
            delta,
            clip,
            noise_seed,
        } = self.settings;
        let whence = match noise_seed {
            NoiseSeed::Seed => "the noise follows from the seed, so that this is a simulation",
            NoiseSeed::System => {
                "the noise is the operating system's, so that the fingerprint is another in every run, \
                 and rounds that are repeated after a resume count again"
            }
        };
        let unit = match level {
            Level::Client => "updates",
            Level::Example => "examples' gradients",
        };
        let mut notes = vec![format!(
            "privacy by {}: noise of {:.6} × {clip} on {unit} clipped to {clip}, δ = {delta:e}; {whence}",
            level.word(),
            self.noise,
        )];
        if self.passes > 1 {
            notes.push(format!(
                "privacy: the shared model is trained {} times for the choice of α, and ε is that of \
                 all together",
                self.passes
            ));
        }
        if let (Some(epsilon), Some(_)) = (epsilon, noise)
            && self.rounds < planned
        {
            notes.push(format!(
                "privacy: ε = {epsilon} is enough for {} of {planned} rounds, and the run ends there",
                self.rounds
            ));
        }
        notes
    }
}

/// The last of some rounds that fits, where all before it do; the first where none does.
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

/// Those that no other exceeds in both q and steps: ε rises with either.
fn worst(exposures: &[Exposure]) -> Vec<Exposure> {
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
