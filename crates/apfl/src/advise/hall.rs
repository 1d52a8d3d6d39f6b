//! Hall's transformation of a studentized mean, which removes its skewness (1992).
//!
//! With T = √n(m − μ)/s of n rows with skewness γ, and a = γ/(3√n), the skewness of
//!
//! ```text
//! g(T) = T + aT² + a²T³/3 + a/2 = ((1 + aT)³ − 1)/(3a) + a/2
//! ```
//!
//! is of the order 1/n, where that of T is of the order 1/√n. g grows, so that it can be inverted.

/// From this number of rows on T is used as it is.
const MANY_ROWS: u64 = 60;

/// A transformation of T.
#[derive(Clone, Copy, Debug)]
pub struct Transformation {
    a: f64,
}

impl Transformation {
    /// Creates the transformation for n rows; the identity if they are many or have no skewness.
    pub fn of(skew: Option<f64>, n: u64) -> Self {
        let skew = skew.filter(|skew| skew.is_finite() && n < MANY_ROWS);
        let a = skew.unwrap_or(0.0) / (3.0 * (n as f64).sqrt());
        Self {
            // Smaller ones are rounding errors, by which the inverse would divide.
            a: if a.abs() < 1e-9 { 0.0 } else { a },
        }
    }

    /// Returns g(T).
    pub fn apply(self, t: f64) -> f64 {
        t + self.a * t * t + self.a * self.a * t * t * t / 3.0 + 0.5 * self.a
    }

    /// Returns the T of a g(T).
    pub fn invert(self, g: f64) -> f64 {
        if self.a == 0.0 {
            return g;
        }
        ((1.0 + 3.0 * self.a * (g - 0.5 * self.a)).cbrt() - 1.0) / self.a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// γ = 1.5 and n = 25: a = 0.1. g(2) = 2 + .4 + .08/3 + .05 = 2.47667; g(−2) = −2 + .4 −
    /// .02667 + .05 = −1.57667.
    #[test]
    fn a_transformation_by_hand() {
        let hall = Transformation::of(Some(1.5), 25);
        assert!((hall.apply(2.0) - (2.45 + 0.08 / 3.0)).abs() < 1e-12);
        assert!((hall.apply(-2.0) - (-1.55 - 0.08 / 3.0)).abs() < 1e-12);
        for t in [-9.0, -2.0, 0.0, 0.3, 5.0] {
            assert!((hall.invert(hall.apply(t)) - t).abs() < 1e-9);
        }
        // Symmetric rows, no skewness known, or many rows: T itself.
        for (skew, n) in [(Some(0.0), 25), (None, 2), (Some(1.5), 60)] {
            let same = Transformation::of(skew, n);
            assert_eq!((same.apply(1.7), same.invert(1.7)), (1.7, 1.7));
        }
    }
}
