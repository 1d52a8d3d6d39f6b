//! Clipping of vectors and noise on their sum.

use rand::RngExt;
use rand_distr::StandardNormal;

use crate::params::{Params, distance_squared};
use crate::rng::Stream;

/// Returns min(1, C/‖·‖), the factor that clips a vector of this norm.
pub(crate) fn clip_factor(norm: f64, clip: f64) -> f64 {
    if norm > clip { clip / norm } else { 1.0 }
}

/// The sum of clipped differences to one point, in `f64` and in the order of addition:
///
/// ```text
/// w + (Σᵢ (wᵢ − w)·min(1, C/‖wᵢ − w‖) + N(0, σ²C²I)) / D
/// ```
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct PrivateSum {
    clip: f64,
    sum: Vec<f64>,
}

impl PrivateSum {
    /// Creates an empty sum of vectors of length `len`.
    pub fn new(clip: f64, len: usize) -> Self {
        Self {
            clip,
            sum: vec![0.0; len],
        }
    }

    /// Adds wᵢ − w, clipped. Returns its norm before clipping.
    pub fn add(&mut self, w: &[f32], own: &[f32]) -> f64 {
        let norm = distance_squared(own, w).sqrt();
        let factor = clip_factor(norm, self.clip);
        for ((sum, own), w) in self.sum.iter_mut().zip(own).zip(w) {
            *sum += (f64::from(*own) - f64::from(*w)) * factor;
        }
        norm
    }

    /// Returns the sum so far.
    pub fn value(&self) -> &[f64] {
        &self.sum
    }

    /// Returns the next w, with noise of deviation σC on the sum and the denominator D.
    pub fn release(self, w: &[f32], noise: f64, denominator: f64, rng: &mut Stream) -> Params {
        let deviation = noise * self.clip;
        let moved = |(w, sum): (&f32, f64)| {
            let noisy = if deviation > 0.0 {
                sum + deviation * rng.sample::<f64, _>(StandardNormal)
            } else {
                sum
            };
            (f64::from(*w) + noisy / denominator) as f32
        };
        w.iter().zip(self.sum).map(moved).collect()
    }
}
