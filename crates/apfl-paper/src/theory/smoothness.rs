//! Measures μ, L and κ.

use apfl::curvature::{direction, hessian_times, loss_curvature, power_iteration, second_moment};
use apfl::error::Result;
use apfl::rng::{Purpose, Stream, stream};
use serde::Serialize;

use super::federation::Federation;
use super::objective::{Objective, axpy, norm_squared};

/// Represents μ, L and κ = L/μ of all clients' objectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Smoothness {
    /// μ: every fᵢ is μ-strongly convex; 0 if unknown.
    pub mu: f64,
    /// L: the gradient of every fᵢ is L-Lipschitz.
    pub l: f64,
    /// κ = L/μ if μ > 0.
    pub kappa: Option<f64>,
    /// Whether L is an estimate.
    pub estimate: bool,
    /// How they were determined.
    pub how: String,
}

/// Returns Lᵢ of every client (0 if not estimated), and μ, L, κ of all: from the data for a linear
/// model, otherwise estimated at some visited points.
pub fn measure(
    federation: &Federation<'_>,
    points: &[Vec<f64>],
    seed: u64,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<(Vec<f64>, Smoothness)> {
    let model = federation.model();
    let l2 = f64::from(model.l2());
    let n = federation.clients();
    let rng = |point: u64, client: usize| stream(seed, Purpose::Theory, point, client as u64);
    if federation.linear() {
        let c = loss_curvature(model.loss());
        let mut l_i = Vec::with_capacity(n);
        federation.each(
            |client| {
                let train = &federation.shard(client).train;
                let moment = second_moment(train, rng(u64::MAX, client));
                Ok(c * moment + l2)
            },
            |_, l| {
                l_i.push(l);
                progress("largest eigenvalues", l_i.len() as u64, n as u64);
            },
        )?;
        let l = l_i.iter().copied().fold(0.0, f64::max);
        let smoothness = Smoothness {
            mu: l2,
            l,
            kappa: (l2 > 0.0).then_some(l / l2),
            estimate: false,
            how: format!(
                "from the data: μ = λ, the ℓ2 coefficient; L = {c}·λ_max + λ with λ_max the \
                 largest eigenvalue of any client's second moment of (x, 1), by power iteration"
            ),
        };
        return Ok((l_i, smoothness));
    }
    const ITERATIONS: usize = 12;
    const CLIENTS: usize = 20;
    let clients: Vec<usize> = (0..n).step_by(n.div_ceil(CLIENTS)).collect();
    let mut visited = vec![0, points.len() / 2, points.len() - 1];
    visited.dedup();
    let mut l_i = vec![0.0f64; n];
    for (done, point) in visited.iter().enumerate() {
        federation.each_of(
            &clients,
            |client| {
                let f = federation.local(client);
                let rng = &mut rng(u64::MAX - *point as u64, client);
                Ok(hessian_norm(&f, &points[*point], ITERATIONS, rng))
            },
            |client, l| l_i[client] = l_i[client].max(l),
        )?;
        progress("curvature", done as u64 + 1, visited.len() as u64);
    }
    let smoothness = Smoothness {
        mu: 0.0,
        l: l_i.iter().copied().fold(0.0, f64::max),
        kappa: None,
        estimate: true,
        how: format!(
            "an estimate: {ITERATIONS} power iterations on finite-difference Hessian products \
             at {} visited points of {} clients; a network is not strongly convex",
            visited.len(),
            clients.len()
        ),
    };
    Ok((l_i, smoothness))
}

/// Estimates ‖∇²fᵢ(x)‖: the largest ‖∇²fᵢ(x)·u‖ of some power iterations.
pub fn hessian_norm(f: &Objective<'_>, x: &[f64], iterations: usize, rng: &mut Stream) -> f64 {
    let h = 1e-3 * norm_squared(x).sqrt().max(1.0);
    let gradient = |u: &[f64], by: f64| {
        let (mut at, mut out) = (x.to_vec(), vec![0.0; x.len()]);
        axpy(&mut at, by, u);
        f.evaluate(&at, &mut out);
        out
    };
    let norms = power_iteration(direction(x.len(), rng), |u| hessian_times(u, h, gradient));
    norms.take(iterations).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apfl::data::{Examples, Features, Targets};
    use apfl::model::Loss;
    use apfl::model::mlp::Mlp;

    /// x ∈ {3, −3}: the second moment of (x, 1) is diag(9, 1). x ∈ {0, 2}: it is
    /// ((2, 1), (1, 1)), whose largest eigenvalue is (3 + √5)/2.
    #[test]
    fn the_second_moment_of_two_examples() {
        let rng = || stream(1, Purpose::Theory, 0, 0);
        let two = |a, b| {
            Examples::new(
                1,
                Features::Floats(vec![a, b]),
                Targets::Values(vec![1.0, 2.0]),
            )
        };
        let found = second_moment(&two(3.0, -3.0), rng());
        assert!((found - 9.0).abs() < 1e-8, "{found}");
        let found = second_moment(&two(0.0, 2.0), rng());
        assert!((found - 0.5 * (3.0 + 5f64.sqrt())).abs() < 1e-8, "{found}");

        // Squared error: the Hessian is the second moment itself plus λ, at every point.
        let examples = two(0.0, 2.0);
        let model = Mlp::new(1, &[], 1, Loss::SquaredError, 0.25);
        let f = Objective::new(&model, true, &examples);
        let estimate = hessian_norm(&f, &[1.0, -4.0], 60, &mut rng());
        assert!((estimate - found - 0.25).abs() < 1e-6, "{estimate}");
    }

    /// The curvature is attained: softmax at p = (½, ½), logistic at z = 0, by second
    /// differences of the losses along the worst direction.
    #[test]
    fn curvatures_are_tight_upper_bounds() {
        let logistic = |z: f64| (1.0 + (-z).exp()).ln();
        let softmax = |z: f64| (z.exp() + (-z).exp()).ln() - z; // z along (1, −1)
        let second = |f: &dyn Fn(f64) -> f64, z: f64| {
            let h = 1e-4;
            (f(z + h) - 2.0 * f(z) + f(z - h)) / (h * h)
        };
        assert!((second(&logistic, 0.0) - loss_curvature(Loss::Logistic)).abs() < 1e-6);
        // (1, −1) has the squared norm 2.
        assert!((second(&softmax, 0.0) / 2.0 - loss_curvature(Loss::Softmax)).abs() < 1e-6);
        for z in [-3.0, -0.4, 1.7] {
            assert!(second(&logistic, z) < loss_curvature(Loss::Logistic));
            assert!(second(&softmax, z) / 2.0 < loss_curvature(Loss::Softmax));
        }
    }
}
