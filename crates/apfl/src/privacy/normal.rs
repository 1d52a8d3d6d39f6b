//! The normal distribution, accurate in its tails.

use std::f64::consts::{LN_2, PI, SQRT_2};

/// Φ(x)
pub(super) fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// ln Φ(x)
pub(super) fn ln_cdf(x: f64) -> f64 {
    ln_erfc(-x / SQRT_2) - LN_2
}

/// φ(x)
pub(super) fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// ln erfc(x). Beyond 20 by erfc(x) = e^(−x²)/(x√π) · (1 − y + 3y² − 15y³ + 105y⁴ − …) with
/// y = 1/(2x²), whose next term is below 1e-11 there.
fn ln_erfc(x: f64) -> f64 {
    if x < 20.0 {
        return libm::erfc(x).ln();
    }
    let y = 0.5 / (x * x);
    let series = 1.0 - y * (1.0 - y * (3.0 - y * (15.0 - y * 105.0)));
    -x * x - (x * PI.sqrt()).ln() + series.ln()
}

/// Returns δ(ε) of a Gaussian of deviation `noise` for a sum of sensitivity 1 (Balle
/// and Wang, 2018): Φ(1/(2σ) − εσ) − e^ε Φ(−1/(2σ) − εσ).
pub(super) fn gaussian_delta(noise: f64, epsilon: f64) -> f64 {
    let half = 0.5 / noise;
    let above = cdf(half - epsilon * noise);
    above - (epsilon + ln_cdf(-half - epsilon * noise)).exp()
}

/// Returns the ε at which [`gaussian_delta`] is δ, from above.
pub(super) fn gaussian_epsilon(noise: f64, delta: f64) -> f64 {
    if gaussian_delta(noise, 0.0) <= delta {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while gaussian_delta(noise, high) > delta {
        (low, high) = (high, 2.0 * high);
        if high > 1e15 {
            return f64::INFINITY;
        }
    }
    while high - low > 1e-13 * high {
        let middle = 0.5 * (low + high);
        if gaussian_delta(noise, middle) > delta {
            low = middle
        } else {
            high = middle
        }
        if middle == low && middle == high {
            break;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tails_meet_where_the_series_begins() {
        let at = |x: f64| libm::erfc(x).ln();
        assert!((ln_erfc(20.0) - at(20.0)).abs() < 1e-11 * at(20.0).abs());
        assert!((ln_erfc(26.0) - at(26.0)).abs() < 1e-11 * at(26.0).abs());
        assert!((ln_cdf(0.0) - 0.5f64.ln()).abs() < 1e-15);
        assert!((cdf(1.959963984540054) - 0.975).abs() < 1e-12);
    }
}
