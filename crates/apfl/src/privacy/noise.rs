//! Clipping, and noise on a sum.

use rand::RngExt;
use rand_distr::StandardNormal;

use crate::params::{Params, distance_squared};
use crate::rng::Stream;

/// min(1, C/‖·‖): what a vector of that norm is multiplied by.
pub fn clip_factor(norm: f64, clip: f64) -> f64 {
    if norm > clip { clip / norm } else { 1.0 }
}

/// The sum of clipped differences to one point, in `f64` and in the order they come:
///
/// ```text
/// w + (Σᵢ (wᵢ − w)·min(1, C/‖wᵢ − w‖) + N(0, σ²C²I)) / D
/// ```
#[derive(Clone, Debug)]
pub struct PrivateSum {
    clip: f64,
    sum: Vec<f64>,
}

impl PrivateSum {
    /// Nothing yet, of vectors of that length.
    pub fn new(clip: f64, len: usize) -> Self {
        Self {
            clip,
            sum: vec![0.0; len],
        }
    }

    /// Adds wᵢ − w, clipped. Returns its norm before.
    pub fn add(&mut self, w: &[f32], own: &[f32]) -> f64 {
        let norm = distance_squared(own, w).sqrt();
        let factor = clip_factor(norm, self.clip);
        for ((sum, own), w) in self.sum.iter_mut().zip(own).zip(w) {
            *sum += (f64::from(*own) - f64::from(*w)) * factor;
        }
        norm
    }

    /// The sum so far.
    pub fn value(&self) -> &[f64] {
        &self.sum
    }

    /// The next w, with noise of deviation σC on the sum and D as its denominator.
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
