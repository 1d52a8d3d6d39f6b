//! Theorem 3 at α = 1 where few clients take part: its step size is too small by the factor b.

use serde::Serialize;

use super::quadratic::Quadratics;
use super::simulation::Simulation;
use super::{Effort, mean};
use crate::theory::objective::norm_squared;

/// Represents Theorem 3 at α = 1, K = 1 and τ = 1, without noise, for growing T.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selection {
    /// n
    pub clients: usize,
    /// One row per T.
    pub rows: Vec<SelectionRow>,
}

/// Represents the results at one T.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SelectionRow {
    /// T
    pub steps: u64,
    /// With η_t = 16/(μ(t+a)), as printed.
    pub printed: Sides,
    /// With η_t = 16/(bμ(t+a)).
    pub repaired: Sides,
}

/// Represents both sides of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sides {
    /// The mean over seeds and clients of fᵢ(v̂ᵢ) − fᵢ*.
    pub measured: f64,
    /// The bound.
    pub bound: f64,
    /// measured ≤ bound
    pub holds: bool,
}

/// The number of clients, of which one takes part at a time.
const CLIENTS: usize = 50;

/// Simulates both step sizes. With τ = 1 a cohort is independent of the models that it starts
/// from, so that sampling leaves no gap in the proof.
pub fn check(times: &[u64], effort: &Effort) -> Selection {
    let problem = Quadratics {
        sigma2: 0.0,
        ..Quadratics::spread(CLIENTS, 1, 1.0, 1.0, 1.0, effort.seed)
    };
    let b = 1.0 / CLIENTS as f64;
    let sides = |steps: u64, c: f64| {
        let simulation = Simulation::new(&problem, steps, 1, 1, c);
        let runs = (0..effort.seeds)
            .map(|s| problem.run(&simulation, &[1.0], effort.seed + s).personal[0]);
        let measured = mean(runs);
        let bound = theorem_3_bound_at_one(&problem, &simulation, b);
        Sides {
            measured,
            bound,
            holds: measured <= bound,
        }
    };
    let row = |steps: &u64| SelectionRow {
        steps: *steps,
        printed: sides(*steps, 16.0),
        repaired: sides(*steps, 16.0 / b),
    };
    Selection {
        clients: CLIENTS,
        rows: times.iter().map(row).collect(),
    }
}

/// Returns the bound of Theorem 3's proof at α = 1 without noise: p₀‖v̂ᵢ⁽¹⁾ − vᵢ*‖²/(bη₀S_T)
/// = μa³‖v̂ᵢ⁽¹⁾ − vᵢ*‖²/(c·b·S_T), mean over clients.
fn theorem_3_bound_at_one(problem: &Quadratics, simulation: &Simulation, b: f64) -> f64 {
    let start = mean(problem.centers.iter().map(|center| norm_squared(center)));
    let first = problem.mu() * simulation.a.powi(3) / simulation.c;
    first * start / (b * simulation.weights())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By Jensen's inequality the error at α = 1 is at least that of the expected model: with
    /// h = 1 it is Eṽ⁽ᵗ⁾ − c = −c·Π_{s≤t}(1 − η_s/n). That alone exceeds the printed bound.
    #[test]
    fn the_expected_model_alone_is_above_the_printed_bound() {
        let effort = Effort {
            seeds: 20,
            ..Effort::default()
        };
        let steps = 100_000;
        let n = CLIENTS as f64;
        let a = 128.0;
        let (mut left, mut sum, mut total) = (1.0, 0.0, 0.0);
        for t in 1..=steps {
            let t = t as f64;
            left *= 1.0 - 16.0 / (t + a) / n;
            sum += (t + a).powi(2) * left;
            total += (t + a).powi(2);
        }
        let expected: f64 = sum / total; // of v̂ᵢ − cᵢ over −cᵢ
        let problem = Quadratics::spread(CLIENTS, 1, 1.0, 1.0, 1.0, effort.seed);
        let start = mean(problem.centers.iter().map(|c| c[0] * c[0]));
        let least = 0.5 * expected.powi(2) * start;
        let bound = a.powi(3) / 16.0 * start * n / total;
        assert!(least > 1000.0 * bound, "{least} {bound}");
        let found = check(&[steps], &effort).rows[0];
        assert!((found.printed.bound / bound - 1.0).abs() < 1e-9);
        assert!(!found.printed.holds && found.printed.measured > 0.8 * least);
        assert!(found.repaired.holds, "{found:?}");
    }
}
