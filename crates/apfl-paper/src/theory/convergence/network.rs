//! Simulates Theorems 5 and 6 on a small network: averaged gradient norms for growing T.

use apfl::data::Dataset;
use apfl::data::synthetic::Synthetic;
use apfl::error::Result;
use apfl::model::Loss;
use apfl::model::mlp::Mlp;
use apfl::model::{Network, Workspace};
use apfl::params::{Mean, Params, mix};
use apfl::rng::{Purpose, stream};
use rand::seq::index::sample;
use serde::Serialize;

use super::{Effort, mean, slope};
use crate::theory::federation::Federation;
use crate::theory::objective::{distance_squared, norm_squared, to_f64};
use crate::theory::smoothness::hessian_norm;

/// Represents the results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nonconvex {
    /// n
    pub clients: usize,
    /// The description of the network.
    pub network: String,
    /// L, estimated at the start and at the longest run's end.
    pub l: f64,
    /// One row per T.
    pub rows: Vec<NetworkRow>,
    /// The slope of the averaged ‖∇F‖² over log T; Theorem 5: −½.
    pub slope: f64,
    /// (α, slope) for the personal models.
    pub personal_slopes: Vec<(f64, f64)>,
    /// Mean of ζᵢ over clients, over visited points.
    pub zeta_mean: f64,
    /// Γ over visited points.
    pub gamma: f64,
    /// (α, (1−α²)²(ζᵢ + Γ)): Theorem 6's residual, mean over clients.
    pub residual: Vec<(f64, f64)>,
}

/// Represents the results at one T.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkRow {
    /// T
    pub steps: u64,
    /// τ = n^(−1/4)·T^(1/4)
    pub tau: u64,
    /// η = 1/(2√5·L·√T)
    pub rate: f64,
    /// (1/T) Σ ‖∇F(w⁽ᵗ⁾)‖², over evenly spaced steps.
    pub gradient: f64,
    /// Theorem 5's first term with the proof's constant: 2F(w⁽¹⁾)/(ηT) = 4√5·L·F(w⁽¹⁾)/√T.
    pub leading: f64,
    /// (α, (1/T) Σ ‖∇fᵢ(v̂ᵢ⁽ᵗ⁾)‖², mean over clients).
    pub personal: Vec<(f64, f64)>,
}

const ALPHAS: [f32; 4] = [0.25, 0.5, 0.75, 1.0];
const CLIENTS: usize = 8;
const BATCH: usize = 10;
/// The number of steps at which full gradients are measured.
const MEASUREMENTS: u64 = 50;

struct Path {
    row: NetworkRow,
    end: Vec<f64>,
    zeta_i: Vec<f64>,
    means: Vec<Vec<f64>>,
}

/// Trains the network for growing T and averages squared gradient norms.
pub fn check(
    effort: &Effort,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<Nonconvex> {
    let data = Synthetic {
        clients: CLIENTS,
        gamma: 0.5,
        beta: 0.0,
        features: 6,
        classes: 3,
        iid: false,
        examples: Some(125),
        max_examples: 125,
        min_examples: 0,
        validation: 0.2,
        test: 0.0,
        seed: effort.seed,
    }
    .load()?;
    let model = Mlp::new(6, &[12], 3, Loss::Softmax, 0.0);
    let federation = Federation::new(&data as &dyn Dataset, &model, false, 0)?;
    let start = model
        .layout()
        .uniform(&mut stream(effort.seed, Purpose::Init, 0, 0));
    let curvature = |x: &[f64]| {
        let each = (0..CLIENTS).map(|i| {
            let rng = &mut stream(effort.seed, Purpose::Theory, 2, i as u64);
            hessian_norm(&federation.local(i), x, 12, rng)
        });
        each.fold(0.0, f64::max)
    };
    // L is needed before training but known after it: a pilot run with L at the start finds an
    // end, and the larger L of both points is used.
    let first = curvature(&to_f64(&start));
    progress("Theorems 5 and 6", 0, 6);
    let pilot = run(
        &federation,
        &start,
        effort.network_longest / 10,
        first,
        effort,
    )?;
    let l = first.max(curvature(&pilot.end));
    let mut paths = Vec::new();
    for (done, steps) in super::growing(effort.network_longest)
        .into_iter()
        .enumerate()
    {
        progress("Theorems 5 and 6", done as u64 + 1, 6);
        paths.push(run(
            &federation,
            &start,
            steps.max(MEASUREMENTS),
            l,
            effort,
        )?);
    }
    let last = paths.last().expect("five of them");
    let gamma = last
        .means
        .iter()
        .enumerate()
        .flat_map(|(a, x)| last.means[..a].iter().map(move |y| distance_squared(x, y)))
        .fold(0.0, f64::max);
    let zeta_mean = mean(last.zeta_i.iter().copied());
    let recent = || paths[paths.len() - 3..].iter().map(|p| &p.row);
    Ok(Nonconvex {
        clients: CLIENTS,
        network: "6–12–3, ReLU, softmax".into(),
        l,
        slope: slope(recent().map(|r| (r.steps as f64, r.gradient))),
        personal_slopes: (0..ALPHAS.len())
            .map(|j| {
                let points = recent().map(|r| (r.steps as f64, r.personal[j].1));
                (f64::from(ALPHAS[j]), slope(points))
            })
            .collect(),
        zeta_mean,
        gamma,
        residual: ALPHAS
            .iter()
            .map(|alpha| {
                let alpha = f64::from(*alpha);
                (alpha, (1.0 - alpha * alpha).powi(2) * (zeta_mean + gamma))
            })
            .collect(),
        rows: paths.into_iter().map(|p| p.row).collect(),
    })
}

/// Runs Algorithm 1 with K = n, measuring w⁽ᵗ⁾ = mean wᵢ and v̂ᵢ = αvᵢ + (1−α)w⁽ᵗ⁾.
fn run(
    federation: &Federation<'_>,
    start: &[f32],
    steps: u64,
    l: f64,
    effort: &Effort,
) -> Result<Path> {
    let model = federation.model();
    let n = federation.clients();
    let rate = 1.0 / (2.0 * 5f64.sqrt() * l * (steps as f64).sqrt());
    let tau = ((steps as f64 / n as f64).powf(0.25).round() as u64).max(1);
    let every = (steps / MEASUREMENTS).max(1);
    let eta = rate as f32;
    let mut copies = vec![start.to_vec(); n];
    let mut v = vec![vec![start.to_vec(); ALPHAS.len()]; n];
    let mut rngs: Vec<_> = (0..n)
        .map(|i| stream(effort.seed, Purpose::Theory, 3, i as u64))
        .collect();
    let mut ws = Workspace::default();
    let mut mixed: Params = start.to_vec();
    let mut batch = federation.shard(0).train.empty_like();
    let mut first = vec![0.0; start.len()];
    let mut path = Path {
        row: NetworkRow {
            steps,
            tau,
            rate,
            gradient: 0.0,
            leading: 2.0 * federation.evaluate(&to_f64(start), &mut first)?.0
                / (rate * steps as f64),
            personal: ALPHAS.iter().map(|a| (f64::from(*a), 0.0)).collect(),
        },
        end: Vec::new(),
        zeta_i: vec![0.0; n],
        means: Vec::new(),
    };
    let average = |copies: &[Params]| {
        let mut mean = Mean::default();
        copies.iter().for_each(|w| mean.add(1.0, w));
        mean.value().expect("there is a client")
    };
    let mut count = 0;
    for t in 0..steps {
        if t % every == 0 {
            measure(federation, &average(&copies), &v, &mut path)?;
            count += 1;
        }
        for i in 0..n {
            let train = &federation.shard(i).train;
            let sampled = sample(&mut rngs[i], train.len(), BATCH);
            let sampled: Vec<u32> = sampled.into_iter().map(|j| j as u32).collect();
            train.gather_into(&sampled, &mut batch);
            for (alpha, v) in ALPHAS.iter().zip(&mut v[i]) {
                mix(&mut mixed, *alpha, v, &copies[i]);
                model.descend(Some(&mixed), v, eta * alpha, &batch.all(), &mut ws);
            }
            model.descend(None, &mut copies[i], eta, &batch.all(), &mut ws);
        }
        if (t + 1) % tau == 0 {
            let w = average(&copies);
            copies.iter_mut().for_each(|copy| copy.copy_from_slice(&w));
        }
    }
    path.end = to_f64(&average(&copies));
    let row = &mut path.row;
    row.gradient /= f64::from(count);
    row.personal
        .iter_mut()
        .for_each(|(_, sum)| *sum /= f64::from(count));
    Ok(path)
}

fn measure(
    federation: &Federation<'_>,
    w: &[f32],
    v: &[Vec<Params>],
    path: &mut Path,
) -> Result<()> {
    let size = w.len();
    let at = to_f64(w);
    let mut mean = vec![0.0; size];
    federation.evaluate(&at, &mut mean)?;
    path.row.gradient += norm_squared(&mean);
    let n = federation.clients() as f64;
    federation.each(
        |i| {
            let f = federation.local(i);
            let mut g = vec![0.0; size];
            f.evaluate(&at, &mut g);
            let zeta = distance_squared(&g, &mean);
            let norms: Vec<f64> = ALPHAS
                .iter()
                .zip(&v[i])
                .map(|(alpha, v)| {
                    let mut v_hat = vec![0.0; size];
                    mix(&mut v_hat, *alpha, v, w);
                    f.evaluate(&to_f64(&v_hat), &mut g);
                    norm_squared(&g)
                })
                .collect();
            Ok((zeta, norms))
        },
        |i, (zeta, norms)| {
            path.zeta_i[i] = path.zeta_i[i].max(zeta);
            for (sum, norm) in path.row.personal.iter_mut().zip(norms) {
                sum.1 += norm / n;
            }
        },
    )?;
    path.means.push(mean);
    Ok(())
}
