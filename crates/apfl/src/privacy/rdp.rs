//! Rényi differential privacy of the Gaussian on a Poisson sample (Mironov, Talwar, Zhang, 2019).

use super::normal::ln_cdf;

/// Returns the orders α: 1.1, 1.2 … 10.9, 11 … 63, 128, 256, 512, 1024.
fn orders() -> impl Iterator<Item = f64> {
    let fine = (11..110).map(|k| f64::from(k) / 10.0);
    let whole = (11..64).map(f64::from);
    fine.chain(whole).chain([128.0, 256.0, 512.0, 1024.0])
}

/// The Rényi divergences of one step, with their orders.
#[derive(Clone, Debug)]
pub(super) struct Divergences(Vec<(f64, f64)>);

impl Divergences {
    /// Computes the divergences for noise σ and sampling rate q.
    pub fn new(noise: f64, sampling: f64) -> Self {
        let of = |order| (order, divergence(noise, sampling, order));
        Self(orders().map(of).collect())
    }

    /// Returns ε of `steps` steps at δ, by the conversion of Balle et al. and Canonne et al.
    /// (2020), at the best order:
    ///
    /// ```text
    /// ε = T·D_α + ln((α−1)/α) − (ln δ + ln α)/(α−1)
    /// ```
    pub fn epsilon(&self, steps: u64, delta: f64) -> f64 {
        let at = |(alpha, divergence): &(f64, f64)| {
            steps as f64 * divergence + (1.0 - 1.0 / alpha).ln()
                - (delta.ln() + alpha.ln()) / (alpha - 1.0)
        };
        let least = self.0.iter().map(at).fold(f64::INFINITY, f64::min);
        least.max(0.0)
    }
}

/// D_α = ln A_α / (α−1), where A_α = E_{z∼N(0,σ²)} (1 − q + q·e^((2z−1)/2σ²))^α.
fn divergence(noise: f64, sampling: f64, alpha: f64) -> f64 {
    if sampling == 0.0 {
        return 0.0;
    }
    if noise == 0.0 {
        return f64::INFINITY;
    }
    if sampling == 1.0 {
        return alpha / (2.0 * noise * noise);
    }
    let ln_moment = if alpha.fract() == 0.0 {
        whole(noise, sampling, alpha)
    } else {
        fractional(noise, sampling, alpha)
    };
    (ln_moment / (alpha - 1.0)).max(0.0)
}

/// ln A_α at an integer α: A_α = Σ_k C(α,k) (1−q)^(α−k) q^k e^((k²−k)/2σ²).
fn whole(noise: f64, q: f64, alpha: f64) -> f64 {
    let (ln_q, ln_rest) = (q.ln(), (-q).ln_1p());
    let mut sum = f64::NEG_INFINITY;
    let mut ln_binomial = 0.0;
    for k in 0..=alpha as u32 {
        let k = f64::from(k);
        let exponent = (k * k - k) / (2.0 * noise * noise);
        sum = ln_add(
            sum,
            ln_binomial + k * ln_q + (alpha - k) * ln_rest + exponent,
        );
        ln_binomial += ((alpha - k) / (k + 1.0)).ln();
    }
    sum
}

/// The largest number of terms of the series.
const TERMS: u32 = 1000;
/// The logarithm of the relative size of a term that ends the series.
const NEGLIGIBLE: f64 = -30.0;

/// ln A_α at any α > 1: below z₀ = σ² ln(1/q − 1) + ½ and above it, where one of the two parts of
/// the mixture is the larger, the binomial series converges:
///
/// ```text
/// A_α = Σ_k C(α,k) [ (1−q)^j q^k e^((k²−k)/2σ²) Φ((z₀−k)/σ) + q^j (1−q)^k e^((j²−j)/2σ²) Φ((j−z₀)/σ) ]
/// ```
///
/// with j = α − k. For k > α the terms alternate and fall, so the remainder is less than the next
/// term, which is added: an upper bound.
fn fractional(noise: f64, q: f64, alpha: f64) -> f64 {
    let (ln_q, ln_rest) = (q.ln(), (-q).ln_1p());
    let z0 = noise * noise * (ln_rest - ln_q) + 0.5;
    let (mut plus, mut minus) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let (mut ln_binomial, mut positive) = (0.0, true);
    for k in 0..=TERMS {
        let i = f64::from(k);
        let j = alpha - i;
        let squares = |x: f64| (x * x - x) / (2.0 * noise * noise);
        let below = i * ln_q + j * ln_rest + squares(i) + ln_cdf((z0 - i) / noise);
        let above = j * ln_q + i * ln_rest + squares(j) + ln_cdf((j - z0) / noise);
        let term = ln_binomial + ln_add(below, above);
        if i > alpha + 1.0 && (term < plus + NEGLIGIBLE || k == TERMS) {
            plus = ln_add(plus, term);
            break;
        }
        if positive {
            plus = ln_add(plus, term)
        } else {
            minus = ln_add(minus, term)
        }
        let factor = j / (i + 1.0);
        ln_binomial += factor.abs().ln();
        positive ^= factor < 0.0;
    }
    // A_α ≥ 1, so plus is the larger.
    plus + (-(minus - plus).exp()).ln_1p()
}

/// ln(e^a + e^b)
fn ln_add(a: f64, b: f64) -> f64 {
    let (low, high) = (a.min(b), a.max(b));
    if high == f64::NEG_INFINITY {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_meets_the_sum_at_whole_orders() {
        for (noise, q) in [(1.5, 0.04), (0.8, 0.5), (2.0, 0.9), (0.7, 0.001)] {
            for alpha in [2.0, 3.0, 7.0, 10.0] {
                let sum = whole(noise, q, alpha);
                let series = fractional(noise, q, alpha + 1e-9);
                assert!(
                    (series - sum).abs() < 1e-7 * sum.max(1e-3),
                    "{noise} {q} {alpha}: {series} {sum}"
                );
            }
        }
    }

    #[test]
    fn divergences_rise_with_the_order() {
        let Divergences(all) = Divergences::new(1.1, 0.02);
        assert_eq!(all.len(), 99 + 53 + 4);
        assert!(all.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
}
