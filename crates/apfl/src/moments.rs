//! Mergeable summary statistics: count, mean and spread.

use serde::{Deserialize, Serialize};

/// Represents count, mean and sum of squared deviations of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// The count.
    pub n: u64,
    /// The mean.
    pub mean: f64,
    /// Σ(x − mean)²
    pub m2: f64,
}

impl Moments {
    /// Adds a number:
    ///
    /// ```text
    /// δ = x − mean     mean ← mean + δ/n     M₂ ← M₂ + δ·(x − mean)
    /// ```
    pub fn add(&mut self, x: f64) {
        self.n += 1;
        let delta = x - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (x - self.mean);
    }

    /// Adds the numbers of `other`, n = nₐ + n_b:
    ///
    /// ```text
    /// δ = mean_b − meanₐ     mean = meanₐ + δ·n_b/n     M₂ = M₂ₐ + M₂_b + δ²·nₐ·n_b/n
    /// ```
    pub fn merge(&mut self, other: &Moments) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.n as f64, other.n as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * (b / (a + b));
        self.m2 += other.m2 + delta * delta * (a * b / (a + b));
        self.n += other.n;
    }

    /// Returns the population standard deviation, or 1 if the numbers vary by rounding only.
    pub fn deviation(&self) -> f64 {
        let deviation = match self.n {
            0 => 0.0,
            n => (self.m2 / n as f64).sqrt(),
        };
        if deviation <= 1e-14 * self.mean.abs() {
            1.0
        } else {
            deviation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let of = |x: &[f64]| {
            let mut moments = Moments::default();
            x.iter().for_each(|x| moments.add(*x));
            moments
        };
        // 1, 2, 4 and 9, 14: mean 6, squared deviations 25 + 16 + 4 + 9 + 64 = 118.
        let mut parts = of(&[1.0, 2.0, 4.0]);
        parts.merge(&of(&[]));
        parts.merge(&of(&[9.0, 14.0]));
        assert_eq!(parts.n, 5);
        assert!((parts.mean - 6.0).abs() < 1e-12 && (parts.m2 - 118.0).abs() < 1e-9);
        assert_eq!(of(&[0.1, 0.1, 0.1]).deviation(), 1.0);
        // Far from zero nothing is lost: 1e12 and 1e12 + 2 deviate by 1.
        assert!((of(&[1e12, 1e12 + 2.0]).deviation() - 1.0).abs() < 1e-12);
    }
}
