//! Simulates Algorithm 1 on quadratics with one Hessian for all clients.

use apfl::rng::{Purpose, Stream, stream};
use rand::RngExt;
use rand::seq::index::sample;
use rand_distr::StandardNormal;

use super::simulation::Simulation;
use crate::theory::objective::{axpy, distance_squared, norm_squared};

/// fᵢ(x) = ½ Σⱼ hⱼ(xⱼ − cᵢⱼ)², with noise of variance σ² added to every gradient.
///
/// Then w* = mean cᵢ, vᵢ* = cᵢ, ζᵢ = ‖h∘(w* − cᵢ)‖² at every point, μ = min h, L = max h.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadratics {
    /// h, the diagonal of the Hessian.
    pub hessian: Vec<f64>,
    /// cᵢ
    pub centers: Vec<Vec<f64>>,
    /// σ² = E‖noise‖²
    pub sigma2: f64,
}

/// Represents the models after step t, before they are averaged or broadcast.
#[derive(Debug)]
pub struct Visit<'a> {
    /// t; in the paper's proofs these models are those of t + 1, reached at the rate η_t.
    pub t: u64,
    /// U_t
    pub cohort: &'a [usize],
    /// wᵢ; only those of the cohort are current.
    pub copies: &'a [Vec<f64>],
    /// w, the mean of the cohort's copies.
    pub w: &'a [f64],
    /// vᵢ of every α and client.
    pub v: &'a [Vec<Vec<f64>>],
}

/// Represents the result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// ‖w − w*‖² after T steps, w the mean of the cohort's copies.
    pub distance: f64,
    /// F(ŵ) − F*
    pub gap: f64,
    /// For every α: the mean over clients of fᵢ(v̂ᵢ) − fᵢ*.
    pub personal: Vec<f64>,
}

impl Quadratics {
    /// Creates n random centers in ℝᵈ of deviation `spread`; h evenly spaced from μ to L; σ² = 1.
    pub fn spread(n: usize, size: usize, mu: f64, l: f64, spread: f64, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::Theory, 0, u64::MAX);
        let h = |j: usize| mu + (l - mu) * j as f64 / (size.max(2) - 1) as f64;
        let mut center = |_| (0..size).map(|_| spread * normal(&mut rng)).collect();
        Self {
            centers: (0..n).map(&mut center).collect(),
            hessian: (0..size).map(h).collect(),
            sigma2: 1.0,
        }
    }

    /// Moves the first client's center to the mean of the others, so that ζᵢ = Δᵢ = 0 there.
    pub fn with_average_client(mut self) -> Self {
        let others = Self {
            centers: self.centers[1..].to_vec(),
            ..self.clone()
        };
        self.centers[0] = others.optimum();
        self
    }

    /// n
    pub fn clients(&self) -> usize {
        self.centers.len()
    }

    /// Returns the number of parameters.
    pub fn size(&self) -> usize {
        self.hessian.len()
    }

    /// μ
    pub fn mu(&self) -> f64 {
        self.hessian.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// L
    pub fn l(&self) -> f64 {
        self.hessian.iter().copied().fold(0.0, f64::max)
    }

    /// w*
    pub fn optimum(&self) -> Vec<f64> {
        let mut w = vec![0.0; self.size()];
        let share = 1.0 / self.clients() as f64;
        self.centers.iter().for_each(|c| axpy(&mut w, share, c));
        w
    }

    /// ζᵢ
    pub fn zeta_i(&self, i: usize) -> f64 {
        let w = self.optimum();
        let parts = self.hessian.iter().zip(&w).zip(&self.centers[i]);
        parts.map(|((h, w), c)| (h * (w - c)).powi(2)).sum()
    }

    /// ζ = Σ ζᵢ
    pub fn zeta(&self) -> f64 {
        (0..self.clients()).map(|i| self.zeta_i(i)).sum()
    }

    /// Δᵢ
    pub fn delta(&self, i: usize) -> f64 {
        distance_squared(&self.centers[i], &self.optimum())
    }

    /// Returns ‖w⁽¹⁾ − w*‖², where every run starts at 0.
    pub fn start_distance(&self) -> f64 {
        norm_squared(&self.optimum())
    }

    /// Returns ∇fᵢ(x) for `center` = cᵢ, and ∇F(x) for `center` = w*.
    pub fn gradient(&self, center: &[f64], x: &[f64]) -> Vec<f64> {
        let parts = self.hessian.iter().zip(x).zip(center);
        parts.map(|((h, x), c)| h * (x - c)).collect()
    }

    /// Returns fᵢ(x) − fᵢ* for `center` = cᵢ, and F(x) − F* for `center` = w*.
    fn gap(&self, center: &[f64], x: &[f64]) -> f64 {
        let parts = self.hessian.iter().zip(x).zip(center);
        parts.map(|((h, x), c)| 0.5 * h * (x - c).powi(2)).sum()
    }

    /// Runs Algorithm 1 with the same path w for every α:
    ///
    /// ```text
    /// every τ steps:  w ← mean of wⱼ over U, sample U of K clients, wᵢ ← w
    /// wᵢ ← wᵢ − η_t(∇fᵢ(wᵢ) + ξ)      vᵢ ← vᵢ − η_t α(∇fᵢ(αvᵢ + (1−α)wᵢ) + ξ)
    /// ŵ = (1/S_T) Σ_t p_t·w̄⁽ᵗ⁾        v̂ᵢ = (1/S_T) Σ_t p_t(αvᵢ⁽ᵗ⁾ + (1−α)w̄⁽ᵗ⁾)
    /// ```
    ///
    /// with w̄⁽ᵗ⁾ = (1/K) Σ_{j∈U} wⱼ⁽ᵗ⁾; clients outside U keep vᵢ.
    pub fn run(&self, simulation: &Simulation, alphas: &[f64], seed: u64) -> Outcome {
        self.run_observed(simulation, alphas, seed, &mut |_| {})
    }

    /// Runs Algorithm 1 and passes the models after every step to `observe`.
    pub fn run_observed(
        &self,
        simulation: &Simulation,
        alphas: &[f64],
        seed: u64,
        observe: &mut dyn FnMut(&Visit<'_>),
    ) -> Outcome {
        let (n, size, k) = (self.clients(), self.size(), simulation.cohort);
        let deviation = (self.sigma2 / size as f64).sqrt();
        let mu = self.mu();
        let mut w = vec![0.0; size];
        let mut copies = vec![vec![0.0; size]; n];
        let mut v = vec![vec![vec![0.0; size]; n]; alphas.len()];
        let mut w_sum = vec![0.0; size];
        let mut v_sum = v.clone();
        let mut xi = vec![0.0; size];
        let mut cohort: Vec<usize> = (0..n).collect();
        let mut rng = stream(seed, Purpose::Theory, 1, 0);
        for t in 1..=simulation.steps {
            if (t - 1) % simulation.tau == 0 {
                if k < n {
                    cohort = sample(&mut rng, n, k).into_vec();
                    cohort.sort_unstable();
                }
                cohort.iter().for_each(|i| copies[*i].copy_from_slice(&w));
            }
            let eta = simulation.rate(mu, t);
            for &i in &cohort {
                let center = &self.centers[i];
                if deviation > 0.0 {
                    xi.iter_mut()
                        .for_each(|x| *x = deviation * normal(&mut rng));
                }
                for (alpha, v) in alphas.iter().zip(&mut v) {
                    for j in 0..size {
                        let mixed = alpha * v[i][j] + (1.0 - alpha) * copies[i][j];
                        let g = self.hessian[j] * (mixed - center[j]) + xi[j];
                        v[i][j] -= eta * alpha * g;
                    }
                }
                for j in 0..size {
                    let g = self.hessian[j] * (copies[i][j] - center[j]) + xi[j];
                    copies[i][j] -= eta * g;
                }
            }
            w.fill(0.0);
            cohort
                .iter()
                .for_each(|i| axpy(&mut w, 1.0 / k as f64, &copies[*i]));
            observe(&Visit {
                t,
                cohort: &cohort,
                copies: &copies,
                w: &w,
                v: &v,
            });
            let weight = simulation.weight(t);
            axpy(&mut w_sum, weight, &w);
            for (v, sum) in v.iter().flatten().zip(v_sum.iter_mut().flatten()) {
                axpy(sum, weight, v);
            }
        }
        let total = simulation.weights();
        let w_star = self.optimum();
        let w_hat: Vec<f64> = w_sum.iter().map(|s| s / total).collect();
        let personal = alphas.iter().zip(&v_sum).map(|(alpha, sums)| {
            let gaps = sums.iter().zip(&self.centers).map(|(sum, center)| {
                let parts = sum.iter().zip(&w_hat);
                let v_hat: Vec<f64> = parts
                    .map(|(s, w)| alpha * s / total + (1.0 - alpha) * w)
                    .collect();
                self.gap(center, &v_hat)
            });
            gaps.sum::<f64>() / n as f64
        });
        Outcome {
            distance: distance_squared(&w, &w_star),
            gap: self.gap(&w_star, &w_hat),
            personal: personal.collect(),
        }
    }
}

fn normal(rng: &mut Stream) -> f64 {
    rng.sample(StandardNormal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Quadratics {
        Quadratics {
            hessian: vec![1.0, 2.0],
            centers: vec![vec![1.0, 0.0], vec![-1.0, 4.0]],
            sigma2: 0.0,
        }
    }

    #[test]
    fn constants_by_hand() {
        let q = two();
        assert_eq!(q.optimum(), [0.0, 2.0]);
        assert_eq!((q.mu(), q.l()), (1.0, 2.0));
        assert_eq!((q.zeta_i(0), q.zeta()), (17.0, 34.0)); // 1² + (2·2)²
        assert_eq!((q.delta(0), q.start_distance()), (5.0, 4.0));
        let simulation = Simulation::of_theorem_2(&q, 2, 300, 2);
        assert_eq!(simulation.a, 300.0);
        assert_eq!(Simulation::of_theorem_2(&q, 2, 1, 2).a, 256.0); // 128·2
        assert_eq!(Simulation::of_theorem_4(&q, 2, 1, 2).a, 128.0); // 64·2
        assert_eq!(simulation.rate(2.0, 20), 0.025); // 16/(2·320)
        assert_eq!(q.gradient(&q.centers[1], &[1.0, 1.0]), [2.0, -6.0]);
        assert_eq!(simulation.weights(), 301.0 * 301.0 + 302.0 * 302.0);
    }

    /// Two steps of τ = 2 by hand, a = 14 so that η₁ = 16/15 and η₂ = 1, in one dimension
    /// with h = 1, c = ±1 about 0 … w₁ = 0 − (16/15)(0 − 1) = 16/15, then with η = 1 it is
    /// exactly 1; client 2 mirrors it, so w̄ = 0 throughout and ŵ = 0. At α = ½ client 1:
    /// v = (16/15)·½·1 = 8/15 after step 1, v̄ = ½·8/15 + ½·16/15 = 4/5, then
    /// v = 8/15 − ½(4/5 − 1) = 19/30. v̂ = ½(225·8/15 + 256·19/30)/(225 + 256).
    #[test]
    fn two_steps_by_hand() {
        let q = Quadratics {
            hessian: vec![1.0],
            centers: vec![vec![1.0], vec![-1.0]],
            sigma2: 0.0,
        };
        let simulation = Simulation {
            steps: 2,
            tau: 2,
            cohort: 2,
            c: 16.0,
            a: 14.0,
        };
        let outcome = q.run(&simulation, &[0.5, 0.0], 1);
        let v_hat: f64 = 0.5 * (225.0 * 8.0 / 15.0 + 256.0 * 19.0 / 30.0) / 481.0;
        assert!((outcome.personal[0] - 0.5 * (v_hat - 1.0).powi(2)).abs() < 1e-12);
        assert_eq!((outcome.gap, outcome.distance), (0.0, 0.0));
        assert_eq!(outcome.personal[1], 0.5); // v̂ = ŵ = 0
    }

    /// At α = 1 the personal model is one machine's SGD: with noise its error at T = 4000
    /// is that of the lemma's scale σ²/(μ²T), and ten clients' mean is better.
    #[test]
    fn noise_averages_out_over_clients() {
        let q = Quadratics::spread(10, 4, 1.0, 2.0, 0.0, 5);
        let simulation = Simulation::of_theorem_2(&q, 4000, 1, 10);
        let outcome = q.run(&simulation, &[1.0], 5);
        assert!(outcome.gap < 0.5 * outcome.personal[0], "{outcome:?}");
    }
}
