//! The settings of a simulation of Algorithm 1: T, τ, K and the theorems' step sizes.

use super::quadratic::Quadratics;

/// Represents the settings of a simulation of Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulation {
    /// T
    pub steps: u64,
    /// τ
    pub tau: u64,
    /// K
    pub cohort: usize,
    /// c: η_t = c/(μ(t+a)).
    pub c: f64,
    /// a; p_t = (t+a)².
    pub a: f64,
}

impl Simulation {
    /// Creates the settings of Theorems 2 and 3: c = 16, a = max(128κ, τ).
    pub fn of_theorem_2(problem: &Quadratics, steps: u64, tau: u64, cohort: usize) -> Self {
        Self::new(problem, steps, tau, cohort, 16.0)
    }

    /// Creates the settings of Theorem 4: c = 8, a = max(64κ, τ).
    pub fn of_theorem_4(problem: &Quadratics, steps: u64, tau: u64, cohort: usize) -> Self {
        Self::new(problem, steps, tau, cohort, 8.0)
    }

    /// Creates settings with a = max(8cκ, τ), so that η_t ≤ 1/(8L).
    pub fn new(problem: &Quadratics, steps: u64, tau: u64, cohort: usize, c: f64) -> Self {
        let kappa = problem.l() / problem.mu();
        Self {
            steps,
            tau,
            cohort,
            c,
            a: (8.0 * c * kappa).max(tau as f64),
        }
    }

    /// Returns η_t.
    pub fn rate(&self, mu: f64, t: u64) -> f64 {
        self.c / (mu * (t as f64 + self.a))
    }

    /// Returns S_T = Σ p_t.
    pub fn weights(&self) -> f64 {
        (1..=self.steps).map(|t| self.weight(t)).sum()
    }

    /// Returns p_t.
    pub fn weight(&self, t: u64) -> f64 {
        (t as f64 + self.a).powi(2)
    }
}
