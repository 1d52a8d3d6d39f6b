//! Theorem 1's generalization bound, term by term, and the α that minimizes it.

use serde::Serialize;

/// Represents the bound's constants that data cannot determine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Constants {
    /// B: losses lie in [0, B].
    pub b: f64,
    /// G: the loss is G-Lipschitz in the model's output.
    pub g: f64,
    /// C₁ of the uniform convergence terms, which Theorem 1 names C.
    pub c: f64,
    /// C₂ of the corollary's lower bound on a local minimizer's risk.
    pub c2: f64,
    /// d, the VC dimension; by default the number of parameters.
    pub d: Option<f64>,
    /// δ: the bound holds with probability 1 − δ.
    pub delta: f64,
    /// R: models of norm at most R; by default the largest norm among w* and all vᵢ*.
    pub r: Option<f64>,
}

impl Default for Constants {
    /// B = G = C₁ = C₂ = 1, δ = 0.05.
    fn default() -> Self {
        Self {
            b: 1.0,
            g: 1.0,
            c: 1.0,
            c2: 1.0,
            d: None,
            delta: 0.05,
            r: None,
        }
    }
}

impl Constants {
    /// Returns the corollary's condition for the mixed model to beat the local minimizer, with
    /// Theorem 1's factor 4α²C₁: αᵢ ≤ min{√2/2, √(C₂/(4C₁))}.
    pub fn corollary(&self) -> f64 {
        0.5f64.sqrt().min((self.c2 / (4.0 * self.c)).sqrt())
    }

    /// Returns the condition as the corollary prints it, with the factor 2α²C₁:
    /// αᵢ ≤ min{√2/2, √(C₂/(2C₁))}.
    pub fn printed_corollary(&self) -> f64 {
        0.5f64.sqrt().min((self.c2 / (2.0 * self.c)).sqrt())
    }
}

/// Represents what is measured of a client for the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// L̂_D̄(h̄*): the mean over clients of the training loss of w*, without ℓ2.
    pub shared_loss: f64,
    /// ‖D̄ − Dᵢ‖₁, from below: the distance of the label distributions.
    pub label_distance: f64,
    /// m, the training examples of all clients.
    pub m: f64,
    /// L_Dᵢ(hᵢ*), estimated by the training loss of vᵢ*, without ℓ2.
    pub local_loss: f64,
    /// mᵢ, the training examples of this client.
    pub m_i: f64,
    /// The mean of ‖x̃‖ over these, x̃ = (x, 1).
    pub mean_norm: f64,
    /// d
    pub d: f64,
    /// R
    pub r: f64,
}

/// Represents the terms of the bound
///
/// ```text
/// L_Dᵢ(h_α) ≤ 2(1−α)²·(L̂_D̄(h̄*) + B‖D̄−Dᵢ‖₁ + C√((d+log 1/δ)/m))
///           + 2α²·(L_Dᵢ(hᵢ*) + 2C√((d+log 1/δ)/mᵢ) + G·λ_H(Sᵢ))
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// L̂_D̄(h̄*)
    pub shared_loss: f64,
    /// B‖D̄ − Dᵢ‖₁, from below
    pub divergence: f64,
    /// C√((d + log 1/δ)/m)
    pub shared_complexity: f64,
    /// L_Dᵢ(hᵢ*)
    pub local_loss: f64,
    /// 2C√((d + log 1/δ)/mᵢ)
    pub local_complexity: f64,
    /// An upper bound of G·λ_H(Sᵢ): the smaller of 2GR·mean‖x̃‖ and B, as in the proof it is the
    /// difference of two losses in [0, B]
    pub disagreement: f64,
    /// 2GR·mean‖x̃‖ ≥ G·λ_H(Sᵢ)
    pub disagreement_uncapped: f64,
    /// √((d + log 1/δ)/mᵢ)
    pub local_rate: f64,
    /// αᵢ*, which minimizes it: shared/(shared + local)
    pub alpha: f64,
    /// αᵢ* with the uncapped term
    pub alpha_uncapped: f64,
    /// The bound at αᵢ*
    pub at_alpha: f64,
}

impl Bound {
    /// Computes the terms.
    pub fn new(measured: &Measured, constants: &Constants) -> Self {
        let rate = |m: f64| ((measured.d + (1.0 / constants.delta).ln()) / m).sqrt();
        let disagreement = constants.g * 2.0 * measured.r * measured.mean_norm;
        let mut bound = Self {
            shared_loss: measured.shared_loss,
            divergence: constants.b * measured.label_distance,
            shared_complexity: constants.c * rate(measured.m),
            local_loss: measured.local_loss,
            local_complexity: 2.0 * constants.c * rate(measured.m_i),
            disagreement: disagreement.min(constants.b),
            disagreement_uncapped: disagreement,
            local_rate: rate(measured.m_i),
            alpha: 0.0,
            alpha_uncapped: 0.0,
            at_alpha: 0.0,
        };
        let shared = bound.shared();
        let without = bound.local() - bound.disagreement;
        bound.alpha = shared / (shared + bound.local());
        bound.alpha_uncapped = shared / (shared + without + disagreement);
        bound.at_alpha = bound.at(bound.alpha);
        bound
    }

    /// Returns the factor of 2(1−α)².
    pub fn shared(&self) -> f64 {
        self.shared_loss + self.divergence + self.shared_complexity
    }

    /// Returns the factor of 2α².
    pub fn local(&self) -> f64 {
        self.local_loss + self.local_complexity + self.disagreement
    }

    /// Returns the bound at any α.
    pub fn at(&self, alpha: f64) -> f64 {
        2.0 * (1.0 - alpha).powi(2) * self.shared() + 2.0 * alpha.powi(2) * self.local()
    }
}

/// Represents both sides of the corollary against the local empirical risk minimizer ĥᵢ*:
///
/// ```text
/// L_Dᵢ(h_α) − L_Dᵢ(ĥᵢ*) ≤ (2α²−1)·L_Dᵢ(hᵢ*) + (4α²C₁ − C₂)·√((d+log 1/δ)/mᵢ)
///                       + 2α²·G·λ_H(Sᵢ) + 2(1−α)²·(shared terms of Theorem 1)
/// ```
///
/// It is Theorem 1's bound less L_Dᵢ(hᵢ*) + C₂√(…), the lower bound of L_Dᵢ(ĥᵢ*).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corollary {
    /// L_Dᵢ(h_α) − L_Dᵢ(ĥᵢ*), estimated on validation examples.
    pub left: f64,
    /// The right side; below 0 it says that the mixed model is better.
    pub right: f64,
    /// The right side as printed, with 2α²C₁ in the place of 4α²C₁.
    pub right_printed: f64,
    /// left ≤ right
    pub holds: bool,
}

impl Corollary {
    /// Evaluates both sides at α; `left` is measured.
    pub fn new(bound: &Bound, constants: &Constants, alpha: f64, left: f64) -> Self {
        let right = bound.at(alpha) - bound.local_loss - constants.c2 * bound.local_rate;
        Self {
            left,
            right,
            right_printed: right - 2.0 * alpha.powi(2) * constants.c * bound.local_rate,
            holds: left <= right,
        }
    }
}

/// Returns ‖p − q‖₁.
pub fn l1_distance(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum()
}

/// Returns Theorem 3's condition: αᵢ ≥ max{1 − 1/(4√6·κ), 1 − 1/(4√6·κ√μ)}.
pub fn theorem3_threshold(kappa: f64, mu: f64) -> f64 {
    let root = 4.0 * 6f64.sqrt() * kappa;
    (1.0 - 1.0 / root).max(1.0 - 1.0 / (root * mu.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Measured = Measured {
        shared_loss: 0.1,
        label_distance: 0.5,
        m: 100.0,
        local_loss: 1.0,
        m_i: 4.0,
        mean_norm: 1.5,
        d: 3.0,
        r: 2.0,
    };

    /// δ = 1/e makes log 1/δ = 1. With d = 3, m = 100, mᵢ = 4, C = 2: the complexities are
    /// 2·√(4/100) = 0.4 and 2·2·√(4/4) = 4. B = 3, distance ½: 1.5. G = ½, R = 2, mean
    /// norm 1.5: ½·2·2·1.5 = 3. Shared: 0.1 + 1.5 + 0.4 = 2; local: 1 + 4 + 3 = 8;
    /// α* = 2/10, and the bound there is 2·0.64·2 + 2·0.04·8 = 3.2.
    #[test]
    fn the_bound_by_hand() {
        let constants = Constants {
            b: 3.0,
            g: 0.5,
            c: 2.0,
            c2: 1.0,
            delta: (-1f64).exp(),
            ..Constants::default()
        };
        let bound = Bound::new(&MEASURED, &constants);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(bound.divergence, 1.5);
        close(bound.shared_complexity, 0.4);
        close(bound.local_complexity, 4.0);
        close(bound.disagreement, 3.0);
        close(bound.alpha, 0.2);
        close(bound.at_alpha, 3.2);
        // It is the minimum.
        assert!(bound.at(0.19) > bound.at_alpha && bound.at(0.21) > bound.at_alpha);
        // Ten times the norm: 30, capped at B = 3; uncapped 2/(2 + 5 + 30).
        let wide = Bound::new(
            &Measured {
                r: 20.0,
                ..MEASURED
            },
            &constants,
        );
        close(wide.alpha, 0.2);
        close(wide.alpha_uncapped, 2.0 / 37.0);
    }

    /// C₂ = 1 and C₁ = 2: √(1/8), printed as √(1/4); both below √2/2. By default C₂ = C₁: √(1/4),
    /// printed as √(1/2).
    #[test]
    fn the_corollarys_conditions() {
        let constants = Constants {
            c: 2.0,
            ..Constants::default()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(constants.corollary(), 0.125f64.sqrt());
        close(constants.printed_corollary(), 0.5);
        close(Constants::default().corollary(), 0.5);
        close(Constants::default().printed_corollary(), 0.5f64.sqrt());
    }

    /// The bound of `the_bound_by_hand` with C₂ = 3 at α = ½, √((d + log 1/δ)/mᵢ) = 1:
    /// (½ − 1)·1 + (4·¼·2 − 3)·1 + ½·3 + ½·2 = −½ − 1 + 3/2 + 1 = 1; with 2α²C₁ it is 0.
    #[test]
    fn both_sides_of_the_corollary_by_hand() {
        let constants = Constants {
            b: 3.0,
            g: 0.5,
            c: 2.0,
            c2: 3.0,
            delta: (-1f64).exp(),
            ..Constants::default()
        };
        let bound = Bound::new(&MEASURED, &constants);
        let sides = Corollary::new(&bound, &constants, 0.5, 0.75);
        assert!((sides.right - 1.0).abs() < 1e-12, "{sides:?}");
        assert!(sides.right_printed.abs() < 1e-12, "{sides:?}");
        assert!(sides.holds && sides.left == 0.75);
        assert!(!Corollary::new(&bound, &constants, 0.5, 1.25).holds);
    }

    #[test]
    fn the_threshold_of_theorem_3() {
        // κ = 5, μ = 1: 1 − 1/(20√6). μ = ¼: 1/(20√6·½) is larger, the first term wins.
        let first = 1.0 - 1.0 / (20.0 * 6f64.sqrt());
        assert!((theorem3_threshold(5.0, 1.0) - first).abs() < 1e-12);
        assert!((theorem3_threshold(5.0, 0.25) - first).abs() < 1e-12);
        // μ = 4: the second, 1 − 1/(40√6).
        let second = 1.0 - 1.0 / (40.0 * 6f64.sqrt());
        assert!((theorem3_threshold(5.0, 4.0) - second).abs() < 1e-12);
        assert_eq!(l1_distance(&[0.5, 0.5, 0.0], &[0.0, 0.25, 0.75]), 1.5);
    }
}
