//! `dirichlet`: uneven classes and sizes, in bounded time.

use std::collections::BinaryHeap;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Gamma};

use super::{Assignment, Partition, PartitionKind, UNSET};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream, stream};
use crate::settings::{Kind, Number, Setting, at_least};

const CONCENTRATION: Setting<Number> =
    Setting::number("concentration", 0.1, at_least(1e-6).to(1e6))
        .help("the distribution's parameter: small is uneven");

pub(super) const KIND: PartitionKind = Kind {
    name: "dirichlet",
    about: "each class is divided among the clients by Dirichlet shares",
    settings: &[&CONCENTRATION],
    examples: &["{ kind = 'dirichlet', concentration = 0.5 }"],
    value: |s| Partition::Dirichlet {
        concentration: s.get(&CONCENTRATION),
        clients: UNSET,
    },
};

/// The minimum number of examples per client, if there are enough.
const MIN_EXAMPLES: usize = 10;

/// Divides every class by shares p ~ Dirichlet(concentration, …, concentration): client i has the
/// share pᵢ of that class's examples, in random order.
///
/// The usual remedy against clients without examples is to resample everything until there are
/// none, which may never end. Here a client below the minimum takes random examples one by one from
/// the client that is largest at that moment. The minimum is 10, or half the mean if that is less,
/// but at least 2.
pub(super) fn assign(
    labels: &[u32],
    classes: usize,
    concentration: f64,
    clients: usize,
    seed: u64,
) -> Result<Assignment> {
    let least = MIN_EXAMPLES.min(labels.len() / (2 * clients)).max(2);
    if labels.len() < least * clients {
        return Err(Error::data(format!(
            "{} examples are too few for {clients} clients (data.clients) with at least {least} \
             each",
            labels.len()
        )));
    }
    let mut rng = stream(seed, Purpose::Partition, 0, 2);
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); classes];
    for (row, class) in labels.iter().enumerate() {
        rows[*class as usize].push(row as u32);
    }
    let mut parts: Vec<Vec<u32>> = vec![Vec::new(); clients];
    for mut rows in rows {
        rows.shuffle(&mut rng);
        let shares = dirichlet(concentration, clients, &mut rng);
        // Client i takes the rows from ⌊n·Σ_{j<i} pⱼ⌋ to ⌊n·Σ_{j≤i} pⱼ⌋, the last all the rest.
        let (mut start, mut sum) = (0, 0.0);
        for (client, share) in shares.iter().enumerate() {
            sum += share;
            let end = if client + 1 == clients {
                rows.len()
            } else {
                ((rows.len() as f64 * sum) as usize).clamp(start, rows.len())
            };
            parts[client].extend_from_slice(&rows[start..end]);
            start = end;
        }
    }
    top_up(&mut parts, least, &mut rng);
    let note = format!("every client has at least {least} examples");
    Ok(Assignment::numbered(labels.len(), parts, vec![note]))
}

/// Samples shares that sum to 1. Gammas of a small shape underflow, so their logarithms are
/// sampled: ln Γ(a) = ln Γ(a+1) + ln(U)/a (Marsaglia and Tsang, 2000), relative to the largest.
fn dirichlet(concentration: f64, clients: usize, rng: &mut Stream) -> Vec<f64> {
    let gamma = Gamma::new(concentration + 1.0, 1.0).expect("a positive shape");
    let logs: Vec<f64> = (0..clients)
        .map(|_| {
            let above_zero = 1.0 - rng.random::<f64>(); // in (0, 1]
            f64::ln(gamma.sample(rng)) + above_zero.ln() / concentration
        })
        .collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Moves random rows from the largest clients to those with fewer than `least`.
fn top_up(parts: &mut [Vec<u32>], least: usize, rng: &mut Stream) {
    // Largest first; of equals the first client.
    let entry = |client: usize, part: &Vec<u32>| (part.len(), std::cmp::Reverse(client));
    let mut largest: BinaryHeap<_> = parts.iter().enumerate().map(|(c, p)| entry(c, p)).collect();
    for client in 0..parts.len() {
        while parts[client].len() < least {
            let (size, std::cmp::Reverse(donor)) = largest.pop().expect("as many as clients");
            // An entry is outdated if its client has taken rows since.
            if size != parts[donor].len() || donor == client {
                continue;
            }
            let at = rng.random_range(0..size);
            let row = parts[donor].swap_remove(at);
            parts[client].push(row);
            largest.push(entry(donor, &parts[donor]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_clients_and_a_tiny_concentration_end() {
        let labels: Vec<u32> = (0..60_000).map(|row| row % 10).collect();
        let assignment = assign(&labels, 10, 0.05, 10_000, 1).unwrap();
        let sizes = || assignment.clients.iter().map(|c| c.1.len());
        assert_eq!(sizes().sum::<usize>(), 60_000);
        assert!(sizes().min() >= Some(3)); // half the mean of 6
        let all = assign(&labels, 10, 1e-6, 10_000, 1).unwrap();
        assert_eq!(all.clients.iter().map(|c| c.1.len()).sum::<usize>(), 60_000);
    }

    #[test]
    fn shares_sum_to_one_and_follow_the_concentration() {
        let mut rng = stream(1, Purpose::Partition, 0, 9);
        let largest = |concentration, rng: &mut Stream| {
            let shares = dirichlet(concentration, 100, rng);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            shares.into_iter().fold(0.0, f64::max)
        };
        // Var pᵢ = (1/n)(1−1/n)/(nc+1): with c = 10⁴ a share is 0.01 ± 0.0001.
        assert!(largest(1e4, &mut rng) < 0.0105);
        assert!(largest(1e-4, &mut rng) > 0.99);
    }

    #[test]
    fn the_minimum_is_reached_and_too_few_examples_are_an_error() {
        let labels: Vec<u32> = (0..400).map(|row| row % 2).collect();
        let assignment = assign(&labels, 2, 0.01, 20, 7).unwrap();
        assert!(assignment.clients.iter().all(|c| c.1.len() >= 10));
        let error = assign(&labels, 2, 0.01, 201, 7).unwrap_err().to_string();
        assert!(
            error.contains("400 examples are too few for 201 clients"),
            "{error}"
        );
    }
}
