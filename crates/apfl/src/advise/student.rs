//! Student's t: two-sided probabilities and quantiles.

use libm::lgamma;

/// Returns P(|T| > |t|) with `freedom` degrees of freedom: I_{ν/(ν+t²)}(ν/2, ½).
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { f64::NAN } else { 0.0 };
    }
    incomplete_beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5)
}

/// Returns the t that |T| exceeds with probability `share`, by bisection.
pub fn quantile(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > share && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if two_sided(middle, freedom) > share {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

/// I_x(a, b), by its continued fraction on the side where that converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = lgamma(a + b) - lgamma(a) - lgamma(b);
    let front = (front + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// 1/(1 + d₁/(1 + d₂/(1 + …))) with d₂ₘ = m(b−m)x/((a+2m−1)(a+2m)) and
/// d₂ₘ₊₁ = −(a+m)(a+b+m)x/((a+2m)(a+2m+1)), evaluated from the front.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closed forms: ν = 1 is Cauchy, P = 1 − (2/π)·atan t; ν = 2: P = 1 − t/√(2 + t²).
    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for t in [0.0f64, 0.1, 0.7, 1.0, 2.5, 12.0, 300.0] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * t.atan();
            assert!((two_sided(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((two_sided(t, 2.0) - two).abs() < 1e-12, "{t}");
            assert_eq!(two_sided(-t, 2.0), two_sided(t, 2.0));
        }
    }

    /// ν = 1: tan(0.95·π/2). ν → ∞: the normal's 1.959964. And back.
    #[test]
    fn quantiles() {
        let one = (0.95 * std::f64::consts::FRAC_PI_2).tan();
        assert!((quantile(0.05, 1.0) - one).abs() < 1e-9 * one);
        assert!((quantile(0.05, 1e7) - 1.959_964).abs() < 1e-5);
        for freedom in [3.0, 19.0, 250.0] {
            assert!((two_sided(quantile(0.05, freedom), freedom) - 0.05).abs() < 1e-12);
        }
    }
}
