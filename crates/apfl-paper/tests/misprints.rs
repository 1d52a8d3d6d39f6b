//! The misprints and gaps of the paper's theory that docs/theory.md lists, by number.
//!
//! Each test evaluates a printed statement where it fails, and what stands in its place. Those of
//! rows 1 (the weight), 2, 3, 11, 12 and 13 use the step sizes, weights and conditions of
//! `apfl_paper::theory`. The others (the recursion of row 1, and rows 6, 10, 14, 18, 19 and 22) are
//! pure arithmetic: they check the derivations on that page, and no change of the code breaks them.

use apfl_paper::theory::bound::theorem3_threshold;
use apfl_paper::theory::convergence::bounded::young_weight;
use apfl_paper::theory::convergence::quadratic::Quadratics;
use apfl_paper::theory::convergence::simulation::Simulation;

/// Two quadratics with μ = 2 and L = 2.
fn problem() -> Quadratics {
    Quadratics {
        hessian: vec![2.0],
        centers: vec![vec![1.0], vec![-1.0]],
        sigma2: 1.0,
    }
}

/// Returns whether (1 − γ·μη_t)·p_t/η_t ≤ p_{t−1}/η_{t−1}, which the telescoping sum needs. With
/// x = t + a and μη_t = c/x it is (1 − γc/x)·x³ ≤ (x − 1)³.
fn telescopes(gamma: f64, simulation: &Simulation, t: u64) -> bool {
    let mu = problem().mu();
    let ratio = |t: u64| simulation.weight(t) / simulation.rate(mu, t);
    (1.0 - gamma * mu * simulation.rate(mu, t)) * ratio(t) <= ratio(t - 1)
}

/// Theorem 3's proof has (1 − μη_t/8)p_t/η_t ≤ p_{t−1}/η_{t−1} with η_t = 16/(μ(t+a)):
/// x³ − 2x² ≤ x³ − 3x² + 3x − 1 fails for every x ≥ 3. Theorem 4's 1 − μη_t/4 with
/// η_t = 8/(μ(t+a)) is the same. The contractions that the proofs can have, 15/64 and 3/8, do.
#[test]
fn the_contractions_are_too_weak_for_the_telescoping_sum() {
    let third = Simulation::of_theorem_2(&problem(), 1, 1, 2);
    let fourth = Simulation::of_theorem_4(&problem(), 1, 1, 2);
    for t in [1, 2, 1000, 100_000] {
        assert!(!telescopes(1.0 / 8.0, &third, t) && !telescopes(1.0 / 4.0, &fourth, t));
        assert!(telescopes(15.0 / 64.0, &third, t) && telescopes(3.0 / 8.0, &fourth, t));
        assert!(telescopes(1.0 / 2.0, &third, t)); // the lemma on ‖w − w*‖²
    }
}

/// T₄ ≤ μη_t/4·‖v̂ − v*‖² needs η_t ≤ 1, or the condition with √μ; with η_t ≤ 1/(8L) the first
/// condition alone gives 12L²(1−α)²(1/μ + η_t) ≤ μ/8 + μ/(64κ) ≤ 9μ/64, and 3/8 − 9/64 = 15/64.
#[test]
fn theorem_3s_second_condition_is_not_needed() {
    for (mu, kappa) in [(1e-4, 1.0), (0.1, 5.0), (1.0, 1.0), (50.0, 30.0)] {
        let l: f64 = kappa * mu;
        let alpha = theorem3_threshold(kappa, 1.0); // the first condition, as both are at μ = 1
        let eta = 1.0 / (8.0 * l);
        let found = 12.0 * l * l * (1.0 - alpha) * (1.0 - alpha) * (1.0 / mu + eta);
        let by_hand = mu / 8.0 + mu / (64.0 * kappa);
        assert!((found / by_hand - 1.0).abs() < 1e-9, "{found} {by_hand}");
        assert!(found <= 9.0 / 64.0 * mu * (1.0 + 1e-9));
    }
}

/// 1 − 8(α − α²K/n), by which the proofs divide: with all clients it is negative on
/// (0.146, 0.854), in Theorem 4's range; with K < 7n/8 for every α in Theorem 3's.
#[test]
fn the_weight_of_youngs_inequality_is_negative() {
    for k in 15..=85 {
        assert!(young_weight(f64::from(k) / 100.0, 1.0) < 0.0);
    }
    let least = theorem3_threshold(1.0, 1.0); // κ = 1 has the widest range
    for k in 0..=100 {
        let alpha = least + (1.0 - least) * f64::from(k) / 100.0;
        assert!(young_weight(alpha, 1.0) > 0.0);
        assert!(young_weight(alpha, 0.8749) < 0.0);
    }
}

/// At α = 1 and for fᵢ = μx²/2 without noise a client that takes part with probability r has
/// e_{t+1} = (1 − r(2μη − μ²η²))e_t exactly. Theorem 3's recursion claims
/// (1 − 3μη/8)e_t − bη·μe_t/2: false for r < ¼.
#[test]
fn the_recursion_with_sampling_is_false_for_few_clients() {
    let (mu, eta) = (1.0, 16.0 / 256.0); // t = a = 128
    let exact = |r: f64| 1.0 - r * (2.0 * mu * eta - (mu * eta) * (mu * eta));
    let claimed = |r: f64| 1.0 - 3.0 * mu * eta / 8.0 - r.min(0.5) * mu * eta / 2.0;
    assert!(exact(0.1) > claimed(0.1) && exact(0.2) > claimed(0.2));
    assert!(exact(0.3) < claimed(0.3));
}

/// T₃ with sampling: E‖𝟙∇f‖² = (K/n)‖∇f‖² at α = 1, printed ≤ 2(K/n)²‖∇f‖²: false for K < n/2.
#[test]
fn the_second_moment_of_the_indicator() {
    for (r, holds) in [(0.1f64, false), (0.49, false), (0.5, true), (1.0, true)] {
        assert_eq!(r <= 2.0 * r * r, holds);
    }
}

/// f = x²/2 at y = 1, x = 0: 0 ≥ ½ + ⟨1, y − x⟩ + ½ is false; with x − y it is 0 ≥ 0.
#[test]
fn the_strong_convexity_inequality() {
    let (x, y, mu) = (0.0f64, 1.0f64, 1.0f64);
    let f = |x: f64| 0.5 * x * x;
    let below = |inner: f64| f(y) + y * inner + 0.5 * mu * (x - y) * (x - y);
    assert!(f(x) < below(y - x));
    assert_eq!(f(x), below(x - y));
}

/// F = √(1 + x²) has |F'| < G = 1, and its gradients at ±100 are nearly opposite: Γ → 4G², above
/// 2G². So is ‖∇F − ∇fᵢ‖² in the proof of Theorem 4.
#[test]
fn gamma_is_up_to_four_g_squared() {
    let gradient = |x: f64| x / (1.0 + x * x).sqrt();
    let gamma = (gradient(100.0) - gradient(-100.0)).powi(2);
    assert!(gamma > 3.99 && gamma <= 4.0);
}

/// τ = n^(−¼)·T^¼ leaves T/τ = n^¼·T^¾ rounds: n = 16, T = 16·10⁴: τ = 10, 16,000 rounds, where
/// n^¾·T^¾ = 64,000.
#[test]
fn the_number_of_rounds_of_the_nonconvex_corollary() {
    let (n, t) = (16f64, 160_000f64);
    let tau = n.powf(-0.25) * t.powf(0.25);
    assert!((tau - 10.0).abs() < 1e-9);
    assert!((t / tau - n.powf(0.25) * t.powf(0.75)).abs() < 1e-6);
    assert!((n.powf(0.75) * t.powf(0.75) - 64_000.0).abs() < 1e-6);
    // τ²/T = 1/√(nT), not 1/T: Theorem 5's second term needs its τ².
    assert!((tau * tau / t - 1.0 / (n * t).sqrt()).abs() < 1e-15);
}

/// Theorem 1's first step, ℓ(αz + (1−α)z') ≤ 2α²ℓ(z) + 2(1−α)²ℓ(z'), holds for squared hinge and
/// squared error. For the logistic loss, and so for softmax, it fails at α = ¼ and margins −100 and
/// 10: the mixture's margin is −17.5 and its loss 17.5, the bound 2/16·100 + 2·(9/16)·e⁻¹⁰ = 12.5.
#[test]
fn theorem_1s_first_step_is_not_for_the_logistic_loss() {
    let logistic = |m: f64| (1.0 + (-m).exp()).ln();
    let hinge = |m: f64| (1.0 - m).max(0.0).powi(2);
    let square = |m: f64| (1.0 - m).powi(2);
    let bound = |l: &dyn Fn(f64) -> f64, alpha: f64, z: f64, other: f64| {
        2.0 * alpha * alpha * l(z) + 2.0 * (1.0 - alpha) * (1.0 - alpha) * l(other)
    };
    let mixture = 0.25 * -100.0 + 0.75 * 10.0;
    assert!((logistic(mixture) - 17.5).abs() < 1e-6);
    assert!((bound(&logistic, 0.25, -100.0, 10.0) - 12.5).abs() < 1e-3);
    for k in 0..=20 {
        let alpha = f64::from(k) / 20.0;
        for z in [-100.0, -1.0, 0.5, 3.0, 10.0] {
            for other in [-7.0, 0.0, 0.9, 10.0] {
                let m = alpha * z + (1.0 - alpha) * other;
                assert!(hinge(m) <= bound(&hinge, alpha, z, other) + 1e-9);
                assert!(square(m) <= bound(&square, alpha, z, other) + 1e-9);
                // Jensen's inequality, for any convex loss.
                let jensen = alpha * logistic(z) + (1.0 - alpha) * logistic(other);
                assert!(logistic(m) <= jensen + 1e-9);
            }
        }
    }
}

/// Σ p_tη_t = (8/μ)T(T+1+2a), printed (8/μ)T(T+2a) and T(T+a); S_T ≥ T³/3, printed ≥ T³; the sum
/// of t·p_t/(t+a)³ is near T, printed T/a.
#[test]
fn the_sums() {
    let (mu, steps) = (2.0, 5000);
    let simulation = Simulation::of_theorem_2(&problem(), steps, 1, 2);
    let a = simulation.a;
    assert_eq!(a, 128.0);
    let sum = |of: &dyn Fn(u64) -> f64| (1..=steps).map(of).sum::<f64>();
    let t_ = steps as f64;
    let found = sum(&|t| simulation.weight(t) * simulation.rate(mu, t));
    assert!((found / (8.0 / mu * t_ * (t_ + 1.0 + 2.0 * a)) - 1.0).abs() < 1e-12);
    assert!(found > 8.0 / mu * t_ * (t_ + 2.0 * a) && found > 8.0 / mu * t_ * (t_ + a));
    let s_t = simulation.weights();
    assert!(s_t < t_.powi(3) && s_t > t_.powi(3) / 3.0);
    let third = sum(&|t| t as f64 * simulation.weight(t) / (t as f64 + a).powi(3));
    assert!(third > 0.9 * t_ && t_ / a < 0.01 * t_);
}
