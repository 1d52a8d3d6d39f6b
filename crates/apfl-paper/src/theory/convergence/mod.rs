//! Checks the convergence theorems on problems with a known optimum.
//!
//! Algorithm 1 is simulated literally, in f64, on quadratics with one Hessian for all (so
//! that ζ is finite) and additive gradient noise; Theorems 5 and 6 on a small network.

use apfl::error::Result;
use serde::Serialize;

pub mod bounded;
mod bounds_table;
pub mod deviation;
pub mod lemma;
pub mod network;
pub mod quadratic;
pub mod selection;
pub mod simulation;
mod table;

use bounded::Bounded;
use deviation::{Comparison, Statement, compare};
use lemma::{Lemma, lemma_bound, printed_lemma_bound};
use network::Nonconvex;
use quadratic::Quadratics;
use selection::Selection;
use simulation::Simulation;

pub use table::text;

/// Represents how much to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effort {
    /// The seed of everything random.
    pub seed: u64,
    /// Repetitions to average for an expectation.
    pub seeds: u64,
    /// The largest T on quadratics.
    pub longest: u64,
    /// The largest T on the network.
    pub network_longest: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            seed: 1,
            seeds: 20,
            longest: 100_000,
            network_longest: 30_000,
        }
    }
}

/// Represents the results of the simulations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Convergence {
    /// How much was simulated.
    pub effort: Effort,
    /// The problem's μ, L, κ, ζ/n, mean Δᵢ, σ².
    pub problem: Problem,
    /// Theorems 2 and 3.
    pub strongly_convex: Vec<Setting>,
    /// The residual's law in α.
    pub residual: Residual,
    /// The corrected lemma against the measurement.
    pub lemma: Vec<Lemma>,
    /// The lemmas on the gradient gap and on deviations, at every step.
    pub deviations: Vec<Comparison>,
    /// Theorem 4.
    pub bounded: Bounded,
    /// Theorem 3 at α = 1 where few clients take part.
    pub selection: Selection,
    /// Theorems 5 and 6.
    pub nonconvex: Nonconvex,
}

/// Represents the quadratics' constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// n
    pub clients: usize,
    /// The number of parameters.
    pub size: usize,
    /// μ
    pub mu: f64,
    /// L
    pub l: f64,
    /// κ
    pub kappa: f64,
    /// σ²
    pub sigma2: f64,
    /// ζ/n
    pub zeta_mean: f64,
    /// The mean of Δᵢ.
    pub delta_mean: f64,
}

/// Represents the results of one choice of K and τ, for growing T.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The description.
    pub name: String,
    /// K
    pub cohort: usize,
    /// One row per T.
    pub rows: Vec<Row>,
    /// The slope of log(F(ŵ) − F*) over log T, of the last three rows; Theorem 2: −1.
    pub slope: f64,
    /// (α, slope) for the personal models.
    pub personal_slopes: Vec<(f64, f64)>,
}

/// Represents the results at one T.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// T
    pub steps: u64,
    /// τ
    pub tau: u64,
    /// Mean over seeds of F(ŵ) − F*.
    pub gap: f64,
    /// Theorem 2's leading term with its constant: 8T(T+1+2a)σ²/(μ·K·S_T).
    pub leading: f64,
    /// (α, mean over seeds and clients of fᵢ(v̂ᵢ) − fᵢ*).
    pub personal: Vec<(f64, f64)>,
    /// (α, α²σ²/(μbT) + (1−α)²(ζᵢ/μ + κLΔᵢ)/b): Theorem 3's two leading terms without
    /// their constants, mean over clients.
    pub personal_leading: Vec<(f64, f64)>,
}

/// Represents how fᵢ(v̂ᵢ) − fᵢ* depends on α without noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residual {
    /// T
    pub steps: u64,
    /// τ
    pub tau: u64,
    /// (α, mean over clients of fᵢ(v̂ᵢ) − fᵢ*).
    pub gaps: Vec<(f64, f64)>,
    /// The slope of its logarithm over log(1−α); the theorem's law: 2.
    pub exponent: f64,
    /// (α, (1−α)²(ζᵢ/μ + κLΔᵢ)): the theorem's residual, which does not fall with T.
    pub theorem: Vec<(f64, f64)>,
    /// The slope of the measured one over log T, at α = 0.9.
    pub slope_in_steps: f64,
}

const ALPHAS: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 0.98, 1.0];

/// Simulates all theorems. Calls `progress` with the stage.
pub fn check(
    effort: &Effort,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<Convergence> {
    let problem = Quadratics::spread(10, 5, 1.0, 5.0, 1.0, effort.seed);
    let n = problem.clients();
    let times = growing(effort.longest);
    let settings = [
        ("all clients, τ = √(T/n)", n, None),
        ("half of them, τ = √(T/K)", n / 2, None),
        ("half of them, τ = 10", n / 2, Some(10)),
    ];
    let mut strongly_convex = Vec::new();
    for (done, (name, k, tau)) in settings.into_iter().enumerate() {
        progress("Theorems 2 and 3", done as u64, settings.len() as u64);
        strongly_convex.push(setting(&problem, name, k, tau, &times, effort));
    }
    progress("the residual", 0, 0);
    let residual = residual(&problem, &times);
    progress("the lemma", 0, 0);
    let lemma = times.iter().map(|t| check_lemma(&problem, *t, 10, effort));
    let lemma = lemma.collect();
    progress("the lemmas on gradients and deviations", 0, 0);
    let deviations = deviations(&problem, times[2], effort);
    progress("Theorem 4", 0, 0);
    let bounded = bounded::check(&problem, &times, effort);
    progress("Theorem 3 with few clients", 0, 0);
    let selection = selection::check(&times, effort);
    let nonconvex = network::check(effort, progress)?;
    Ok(Convergence {
        effort: *effort,
        problem: Problem {
            clients: n,
            size: problem.size(),
            mu: problem.mu(),
            l: problem.l(),
            kappa: problem.l() / problem.mu(),
            sigma2: problem.sigma2,
            zeta_mean: problem.zeta() / n as f64,
            delta_mean: mean((0..n).map(|i| problem.delta(i))),
        },
        strongly_convex,
        residual,
        lemma,
        deviations,
        bounded,
        selection,
        nonconvex,
    })
}

/// Returns five values of T, each about 3.16 times the one before.
fn growing(longest: u64) -> Vec<u64> {
    let factor = 10f64.sqrt();
    let time = |k: i32| (longest as f64 / factor.powi(k)).round().max(1.0) as u64;
    (0..5).rev().map(time).collect()
}

fn setting(
    problem: &Quadratics,
    name: &str,
    k: usize,
    tau: Option<u64>,
    times: &[u64],
    effort: &Effort,
) -> Setting {
    let n = problem.clients();
    let (mu, l, sigma2) = (problem.mu(), problem.l(), problem.sigma2);
    let b = (k as f64 / n as f64).min(0.5);
    let row = |steps: u64| {
        let tau = tau.unwrap_or((steps as f64 / k as f64).sqrt().round().max(1.0) as u64);
        let simulation = Simulation::of_theorem_2(problem, steps, tau, k);
        let runs: Vec<_> = (0..effort.seeds)
            .map(|s| problem.run(&simulation, &ALPHAS, effort.seed + s))
            .collect();
        let t = steps as f64;
        let leading = 8.0 * t * (t + 1.0 + 2.0 * simulation.a) * sigma2;
        Row {
            steps,
            tau,
            gap: mean(runs.iter().map(|run| run.gap)),
            leading: leading / (mu * k as f64 * simulation.weights()),
            personal: pairs(|j| mean(runs.iter().map(|run| run.personal[j]))),
            personal_leading: pairs(|j| {
                let alpha = ALPHAS[j];
                let residual = |i| problem.zeta_i(i) / mu + l / mu * l * problem.delta(i);
                let residual = mean((0..n).map(residual));
                alpha.powi(2) * sigma2 / (mu * b * t) + (1.0 - alpha).powi(2) * residual / b
            }),
        }
    };
    let rows: Vec<Row> = times.iter().map(|t| row(*t)).collect();
    let last = &rows[rows.len().saturating_sub(3)..];
    Setting {
        name: name.into(),
        cohort: k,
        slope: slope(last.iter().map(|r| (r.steps as f64, r.gap))),
        personal_slopes: pairs(|j| slope(last.iter().map(|r| (r.steps as f64, r.personal[j].1)))),
        rows,
    }
}

/// Simulates without noise, where only the drift of the copies wᵢ between synchronizations is left.
fn residual(problem: &Quadratics, times: &[u64]) -> Residual {
    let alphas = [0.5, 0.75, 0.9, 0.95, 0.98];
    let noiseless = Quadratics {
        sigma2: 0.0,
        ..problem.clone()
    };
    let n = noiseless.clients();
    let run = |steps: u64| {
        let tau = (steps as f64 / n as f64).sqrt().round().max(1.0) as u64;
        let simulation = Simulation::of_theorem_2(&noiseless, steps, tau, n);
        (tau, noiseless.run(&simulation, &alphas, 0))
    };
    let steps = *times.last().expect("five of them");
    let (tau, last) = run(steps);
    let at_09: Vec<_> = times[times.len() - 3..]
        .iter()
        .map(|t| (*t as f64, run(*t).1.personal[2]))
        .collect();
    let term = |i| {
        noiseless.zeta_i(i) / noiseless.mu()
            + noiseless.l() / noiseless.mu() * noiseless.l() * noiseless.delta(i)
    };
    let term = mean((0..n).map(term));
    let gaps = alphas.iter().copied().zip(last.personal.iter().copied());
    Residual {
        steps,
        tau,
        exponent: slope(gaps.clone().map(|(alpha, gap)| (1.0 - alpha, gap))),
        gaps: gaps.collect(),
        theorem: alphas
            .iter()
            .map(|a| (*a, (1.0 - a).powi(2) * term))
            .collect(),
        slope_in_steps: slope(at_09.into_iter()),
    }
}

/// Measures E‖w⁽ᵀ⁺¹⁾ − w*‖² over seeds, with full participation, against the lemma.
pub fn check_lemma(problem: &Quadratics, steps: u64, tau: u64, effort: &Effort) -> Lemma {
    let n = problem.clients();
    let simulation = Simulation::of_theorem_2(problem, steps, tau, n);
    let runs = (0..effort.seeds).map(|s| problem.run(&simulation, &[], effort.seed + s).distance);
    Lemma {
        steps,
        tau,
        measured: mean(runs),
        bound: lemma_bound(problem, &simulation),
        printed: printed_lemma_bound(problem, &simulation),
    }
}

/// Compares both lemmas without sampling and with half of the clients, of whom one is at the mean.
fn deviations(problem: &Quadratics, steps: u64, effort: &Effort) -> Vec<Comparison> {
    let n = problem.clients();
    let sampled = problem.clone().with_average_client();
    let drift = [Statement::Deviation, Statement::MeanDeviation];
    let gap = [Statement::Gap, Statement::GapWithoutZeta];
    let run = |problem: &Quadratics, tau, cohort, statements: &[Statement]| {
        let simulation = Simulation::of_theorem_2(problem, steps, tau, cohort);
        compare(problem, &simulation, 0.9, statements, effort)
    };
    [
        run(problem, 10, n, &gap[..1]),
        run(problem, 10, n, &drift),
        run(problem, 100, n, &drift),
        run(&sampled, 1, n / 2, &gap),
        run(&sampled, 10, n / 2, &gap),
        run(&sampled, 10, n / 2, &drift),
    ]
    .concat()
}

fn pairs(value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    (0..ALPHAS.len()).map(|j| (ALPHAS[j], value(j))).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(n, sum), x| (n + 1, sum + x));
    sum / f64::from(count)
}

/// Returns the least-squares slope of log y over log x.
pub fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.ln())).collect();
    let (x, y) = (
        mean(logs.iter().map(|p| p.0)),
        mean(logs.iter().map(|p| p.1)),
    );
    let (mut top, mut bottom) = (0.0, 0.0);
    for (a, b) in logs {
        top += (a - x) * (b - y);
        bottom += (a - x).powi(2);
    }
    top / bottom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_times() {
        let power = [1.0, 10.0, 100.0].map(|x: f64| (x, 7.0 * x.powf(-1.5)));
        assert!((slope(power.into_iter()) + 1.5).abs() < 1e-12);
        assert_eq!(growing(100_000), [1000, 3162, 10_000, 31_623, 100_000]);
    }

    /// The corrected lemma lies above the mean over 20 seeds, on a problem where noise,
    /// drift and start all matter.
    #[test]
    fn the_corrected_lemma_bounds_the_measurement() {
        let effort = Effort::default();
        for (tau, sigma2) in [(1, 1.0), (10, 1.0), (25, 0.0)] {
            let problem = Quadratics {
                sigma2,
                ..Quadratics::spread(5, 3, 1.0, 3.0, 1.0, 7)
            };
            for steps in [50, 500, 3000] {
                let lemma = check_lemma(&problem, steps, tau, &effort);
                assert!(
                    lemma.measured > 0.0 && lemma.measured <= lemma.bound,
                    "{lemma:?}"
                );
            }
        }
    }
}
