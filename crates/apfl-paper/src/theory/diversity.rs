//! Measures ζᵢ, ζ, Γ and σ² at points that a run visited.

use apfl::error::Result;
use apfl::model::Workspace;
use apfl::rng::{Purpose, stream};
use rand::seq::SliceRandom;
use serde::Serialize;

use super::federation::Federation;
use super::objective::{axpy, distance_squared};

/// Batches for estimating σ² if there is no formula.
pub const BATCHES: usize = 32;

/// Represents suprema over visited points; the paper's are over all of ℝᵈ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diversity {
    /// ζᵢ of every client.
    pub zeta_i: Vec<f64>,
    /// ζ = Σ ζᵢ
    pub zeta: f64,
    /// Γ over pairs of visited points.
    pub gamma: f64,
    /// The largest variance of a mini-batch gradient of every client.
    pub sigma2_i: Vec<f64>,
    /// σ²: the largest over clients and visited points.
    pub sigma2: f64,
    /// The mean over clients and visited points.
    pub sigma2_mean: f64,
    /// How σ² was found.
    pub sigma2_how: String,
}

/// Measures, at each point x, with ∇F = (1/n) Σ ∇fᵢ:
///
/// ```text
/// ζᵢ = sup ‖∇F(x) − ∇fᵢ(x)‖²      Γ = sup ‖∇F(x₁) − ∇F(x₂)‖²
/// σᵢ² = sup E‖∇fᵢ(x; ξ) − ∇fᵢ(x)‖² = (m−B)/(B(m−1)) · (1/m) Σⱼ ‖∇ℓⱼ − ∇ℓ̄‖²
/// ```
///
/// where ξ is B of m examples sampled without replacement, as in training (the last, shorter
/// batch of a permutation varies more). For models that are not linear, gradients of single
/// examples are not available, and σᵢ² is the mean over some random batches.
pub fn measure(
    federation: &Federation<'_>,
    points: &[Vec<f64>],
    batch: Option<usize>,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Diversity> {
    let n = federation.clients();
    let size = federation.parameters();
    let mut zeta_i = vec![0.0f64; n];
    let mut sigma2_i = vec![0.0f64; n];
    let mut sigma2_sum = 0.0;
    let mut means: Vec<Vec<f64>> = Vec::new();
    for (p, x) in points.iter().enumerate() {
        let mut mean = vec![0.0; size];
        federation.each(
            |client| {
                let mut g = vec![0.0; size];
                federation.local(client).evaluate(x, &mut g);
                Ok(g)
            },
            |_, g| axpy(&mut mean, 1.0 / n as f64, &g),
        )?;
        // Gradients are recomputed, as n·d numbers may not fit in memory.
        federation.each(
            |client| {
                let mut g = vec![0.0; size];
                let pass = federation.local(client).evaluate(x, &mut g);
                let m = federation.shard(client).train.len();
                let sigma2 = match (batch, pass.variance) {
                    (Some(b), _) if b >= m => 0.0,
                    (None, _) => 0.0,
                    (Some(b), Some(variance)) => variance * without_replacement(m, b),
                    (Some(b), None) => sampled_variance(federation, client, x, &g, b, seed, p),
                };
                Ok((distance_squared(&mean, &g), sigma2))
            },
            |client, (zeta, sigma2)| {
                zeta_i[client] = zeta_i[client].max(zeta);
                sigma2_i[client] = sigma2_i[client].max(sigma2);
                sigma2_sum += sigma2;
            },
        )?;
        means.push(mean);
        progress(p as u64 + 1);
    }
    let pairs = (0..means.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let gamma = pairs
        .map(|(a, b)| distance_squared(&means[a], &means[b]))
        .fold(0.0, f64::max);
    let how = if federation.linear() {
        "exact for batches sampled without replacement".to_string()
    } else {
        format!("estimated from {BATCHES} random batches of every client at every point")
    };
    Ok(Diversity {
        zeta: zeta_i.iter().sum(),
        zeta_i,
        gamma,
        sigma2: sigma2_i.iter().copied().fold(0.0, f64::max),
        sigma2_mean: sigma2_sum / (n * points.len()) as f64,
        sigma2_i,
        sigma2_how: how,
    })
}

/// Returns (m−B)/(B(m−1)), the variance of a mean of B samples relative to that of one.
fn without_replacement(m: usize, b: usize) -> f64 {
    (m - b) as f64 / (b as f64 * (m - 1) as f64)
}

fn sampled_variance(
    federation: &Federation<'_>,
    client: usize,
    x: &[f64],
    full: &[f64],
    batch: usize,
    seed: u64,
    point: usize,
) -> f64 {
    let train = &federation.shard(client).train;
    let mut rng = stream(seed, Purpose::Theory, point as u64, client as u64);
    let at: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let mut order: Vec<u32> = (0..train.len() as u32).collect();
    let mut examples = train.empty_like();
    let mut g = vec![0.0f32; at.len()];
    let mut ws = Workspace::default();
    let mut sum = 0.0;
    for _ in 0..BATCHES {
        let (sampled, _) = order.partial_shuffle(&mut rng, batch);
        train.gather_into(sampled, &mut examples);
        federation
            .model()
            .gradient(&at, &examples.all(), &mut ws, &mut g);
        let terms = g.iter().zip(full);
        sum += terms.map(|(g, f)| (f64::from(*g) - f).powi(2)).sum::<f64>();
    }
    sum / BATCHES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of 2 from {0, 1, 5}: means ½, 5/2, 3; their variance about 2 is
    /// (9/4 + 1/4 + 1)/3 = 7/6. One sample has variance (4 + 1 + 9)/3 = 14/3, times
    /// (3−2)/(2·2) = 7/6.
    #[test]
    fn the_variance_without_replacement() {
        assert!((14.0 / 3.0 * without_replacement(3, 2) - 7.0 / 6.0).abs() < 1e-12);
        assert_eq!(without_replacement(3, 3), 0.0);
        assert_eq!(without_replacement(3, 1), 1.0);
    }
}
