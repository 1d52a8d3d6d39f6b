//! L, the smoothness of the clients' objectives, which the theory's step sizes need.

use rand::RngExt;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::data::{Dataset, Examples};
use crate::error::Result;
use crate::local_client::{LocalClient, LocalTraining, LocalWork, Scratch};
use crate::model::{Loss, Model};
use crate::params::Params;
use crate::rng::{Purpose, Stream, stream};
use crate::schedule::Schedule;

/// Returns the smallest known c with ∇²ℓ ≤ c·I, for a loss ℓ over the outputs.
///
/// Softmax: the eigenvalues of diag(p) − ppᵀ are at most its largest sum of a row's
/// magnitudes, 2p(1−p) ≤ ½; logistic: p(1−p) ≤ ¼; squared hinge: 2 or 0; squared error: 1.
pub fn loss_curvature(loss: Loss) -> f64 {
    match loss {
        Loss::Softmax => 0.5,
        Loss::Logistic => 0.25,
        Loss::SquaredHinge => 2.0,
        Loss::SquaredError => 1.0,
    }
}

/// Returns L of a linear model over all clients:
///
/// ```text
/// ∇²fᵢ = mean ∇²ℓ ⊗ x̃x̃ᵀ + λI ≤ (c·λ_max(mean x̃x̃ᵀ) + λ)·I        x̃ = (x, 1)
/// ```
///
/// The bound follows from the data's second moments and is valid at every point. c is the
/// [`loss_curvature`].
pub fn smoothness_of_linear(dataset: &dyn Dataset, model: &dyn Model, seed: u64) -> Result<f64> {
    let largest = max_over_clients(0..dataset.clients(), |client| {
        let shard = dataset.shard(client)?;
        let rng = stream(seed, Purpose::Theory, 0, client as u64);
        Ok(second_moment(&shard.train, rng))
    })?;
    Ok(loss_curvature(model.loss()) * largest + f64::from(model.l2()))
}

/// The number of clients that an estimate uses.
const ESTIMATED_CLIENTS: usize = 20;

/// Estimates L for any model: the largest |eigenvalue| of ∇²fᵢ(w) over at most 20 evenly
/// spaced clients, by power iteration on differences of gradients. Also returns the number of
/// clients.
pub fn estimate_smoothness(
    dataset: &dyn Dataset,
    model: &dyn Model,
    w: &Params,
    seed: u64,
) -> Result<(f64, usize)> {
    let n = dataset.clients();
    let used = n.min(ESTIMATED_CLIENTS);
    let clients = (0..used).map(|k| (2 * k + 1) * n / (2 * used));
    let largest = max_over_clients(clients, |client| {
        let shard = dataset.shard(client)?;
        let rng = stream(seed, Purpose::Theory, 0, client as u64);
        Ok(largest_eigenvalue(&shard.train, model, w, rng))
    })?;
    Ok((largest, used))
}

/// Returns the maximum over clients. It does not depend on the threads.
fn max_over_clients(
    clients: impl Iterator<Item = usize>,
    of: impl Fn(usize) -> Result<f64> + Sync + Send,
) -> Result<f64> {
    let clients: Vec<usize> = clients.collect();
    clients
        .into_par_iter()
        .map(of)
        .try_reduce(|| 0.0, |a, b| Ok(a.max(b)))
}

/// Returns a unit vector u in a random direction.
pub fn direction(len: usize, rng: &mut Stream) -> Vec<f64> {
    let mut u: Vec<f64> = (0..len).map(|_| rng.sample(StandardNormal)).collect();
    normalize(&mut u);
    u
}

/// Computes u ← u/‖u‖ and returns ‖u‖.
fn normalize(u: &mut [f64]) -> f64 {
    let norm = u.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > 0.0 {
        u.iter_mut().for_each(|x| *x /= norm);
    }
    norm
}

/// Returns the endless power iteration on a symmetric matrix A: u ← Au/‖Au‖, with ‖Au‖ → |λ|,
/// the largest |eigenvalue|. No ‖Au‖ is above it.
pub fn power_iteration(
    mut u: Vec<f64>,
    mut apply: impl FnMut(&[f64]) -> Vec<f64>,
) -> impl Iterator<Item = f64> {
    std::iter::repeat_with(move || {
        u = apply(&u);
        normalize(&mut u)
    })
}

/// Returns the first number within a relative distance `close` of its predecessor, or else the
/// last of `most`.
fn first_converged(numbers: impl Iterator<Item = f64>, most: usize, close: f64) -> f64 {
    let mut last = 0.0;
    for number in numbers.take(most) {
        if (number - last).abs() <= close * number {
            return number;
        }
        last = number;
    }
    last
}

/// Returns ∇²f(x)·u ≈ (∇f(x+hu) − ∇f(x−hu))/2h, where `gradient(u, h)` is ∇f(x+hu).
pub fn hessian_times(
    u: &[f64],
    h: f64,
    mut gradient: impl FnMut(&[f64], f64) -> Vec<f64>,
) -> Vec<f64> {
    let (ahead, behind) = (gradient(u, h), gradient(u, -h));
    let pairs = ahead.iter().zip(&behind);
    pairs.map(|(a, b)| (a - b) / (2.0 * h)).collect()
}

/// Returns λ_max(mean x̃x̃ᵀ), x̃ = (x, 1), over some examples.
pub fn second_moment(examples: &Examples, mut rng: Stream) -> f64 {
    let d = examples.width();
    let mut buffer = Vec::new();
    let batch = examples.all();
    let x = batch.numbers(&mut buffer);
    let m = examples.len() as f64;
    let norms = power_iteration(direction(d + 1, &mut rng), |u| {
        let mut sum = vec![0.0; d + 1];
        let (u, shift) = (&u[..d], u[d]);
        for row in x.chunks_exact(d) {
            let along = row.iter().zip(u).map(|(x, u)| f64::from(*x) * u);
            let along = (along.sum::<f64>() + shift) / m;
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += along * f64::from(*x);
            }
            sum[d] += along;
        }
        sum
    });
    first_converged(norms, 2000, 1e-10)
}

/// Returns the largest |eigenvalue| of ∇²f(w).
fn largest_eigenvalue(examples: &Examples, model: &dyn Model, w: &Params, mut rng: Stream) -> f64 {
    // Large against the rounding of f32 gradients, small against the change of ∇²f.
    const EPSILON: f64 = 1e-2;
    let local_training = LocalTraining {
        work: LocalWork::Steps(1),
        batch: None,
        learning_rate: 0.0,
        schedule: Schedule::Constant,
        momentum: 0.0,
    };
    let mut scratch = Scratch::default();
    let start = direction(w.len(), &mut rng);
    let mut local_client = LocalClient::new(model, examples, local_training, 1, rng, &mut scratch);
    let mut gradient = |u: &[f64], by: f64| {
        let at: Params = w
            .iter()
            .zip(u)
            .map(|(w, u)| (f64::from(*w) + by * u) as f32)
            .collect();
        let mut g = vec![0.0; at.len()];
        local_client.full_gradient(&at, &mut g);
        g.into_iter().map(f64::from).collect()
    };
    let norms = power_iteration(start, |u| hessian_times(u, EPSILON, &mut gradient));
    first_converged(norms, 50, 1e-3)
}
