//! Differential privacy: a mechanism and its privacy cost.
//!
//! One mechanism serves both levels. It adds N(0, σ²C²I) to a sum of vectors of norm at most C.
//! Each vector is in the sum with probability q, sampled anew in every step (Poisson sampling).
//! Neighbouring data sets differ by one added or removed vector. ε is computed in two ways, by
//! Rényi divergences and by privacy loss distributions; both are upper bounds, and the smaller is
//! reported.
//!
//! ```
//! use apfl::privacy::{Mechanism, noise_for};
//!
//! let mechanism = Mechanism { noise: 1.5, sampling: 0.05 };
//! let cost = mechanism.cost(100, 1e-6);
//! assert!((cost.epsilon() - 1.944).abs() < 0.01);
//! let noise = noise_for(cost.epsilon(), 0.05, 100, 1e-6).unwrap();
//! assert!((noise - 1.5).abs() < 1e-3);
//! ```

use std::sync::OnceLock;

mod budget;
mod ledger;
mod noise;
mod normal;
mod pld;
mod rdp;
mod rounding;
mod settings;

pub use budget::Spent;
pub(crate) use budget::last_that_fits;
#[doc(hidden)]
pub use budget::{Budget, Exposure};
#[doc(hidden)]
pub use ledger::{Ledger, PersistRelease, Release};
#[doc(hidden)]
pub use noise::PrivateSum;
pub use settings::{Level, NoiseSeed, PrivacySettings};

/// The Gaussian mechanism on a Poisson sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mechanism {
    /// σ: the standard deviation of the noise in units of the clip C.
    pub noise: f64,
    /// q: the probability of being in a step's sample.
    pub sampling: f64,
}

/// The privacy cost of some steps of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// ε by Rényi divergences.
    pub rdp: f64,
    /// ε by privacy loss distributions.
    pub pld: f64,
}

impl Cost {
    /// Returns the smaller of the two upper bounds.
    pub fn epsilon(&self) -> f64 {
        self.rdp.min(self.pld)
    }
}

impl Mechanism {
    /// Returns the cost of `steps` steps at δ.
    pub fn cost(&self, steps: u64, delta: f64) -> Cost {
        Accountant::new(*self, steps, delta).cost(steps)
    }
}

/// Computes the privacy cost of any number of steps of a mechanism.
#[derive(Clone, Debug)]
pub struct Accountant {
    mechanism: Mechanism,
    delta: f64,
    most_steps: u64,
    divergences: rdp::Divergences,
    /// `None` where no grid is used: with very little noise or without sampling.
    losses: OnceLock<Option<pld::Losses>>,
}

impl Accountant {
    /// Creates an accountant for at most `most_steps` steps; more steps need a coarser grid.
    pub fn new(mechanism: Mechanism, most_steps: u64, delta: f64) -> Self {
        Self {
            mechanism,
            delta,
            most_steps,
            divergences: rdp::Divergences::new(mechanism.noise, mechanism.sampling),
            losses: OnceLock::new(),
        }
    }

    /// Returns the loss distributions, computed when first used.
    fn losses(&self) -> Option<&pld::Losses> {
        let Mechanism { noise, sampling } = self.mechanism;
        let grid = noise >= LEAST_NOISE && sampling > 0.0 && sampling < 1.0;
        let new = || pld::Losses::new(noise, sampling, self.most_steps.max(1), self.delta);
        self.losses.get_or_init(|| grid.then(new)).as_ref()
    }

    /// Returns the cost of `steps` steps.
    pub fn cost(&self, steps: u64) -> Cost {
        let Mechanism { noise, sampling } = self.mechanism;
        if steps == 0 || sampling == 0.0 {
            return Cost { rdp: 0.0, pld: 0.0 };
        }
        let pld = match self.losses() {
            Some(losses) => losses.epsilon(steps, self.delta),
            None if noise == 0.0 => f64::INFINITY,
            // Without sampling, which costs the more, T Gaussians are one of deviation σ/√T.
            None => normal::gaussian_epsilon(noise / (steps as f64).sqrt(), self.delta),
        };
        Cost {
            rdp: self.divergences.epsilon(steps, self.delta),
            pld,
        }
    }

    /// Returns ε by Rényi divergences alone, which is fast.
    pub(crate) fn rdp_epsilon(&self, steps: u64) -> f64 {
        match steps {
            0 => 0.0,
            steps => self.divergences.epsilon(steps, self.delta),
        }
    }

    /// Returns the interval of the grid of losses; `None` without a grid.
    pub fn interval(&self) -> Option<f64> {
        self.losses().map(pld::Losses::interval)
    }
}

/// The least noise that is searched for or has a grid of losses; its ε is in the hundreds.
pub const LEAST_NOISE: f64 = 0.01;
/// The largest noise that is searched for.
const MOST_NOISE: f64 = 1e6;
/// The relative tolerance of the search.
const TOLERANCE: f64 = 1e-5;

/// Returns the least σ whose ε is at most `epsilon`; `None` if it exceeds 1e6.
pub fn noise_for(epsilon: f64, sampling: f64, steps: u64, delta: f64) -> Option<f64> {
    let bound = |noise: f64| {
        let mechanism = Mechanism { noise, sampling };
        rdp::Divergences::new(mechanism.noise, mechanism.sampling).epsilon(steps, delta)
    };
    let exact = |noise: f64| Mechanism { noise, sampling }.cost(steps, delta).epsilon();
    least_noise(epsilon, bound, exact)
}

/// Returns the least σ at which `exact` is at most ε, from above, by false position on the
/// logarithms. Both functions fall with σ, and `bound` is an upper bound of `exact`.
pub(crate) fn least_noise(
    epsilon: f64,
    bound: impl Fn(f64) -> f64,
    exact: impl Fn(f64) -> f64,
) -> Option<f64> {
    // A first bracket by the upper bound.
    let mut high = 1.0;
    while bound(high) > epsilon {
        high *= 2.0;
        if high > MOST_NOISE {
            return None;
        }
    }
    let mut low = high / 2.0;
    while bound(low) <= epsilon && low > LEAST_NOISE {
        (high, low) = (low, low / 2.0);
    }
    // f(σ) = ln(ε(σ)/ε): above 0 on the left, at most 0 on the right.
    let f = |noise: f64| (exact(noise) / epsilon).ln();
    let mut at_high = f(high);
    low = high / 1.5;
    let mut at_low = f(low);
    while at_low <= 0.0 {
        (high, at_high) = (low, at_low);
        low /= 1.5;
        if low < LEAST_NOISE {
            return Some(high);
        }
        at_low = f(low);
    }
    let (mut of_low, mut of_high) = (at_low, at_high);
    for turn in 0..60 {
        if high / low - 1.0 < TOLERANCE || (at_high <= 0.0 && at_high > -TOLERANCE) {
            break;
        }
        let (a, b) = (low.ln(), high.ln());
        let share = of_low / (of_low - of_high);
        let straight = share.is_finite() && turn % 4 != 3;
        let share = if straight {
            share.clamp(0.01, 0.99)
        } else {
            0.5
        };
        let middle = (a + (b - a) * share).exp();
        let found = f(middle);
        // Illinois: the end that stays counts for half.
        if found > 0.0 {
            (low, of_low, of_high) = (middle, found, of_high / 2.0)
        } else {
            (high, at_high, of_high) = (middle, found, found);
            of_low /= 2.0;
        }
    }
    Some(high)
}
