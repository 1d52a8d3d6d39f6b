//! The choice against an evaluation in float64.

use apfl::algorithm::apfl::{Chosen, Options};
use apfl::choice::Choosing;
use apfl::data::held_out::HeldOutRows;
use apfl::run::Run;

use super::GRID;
use crate::small::{Slow, classes, full, mean};

/// The whole choice in float64: two folds, full batches, the split of rows alone taken from the
/// library.
#[test]
fn the_choice_is_that_of_a_slow_evaluation() {
    const ROUNDS: usize = 4;
    const STEPS: usize = 3;
    const RATE: f64 = 0.4;
    let small = classes(4, 3, 3, &[], 0.02);
    let slow = Slow::of(&small, 0.02);
    let grid = GRID.map(f64::from);
    let n = small.shards.len();
    let mut choosing = Choosing::from(GRID);
    (choosing.folds, choosing.prior) = (2, 6.0);
    let mut sums = vec![vec![0.0; 1 + grid.len()]; n];
    for part in 1..=2 {
        let aside = HeldOutRows {
            seed: 3,
            folds: 2,
            part,
            share: 0.2,
        };
        let split = |i: usize| {
            let (rest, held) = aside.split(i, slow.data[i].1.len());
            let places = |rows: Vec<u32>| rows.into_iter().map(|r| r as usize).collect::<Vec<_>>();
            (places(rest), places(held))
        };
        let mut w = vec![0.0; 12];
        let mut v = vec![vec![w.clone(); grid.len()]; n];
        // One round more than there are: the local round before the choice.
        for round in 0..=ROUNDS {
            let mut local = vec![w.clone(); n];
            for i in 0..n {
                let (rest, held) = split(i);
                for _ in 0..STEPS {
                    for (v, a) in v[i].iter_mut().zip(grid) {
                        let mixed: Vec<f64> = mixed(a, v, &local[i]);
                        let g = slow.gradient(i, &mixed, &rest);
                        v.iter_mut().zip(g).for_each(|(v, g)| *v -= RATE * a * g);
                    }
                    let g = slow.gradient(i, &local[i], &rest);
                    local[i].iter_mut().zip(g).for_each(|(w, g)| *w -= RATE * g);
                }
                if round == ROUNDS {
                    sums[i][0] += loss(&slow, i, &w, &held);
                    for (k, a) in grid.iter().enumerate() {
                        let model = mixed(*a, &v[i][k], &local[i]);
                        sums[i][1 + k] += loss(&slow, i, &model, &held);
                    }
                }
            }
            w = mean(&local);
        }
    }
    let mut setup = small.setup(full(STEPS as u64, RATE), ROUNDS as u64, 1.0, false);
    setup.threads = 2;
    let run = Run::builder_shared(setup.context.dataset.clone(), small.model.clone())
        .algorithm(Chosen::new(choosing, Options::PAPER))
        .seed(3)
        .rounds(ROUNDS as u64)
        .local_steps(STEPS as u64)
        .learning_rate(RATE)
        .schedule(apfl::Schedule::Constant)
        .full_batch()
        .build()
        .unwrap()
        .train()
        .unwrap();
    let rows: Vec<f64> = (0..n).map(|i| slow.data[i].1.len() as f64).collect();
    let total: f64 = rows.iter().sum();
    let curve: Vec<f64> = (0..5)
        .map(|k| sums.iter().map(|s| s[k]).sum::<f64>() / total)
        .collect();
    let names = ["shared", "0", "0.25", "0.5", "1"];
    for (i, client) in run.clients().unwrap().into_iter().enumerate() {
        let chosen = client.chosen.unwrap();
        assert_eq!(chosen.rows as f64, rows[i]);
        for (k, name) in names.iter().enumerate() {
            let found = chosen.losses[*name].unwrap();
            let wanted = sums[i][k] / rows[i];
            assert!(
                (found - wanted).abs() < 2e-5,
                "client {i}, {name}: {found} {wanted}"
            );
        }
        let score = |k: usize| (sums[i][k] + 6.0 * curve[k]) / (rows[i] + 6.0);
        let best = (0..5)
            .min_by(|a, b| score(*a).total_cmp(&score(*b)))
            .unwrap();
        assert_eq!(chosen.alpha.name(), names[best]);
    }
    let prior = run.summary.prior.unwrap();
    for (name, wanted) in names.iter().zip(&curve) {
        assert!((prior.losses[*name].unwrap() - wanted).abs() < 2e-5);
    }
}

fn mixed(a: f64, v: &[f64], w: &[f64]) -> Vec<f64> {
    v.iter()
        .zip(w)
        .map(|(v, w)| a * v + (1.0 - a) * w)
        .collect()
}

/// Σ −log softmax(z)_y over some of a client's rows.
fn loss(slow: &Slow, client: usize, at: &[f64], rows: &[usize]) -> f64 {
    let (x, y) = &slow.data[client];
    let (d, c) = (slow.width, slow.classes);
    rows.iter()
        .map(|&r| {
            let z: Vec<f64> = (0..c)
                .map(|k| at[d * c + k] + (0..d).map(|j| x[r][j] * at[j * c + k]).sum::<f64>())
                .collect();
            z.iter().map(|z| z.exp()).sum::<f64>().ln() - z[y[r]]
        })
        .sum()
}
