//! The lemmas on the gradient gap and on the deviation of the copies wᵢ (the paper's appendix,
//! "Proof of Useful Lemmas"), compared at every step of a simulation.

use serde::Serialize;

use super::Effort;
use super::quadratic::{Quadratics, Visit};
use super::simulation::Simulation;
use crate::theory::objective::{axpy, distance_squared};

/// Represents a bound of one of the two lemmas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// E‖∇fᵢ(v̂ᵢ) − (1/K) Σ_U ∇fⱼ(w)‖²
    /// ≤ 2L²E‖v̂ᵢ − vᵢ*‖² + 6Z + 6L²E‖w − w*‖² + 6L²Δᵢ, with Z = ζᵢ for K = n and
    /// Z = 2ζᵢ + 2ζ/K for K < n.
    Gap,
    /// The same with Z = ζᵢ although K < n, which Theorem 3 is left with after ζ/K is dropped.
    GapWithoutZeta,
    /// E‖w − wᵢ‖² ≤ 3τη²(σ² + τ(ζᵢ + ζ/K)) for every i in U.
    Deviation,
    /// (1/K) Σ_U E‖w − wᵢ‖² ≤ 3τη²(σ² + 2τζ/K).
    MeanDeviation,
}

impl Statement {
    /// Returns whether the paper states it, or is left with it, but it is false.
    pub fn is_misprint(self) -> bool {
        self == Statement::GapWithoutZeta
    }

    /// Returns what the statement is about.
    pub fn name(self) -> &'static str {
        match self {
            Statement::Gap => "gradient gap",
            Statement::GapWithoutZeta => "gradient gap, ζ/K dropped",
            Statement::Deviation => "deviation, every client",
            Statement::MeanDeviation => "deviation, mean",
        }
    }
}

/// Represents the step and client at which a bound is nearest to being violated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The bound.
    pub statement: Statement,
    /// K
    pub cohort: usize,
    /// τ
    pub tau: u64,
    /// T: the number of steps that were compared.
    pub steps: u64,
    /// α, for the gradient gap.
    pub alpha: Option<f64>,
    /// t with the largest measured/bound.
    pub step: u64,
    /// The mean over seeds at this step.
    pub measured: f64,
    /// The bound at this step.
    pub bound: f64,
    /// Whether the bound holds at every step for every client.
    pub holds: bool,
}

/// Represents sums over seeds of both sides at one step for one client.
#[derive(Clone, Copy, Default)]
struct Sides {
    measured: f64,
    bound: f64,
    count: u64,
}

impl Sides {
    fn add(&mut self, measured: f64, bound: f64) {
        self.measured += measured;
        self.bound += bound;
        self.count += 1;
    }
}

/// Simulates Algorithm 1 and compares the statements of both lemmas at every step.
pub fn compare(
    problem: &Quadratics,
    simulation: &Simulation,
    alpha: f64,
    statements: &[Statement],
    effort: &Effort,
) -> Vec<Comparison> {
    let clients = problem.clients();
    let size = simulation.steps as usize * clients;
    let mut sides = vec![vec![Sides::default(); size]; statements.len()];
    let constants = Constants::new(problem, simulation);
    for seed in 0..effort.seeds {
        problem.run_observed(simulation, &[alpha], effort.seed + seed, &mut |visit| {
            let row = (visit.t as usize - 1) * clients;
            for (statement, sides) in statements.iter().zip(&mut sides) {
                constants.observe(*statement, alpha, visit, &mut sides[row..row + clients]);
            }
        });
    }
    let about_gap = |s| matches!(s, Statement::Gap | Statement::GapWithoutZeta);
    let worst = |statement: Statement, sides: &[Sides]| {
        let mean = |k: usize| {
            let count = sides[k].count as f64;
            (sides[k].measured / count, sides[k].bound / count)
        };
        let ratio = |k: usize| mean(k).0 / mean(k).1;
        let seen = (0..size).filter(|k| sides[*k].count > 0);
        let at = seen.max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
        let at = at.expect("T is at least 1");
        let (measured, bound) = mean(at);
        Comparison {
            statement,
            cohort: simulation.cohort,
            tau: simulation.tau,
            steps: simulation.steps,
            alpha: about_gap(statement).then_some(alpha),
            step: (at / clients) as u64 + 1,
            measured,
            bound,
            holds: measured <= bound,
        }
    };
    let pairs = statements.iter().zip(&sides);
    pairs.map(|(s, sides)| worst(*s, sides)).collect()
}

struct Constants<'a> {
    problem: &'a Quadratics,
    simulation: &'a Simulation,
    optimum: Vec<f64>,
    mu: f64,
    l2: f64,
    tau: f64,
    /// ζ/K
    zeta_k: f64,
}

impl<'a> Constants<'a> {
    fn new(problem: &'a Quadratics, simulation: &'a Simulation) -> Self {
        Self {
            problem,
            simulation,
            optimum: problem.optimum(),
            mu: problem.mu(),
            l2: problem.l().powi(2),
            tau: simulation.tau as f64,
            zeta_k: problem.zeta() / simulation.cohort as f64,
        }
    }

    /// Adds both sides at one step: for every client, or at index 0 for a mean.
    fn observe(&self, statement: Statement, alpha: f64, visit: &Visit<'_>, sides: &mut [Sides]) {
        let deviation = |i: usize| distance_squared(visit.w, &visit.copies[i]);
        match statement {
            Statement::Gap | Statement::GapWithoutZeta => {
                for (i, sides) in sides.iter_mut().enumerate() {
                    let (measured, bound) = self.gap(statement, alpha, visit, i);
                    sides.add(measured, bound);
                }
            }
            Statement::Deviation => {
                for &i in visit.cohort {
                    let diversity = self.problem.zeta_i(i) + self.zeta_k;
                    sides[i].add(deviation(i), self.drift(visit.t, diversity));
                }
            }
            Statement::MeanDeviation => {
                let sum: f64 = visit.cohort.iter().map(|i| deviation(*i)).sum();
                let bound = self.drift(visit.t, 2.0 * self.zeta_k);
                sides[0].add(sum / visit.cohort.len() as f64, bound);
            }
        }
    }

    /// Returns 3τη_t²(σ² + τ·diversity).
    fn drift(&self, t: u64, diversity: f64) -> f64 {
        let eta = self.simulation.rate(self.mu, t);
        deviation_bound(self.tau, eta, self.problem.sigma2, diversity)
    }

    /// Returns both sides of the gradient gap at client i.
    fn gap(&self, statement: Statement, alpha: f64, visit: &Visit<'_>, i: usize) -> (f64, f64) {
        let centers = &self.problem.centers;
        let mut v_hat = vec![0.0; visit.w.len()];
        axpy(&mut v_hat, alpha, &visit.v[0][i]);
        axpy(&mut v_hat, 1.0 - alpha, visit.w);
        let mut shared = vec![0.0; visit.w.len()];
        let share = 1.0 / visit.cohort.len() as f64;
        for &j in visit.cohort {
            let gradient = self.problem.gradient(&centers[j], visit.w);
            axpy(&mut shared, share, &gradient);
        }
        let own = self.problem.gradient(&centers[i], &v_hat);
        let zeta_i = self.problem.zeta_i(i);
        let sampled = visit.cohort.len() < self.problem.clients();
        let z = if sampled && statement == Statement::Gap {
            2.0 * zeta_i + 2.0 * self.zeta_k
        } else {
            zeta_i
        };
        let bound = 2.0 * self.l2 * distance_squared(&v_hat, &centers[i])
            + 6.0 * z
            + 6.0 * self.l2 * distance_squared(visit.w, &self.optimum)
            + 6.0 * self.l2 * self.problem.delta(i);
        (distance_squared(&own, &shared), bound)
    }
}

/// Returns the lemma's bound on a squared deviation: 3τη²(σ² + τ·diversity).
pub fn deviation_bound(tau: f64, eta: f64, sigma2: f64, diversity: f64) -> f64 {
    3.0 * tau * eta * eta * (sigma2 + tau * diversity)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Effort = Effort {
        seed: 1,
        seeds: 1,
        longest: 0,
        network_longest: 0,
    };

    /// Two clients in one dimension, h = 1, c = ±1, σ = 0, τ = 2, one step of η₁ = 16/(1 + 15) = 1
    /// from 0: w₁ = 1, w₂ = −1, w = 0 = w*. The deviation is 1 for both clients; ζᵢ = 1 and
    /// ζ/n = 1, so the bound is 3·2·1·(0 + 2·2) = 24 for both statements. At α = ½:
    /// v₁ = ½·1 = ½, v̂₁ = ¼, ∇f₁(v̂₁) = −¾, ∇F(w) = 0: the gap is 9/16, and the bound is
    /// 2·(9/16) + 6·1 + 0 + 6·Δ₁ = 9/8 + 12.
    #[test]
    fn one_step_by_hand() {
        let problem = Quadratics {
            hessian: vec![1.0],
            centers: vec![vec![1.0], vec![-1.0]],
            sigma2: 0.0,
        };
        let simulation = Simulation {
            steps: 1,
            tau: 2,
            cohort: 2,
            c: 16.0,
            a: 15.0,
        };
        let statements = [
            Statement::Gap,
            Statement::Deviation,
            Statement::MeanDeviation,
        ];
        let found = compare(&problem, &simulation, 0.5, &statements, &ONE);
        let sides: Vec<_> = found.iter().map(|c| (c.measured, c.bound)).collect();
        assert_eq!(sides, [(0.5625, 13.125), (1.0, 24.0), (1.0, 24.0)]);
        assert!(found.iter().all(|c| c.holds && c.step == 1));
        assert_eq!(found[0].alpha, Some(0.5));
    }

    /// The measured side grows with τ², as the bound does: without noise two opposite clients
    /// drift apart by τη each.
    #[test]
    fn the_deviation_grows_with_the_square_of_tau() {
        let problem = Quadratics {
            hessian: vec![1.0],
            centers: vec![vec![1.0], vec![-1.0]],
            sigma2: 0.0,
        };
        let measured = |tau: u64| {
            let simulation = Simulation {
                a: 1e6,
                ..Simulation::of_theorem_2(&problem, tau, tau, 2)
            };
            let statement = [Statement::MeanDeviation];
            compare(&problem, &simulation, 1.0, &statement, &ONE)[0].measured
        };
        // w = 0, wᵢ = ±(1 − (1 − η)^τ) ≈ ±τη with η = 16·10⁻⁶.
        assert!((measured(1) / (16e-6f64).powi(2) - 1.0).abs() < 1e-3);
        assert!((measured(20) / measured(1) - 400.0).abs() < 1.0);
    }

    /// For K < n a client at the mean of all, where ζᵢ = Δᵢ = 0, needs the term ζ/K: its gap is
    /// the spread of the cohort's mean gradient, which stays.
    #[test]
    fn theorem_3_cannot_drop_zeta_over_k() {
        let problem = Quadratics::spread(10, 5, 1.0, 5.0, 1.0, 1).with_average_client();
        assert!(problem.zeta_i(0) < 1e-20 && problem.delta(0) < 1e-20);
        let effort = Effort { seeds: 5, ..ONE };
        let simulation = Simulation::of_theorem_2(&problem, 3000, 1, 5);
        let statements = [Statement::Gap, Statement::GapWithoutZeta];
        let found = compare(&problem, &simulation, 0.9, &statements, &effort);
        assert!(found[0].holds, "{found:?}");
        assert!(!found[1].holds, "{found:?}");
    }
}
