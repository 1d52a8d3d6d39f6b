//! SCAFFOLD, perFedAvg and pFedMe: steps derived by hand, a slow float64 evaluation, and
//! the invariants that public implementations break.

use crate::small::{self, Hand, Slow, apart, classes, full, mean, quadratics};
use apfl::algorithm::perfedavg::{self, PerFedAvg};
use apfl::algorithm::pfedme::{self, PFedMe};
use apfl::algorithm::scaffold::{Control, Localized, Scaffold};
use apfl::algorithm::{AlgorithmSpec, FedAvg};
use apfl::data::Targets;
use apfl::local_client::LocalTraining;
use apfl::schedule::{Per, Schedule};
use apfl::spec::Spec;
use apfl::training::Training;

/// The bias, which is all that moves in [`quadratics`].
fn b(params: &[f32]) -> f32 {
    assert_eq!((params.len(), params[0]), (2, 0.0));
    params[1]
}

fn corrected(control: Control) -> Scaffold {
    Scaffold {
        control,
        localized: Localized::Corrected,
    }
}

#[test]
fn two_rounds_of_scaffold_by_hand() {
    // Targets 4 and 0, η = ½, τ = 2, so f' = y − t. Round 1, c = 0:
    //   A: 0 → 2 → 3, B: 0;  x = 1.5;  c_A = (0 − 3)/(½+½) = −3, c_B = 0;  c = −1.5
    // Round 2: A is corrected by c − c_A = 1.5, B by −1.5:
    //   A: 1.5 → 1.5 − ½(−2.5 + 1.5) = 2 → 2 − ½(−2 + 1.5) = 2.25
    //   B: 1.5 − ½(1.5 − 1.5) = 1.5, and again;  x = 1.875
    //   c_A = −3 + 1.5 + (1.5 − 2.25) = −2.25, c_B = 1.5;  c = −1.5 + (0.75 + 1.5)/2
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let scaffold = corrected(Control::Drift);
    let mut hand = Hand::new(scaffold, small.setup(full(2, 0.5), 2, 1.0, false));
    hand.step();
    assert_eq!(b(&hand.shared()), 1.5);
    assert_eq!(b(&hand.locals[0].control), -3.0);
    assert_eq!(b(&hand.server.sent.control), -1.5);
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 2.25);
    assert_eq!(b(&seen[1].localized), 1.5);
    assert_eq!(b(&hand.shared()), 1.875);
    assert_eq!(b(&hand.locals[0].control), -2.25);
    assert_eq!(b(&hand.locals[1].control), 1.5);
    assert_eq!(b(&hand.server.sent.control), -0.375);
}

#[test]
fn two_rounds_of_scaffold_with_fresh_controls_by_hand() {
    // As above, but c_A = f'(x) = −4 after round 1, so c = −2. Round 2, corrections ±2:
    //   A: 1.5 − ½(−2.5 + 2) = 1.75 → 1.75 − ½(−2.25 + 2) = 1.875
    //   B: 1.5 − ½(1.5 − 2) = 1.75 → 1.75 − ½(1.75 − 2) = 1.875
    //   c_A = −2.5, c_B = 1.5;  c = −2 + (1.5 + 1.5)/2
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let scaffold = corrected(Control::Fresh);
    let mut hand = Hand::new(scaffold, small.setup(full(2, 0.5), 2, 1.0, false));
    hand.step();
    assert_eq!(b(&hand.locals[0].control), -4.0);
    assert_eq!(b(&hand.server.sent.control), -2.0);
    let seen = hand.step();
    assert_eq!(b(&seen[0].localized), 1.875);
    assert_eq!(b(&seen[1].localized), 1.875);
    assert_eq!(b(&hand.server.sent.control), -0.5);
}

#[test]
fn the_localized_scaffold_of_plain_sgd_by_hand() {
    // As in the first test, x = 1.5 after round 1. Round 2 without corrections, from x:
    //   A: 1.5 → 1.5 − ½(1.5 − 4) = 2.75 → 2.75 − ½(2.75 − 4) = 3.375
    //   B: 1.5 → 0.75 → 0.375
    // In round 1 all corrections are 0: A 0 → 2 → 3.
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let setup = small.setup(full(2, 0.5), 2, 1.0, false);
    let plain = Scaffold {
        localized: Localized::Sgd,
        ..corrected(Control::Drift)
    };
    let mut hand = Hand::new(plain, setup);
    let seen = hand.step();
    assert_eq!((b(&seen[0].localized), b(&seen[1].localized)), (3.0, 0.0));
    let seen = hand.step();
    assert_eq!(
        (b(&seen[0].localized), b(&seen[1].localized)),
        (3.375, 0.375)
    );
    for seen in &seen {
        assert_eq!(seen.personal.as_ref(), Some(&seen.localized));
    }
    // What is sent does not change: x and c of the first test.
    assert_eq!(b(&hand.shared()), 1.875);
    assert_eq!(b(&hand.server.sent.control), -0.375);
}

/// Batches, augmentation and masks come from streams; a rewound client repeats them all.
#[test]
fn the_localized_scaffold_of_plain_sgd_is_fedavgs_from_the_same_model() {
    let small = classes(5, 4, 3, &[], 1e-3);
    for control in [Control::Drift, Control::Fresh] {
        for batch in [Some(3), None] {
            // Three batches of 3 do not divide the rows: passes end within a round.
            let local_training = LocalTraining {
                batch,
                ..full(4, 0.3)
            };
            let setup = small.setup(local_training, 3, 0.6, true);
            let plain = Scaffold {
                localized: Localized::Sgd,
                ..corrected(control)
            };
            let mut plain = Hand::new(plain, setup.clone());
            let mut corrected = Hand::new(corrected(control), setup.clone());
            let mut fedavg = Hand::new(FedAvg, setup);
            for round in 1..=3 {
                fedavg.server.model = plain.shared();
                let (of_plain, of_corrected) = (plain.step(), corrected.step());
                let of_fedavg = fedavg.step();
                for k in 0..of_plain.len() {
                    assert_eq!(of_plain[k].localized, of_fedavg[k].localized);
                    let same = of_plain[k].localized == of_corrected[k].localized;
                    assert_eq!(same, round == 1, "round {round}");
                }
                // The shared model and all controls are those of the other, to the bit.
                assert_eq!(plain.server, corrected.server);
                assert_eq!(plain.locals, corrected.locals);
            }
        }
    }
}

#[test]
fn the_fingerprint_does_not_depend_on_scaffolds_localized_model() {
    let run = |localized: &str| {
        let spec = format!(
            "data = {{ kind = 'synthetic', clients = 4 }}
             model = {{ kind = 'mlp', hidden = [8], dropout = 0.25 }}
             algorithm = {{ kind = 'scaffold', localized = '{localized}' }}
             federation.participation = 0.5
             training = {{ rounds = 3, local_steps = 3, batch = 20 }}"
        );
        let plan = Spec::parse(&spec).unwrap().plan().unwrap();
        let algorithm = plan.algorithm.clone();
        let mut training = Training::new(plan.setup().unwrap(), &algorithm).unwrap();
        let mut scores = Vec::new();
        while let Some(round) = training.next_round().unwrap() {
            scores.extend(round.scores);
        }
        (training.fingerprint().unwrap(), scores)
    };
    let (corrected, plain) = (run("corrected"), run("sgd"));
    assert_eq!(corrected.0, plain.0);
    let (a, b) = (&corrected.1, &plain.1);
    assert_eq!((a[0].shared, a[0].localized), (b[0].shared, b[0].localized));
    assert_eq!(a[2].shared, b[2].shared);
    assert_ne!(a[2].localized, b[2].localized);
}

#[test]
fn scaffolds_first_round_is_fedavgs_to_the_bit() {
    let small = classes(5, 4, 3, &[], 1e-3);
    for control in [Control::Drift, Control::Fresh] {
        let setup = small.setup(full(4, 0.3), 1, 0.6, true);
        let mut scaffold = Hand::new(corrected(control), setup.clone());
        let mut fedavg = Hand::new(FedAvg, setup);
        scaffold.step();
        fedavg.step();
        assert_eq!(scaffold.shared(), fedavg.shared());
    }
}

#[test]
fn the_server_control_is_the_mean_of_all_controls_whoever_takes_part() {
    let small = classes(5, 4, 3, &[], 1e-3);
    for control in [Control::Drift, Control::Fresh] {
        let setup = small.setup(full(3, 0.2), 9, 1.0, false);
        let mut hand = Hand::new(corrected(control), setup);
        let cohorts: [&[usize]; 5] = [&[2], &[0, 1, 2, 3, 4], &[1, 4], &[2, 3, 4], &[0]];
        for cohort in cohorts {
            hand.step_with(cohort);
            let controls: Vec<Vec<f64>> = hand
                .locals
                .iter()
                .map(|l| l.control.iter().map(|c| *c as f64).collect())
                .collect();
            let largest = mean(&controls).iter().fold(0.0f64, |m, c| m.max(c.abs()));
            assert!(largest > 1e-3, "a control that is zero proves nothing");
            assert!(apart(&hand.server.sent.control, &mean(&controls)) < 1e-6);
        }
    }
}

#[test]
fn scaffold_with_one_client_is_sgd() {
    // c = c_A always, so the correction is exactly zero up to the rounding of the mean.
    let small = classes(1, 4, 3, &[], 1e-3);
    let setup = small.setup(full(3, 0.2), 6, 1.0, false);
    let scaffold = corrected(Control::Drift);
    let mut hand = Hand::new(scaffold, setup);
    let slow = Slow::of(&small, 1e-3);
    let mut w = vec![0.0f64; 15];
    for _ in 0..6 {
        hand.step();
        for _ in 0..3 {
            let g = slow.full(0, &w);
            w.iter_mut().zip(g).for_each(|(w, g)| *w -= 0.2 * g);
        }
    }
    assert!(apart(&hand.shared(), &w) < 1e-5);
}

#[test]
fn scaffold_follows_its_float64_evaluation() {
    let (l2, tau, eta, rounds) = (1e-3, 3, 0.25, 12);
    let small = classes(5, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    for fresh in [false, true] {
        let mut local_training = full(tau, eta);
        local_training.schedule = Schedule::Geometric {
            factor: 0.95,
            per: Per::Step,
        };
        let control = if fresh {
            Control::Fresh
        } else {
            Control::Drift
        };
        let setup = small.setup(local_training, rounds, 0.6, false);
        let mut hand = Hand::new(corrected(control), setup.clone());
        let (mut x, mut c) = (vec![0.0f64; 15], vec![0.0f64; 15]);
        let mut c_of = vec![vec![0.0f64; 15]; 5];
        for round in 1..=rounds {
            let cohort = setup.cohort(round);
            let (mut ys, mut change) = (Vec::new(), vec![0.0; 15]);
            for &i in &cohort {
                let mut y = x.clone();
                let mut distance = 0.0;
                for s in 0..tau {
                    let rate = eta * 0.95f64.powi(((round - 1) * tau + s) as i32);
                    let g = slow.full(i, &y);
                    (0..15).for_each(|j| y[j] -= rate * (g[j] + c[j] - c_of[i][j]));
                    distance += rate;
                }
                let g = slow.full(i, &x);
                for j in 0..15 {
                    let next = if fresh {
                        g[j]
                    } else {
                        c_of[i][j] - c[j] + (x[j] - y[j]) / distance
                    };
                    change[j] += next - c_of[i][j];
                    c_of[i][j] = next;
                }
                ys.push(y);
            }
            x = mean(&ys);
            c.iter_mut().zip(&change).for_each(|(c, d)| *c += d / 5.0);
            hand.step();
            assert!(apart(&hand.shared(), &x) < 2e-4, "round {round}");
        }
        assert!(x.iter().any(|x| x.abs() > 0.1));
        // The round loop itself gives what the rounds by hand gave.
        let mut training =
            Training::new(setup, &AlgorithmSpec::Scaffold(corrected(control))).unwrap();
        while training.next_round().unwrap().is_some() {}
        assert_eq!(training.shared(), hand.shared());
    }
}

fn perfedavg(variant: perfedavg::Variant, inner_rate: f32, outer_rate: f32) -> PerFedAvg {
    PerFedAvg {
        variant,
        inner_rate,
        outer_rate,
        delta: 0.5,
    }
}

#[test]
fn a_step_of_perfedavg_by_hand() {
    // Two examples, one of them the meta set: t₁ = 8 and t₂ = 12. From w = 0 with α = ½,
    // β = ¼: θ = 0 − ½(0 − 8) = 4, g₂ = 4 − 12 = −8.
    //   fo: w = 0 + ¼·8 = 2, then θ = 5, g₂ = −7, w = 3.75
    //   hf: f″ = 1, so g₂ − αg₂ = −4, w = 1
    //   sequential: w = 4 + ¼·8 = 6
    use perfedavg::Variant::*;
    let small = quadratics(&[&[8.0, 12.0]], 0.0);
    let after = |variant, tau| {
        let setup = small.setup(full(tau, f64::NAN), 1, 1.0, false);
        let mut hand = Hand::new(perfedavg(variant, 0.5, 0.25), setup);
        let seen = hand.step().remove(0);
        (b(&hand.shared()), b(&seen.personal.unwrap()))
    };
    // Personal: one step on all training examples, mean target 10: 2 − ½(2 − 10) = 6 …
    assert_eq!(after(FirstOrder, 1), (2.0, 6.0));
    assert_eq!(after(FirstOrder, 2), (3.75, 6.875));
    assert_eq!(after(HessianFree, 1), (1.0, 5.5));
    assert_eq!(after(Sequential, 1), (6.0, 8.0));
}

/// The meta set by its own words: max(1, ⌊m/10⌋) rows, evenly spaced.
fn meta(m: usize) -> (Vec<usize>, Vec<usize>) {
    let k = (m / 10).max(1);
    let held_out: Vec<usize> = (0..k)
        .map(|j| ((j as f64 + 0.5) * m as f64 / k as f64).floor() as usize)
        .collect();
    let rest = (0..m).filter(|r| !held_out.contains(r)).collect();
    (held_out, rest)
}

#[test]
fn perfedavg_follows_its_float64_evaluation() {
    let (l2, tau, rounds) = (1e-3, 3, 12);
    let (alpha, beta) = (0.3, 0.2);
    let small = classes(5, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    use perfedavg::Variant::*;
    for variant in [FirstOrder, HessianFree, Sequential] {
        let mut algorithm = perfedavg(variant, alpha as f32, beta as f32);
        algorithm.delta = 0.01;
        let setup = small.setup(full(tau, f64::NAN), rounds, 1.0, false);
        let mut hand = Hand::new(algorithm, setup);
        let mut w = vec![0.0f64; 15];
        for round in 1..=rounds {
            let seen = hand.step();
            let mut all = Vec::new();
            for (i, seen) in seen.iter().enumerate() {
                let (held_out, rest) = meta(slow.data[i].1.len());
                let moved = |x: &[f64], by: f64, g: &[f64]| -> Vec<f64> {
                    x.iter().zip(g).map(|(x, g)| x + by * g).collect()
                };
                let mut w = w.clone();
                for _ in 0..tau {
                    let theta = moved(&w, -alpha, &slow.gradient(i, &w, &rest));
                    let g2 = slow.gradient(i, &theta, &held_out);
                    w = match variant {
                        FirstOrder => moved(&w, -beta, &g2),
                        Sequential | Authors => moved(&theta, -beta, &g2),
                        HessianFree => {
                            // ∇²f·g₂ itself, by a far finer difference than the code's.
                            let ahead = slow.gradient(i, &moved(&w, 1e-5, &g2), &held_out);
                            let behind = slow.gradient(i, &moved(&w, -1e-5, &g2), &held_out);
                            let bend = moved(&ahead, -1.0, &behind);
                            moved(&moved(&w, -beta, &g2), beta * alpha / 2e-5, &bend)
                        }
                    };
                }
                assert!(apart(&seen.localized, &w) < 2e-4);
                let theta = moved(&w, -alpha, &slow.full(i, &w));
                assert!(apart(seen.personal.as_ref().unwrap(), &theta) < 2e-4);
                all.push(w);
            }
            w = mean(&all);
            assert!(
                apart(&hand.shared(), &w) < 2e-4,
                "{variant:?}, round {round}"
            );
        }
        assert!(w.iter().any(|w| w.abs() > 0.1));
    }
}

#[test]
fn first_order_perfedavg_without_inner_step_is_sgd_on_the_meta_set() {
    let small = classes(1, 4, 3, &[], 1e-3);
    let slow = Slow::of(&small, 1e-3);
    let setup = small.setup(full(5, f64::NAN), 1, 1.0, false);
    let algorithm = perfedavg(perfedavg::Variant::FirstOrder, 0.0, 0.3);
    let mut hand = Hand::new(algorithm, setup);
    hand.step();
    let mut w = vec![0.0f64; 15];
    for _ in 0..5 {
        let g = slow.gradient(0, &w, &meta(20).0);
        w.iter_mut().zip(g).for_each(|(w, g)| *w -= 0.3 * g);
    }
    assert!(apart(&hand.shared(), &w) < 1e-6);
}

#[test]
fn perfedavg_never_learns_from_validation_examples() {
    // Shards whose validation labels are turned round leave every model as it was.
    let small = classes(3, 4, 3, &[], 0.0);
    let mut turned = classes(3, 4, 3, &[], 0.0);
    for shard in &mut turned.shards {
        let mut other = (**shard).clone();
        let rows: Vec<u32> = (0..other.valid.len() as u32).rev().collect();
        let Targets::Classes(y) = other.valid.targets() else {
            unreachable!()
        };
        let targets = Targets::Classes(rows.iter().map(|r| 2 - y[*r as usize]).collect());
        other.valid = apfl::data::Examples::new(4, other.valid.features().clone(), targets);
        assert_ne!(other.valid, shard.valid);
        *shard = other.into();
    }
    let algorithm = perfedavg(perfedavg::Variant::FirstOrder, 0.1, 0.1);
    let run = |small: &small::Small| {
        let mut models = Vec::new();
        let setup = small.setup(full(2, 0.1), 3, 1.0, false);
        let mut training = Training::with_algorithm(setup, algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        training
            .finalize(&[0, 1, 2], &mut |d| {
                models.push(d.models.unwrap().personal);
                Ok(())
            })
            .unwrap();
        models
    };
    assert_eq!(run(&small), run(&turned));
}

fn pfedme(variant: pfedme::Variant) -> PFedMe {
    PFedMe {
        variant,
        lambda: 2.0,
        rate: 0.25,
        inner_rate: 0.25,
        inner_steps: 2,
        server: 0.5,
    }
}

#[test]
fn a_round_of_pfedme_by_hand() {
    // Target 8, λ = 2, p = η = ¼, K = 2, β = ½, from w = θ = 0.
    // reference, τ = 2: θ = 0 + ¼·8 = 2 → 2 − ¼(−6 + 4) = 2.5;  w = ½·2.5 = 1.25
    //                   θ → 2.5 − ¼(−5.5 + 2.5) = 3.25 → 3.25 − ¼(−4.75 + 4) = 3.4375
    //                   w = 1.25 + ½·2.1875 = 2.34375;  the server takes half of it
    let small = quadratics(&[&[8.0]], 0.0);
    let setup = small.setup(full(2, f64::NAN), 2, 1.0, false);
    let mut hand = Hand::new(pfedme(pfedme::Variant::Reference), setup);
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.localized), 2.34375);
    assert_eq!(b(&seen.personal.unwrap()), 3.4375);
    assert_eq!(b(&hand.shared()), 1.171875);
    // Next round θ starts at w = 300/256 again: θ = w + ¼(8 − w) = (300 + 437)/256
    hand.setup.context.local_training = full(1, f64::NAN);
    hand.algorithm.inner_steps = 1;
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.personal.unwrap()), 737.0 / 256.0);

    // authors-loop, τ = 3: θ = 2, 2.5; w = 1.25; θ = 2.5 − ¼(−5.5 + 2.5) = 3.25; the last
    // step moves w again: 1.25 + ½·2 = 2.25. The server: 1.125. θ stays 3.25 and goes on:
    // 3.25 − ¼(−4.75 + 2·2.125) = 3.375 → 3.375 − ¼(−4.625 + 2·2.25) = 3.40625
    let setup = small.setup(full(3, f64::NAN), 2, 1.0, false);
    let mut hand = Hand::new(pfedme(pfedme::Variant::AuthorsLoop), setup);
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.localized), 2.25);
    assert_eq!(b(&seen.personal.unwrap()), 3.25);
    assert_eq!(b(&hand.shared()), 1.125);
    hand.setup.context.local_training = full(2, f64::NAN);
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.personal.unwrap()), 3.40625);
    assert_eq!(b(&seen.localized), 2.265625); // 1.125 + ½·2.28125

    // authors: the same where the training's rate is ¼, whatever the algorithm's are.
    let setup = small.setup(full(3, 0.25), 2, 1.0, false);
    let without = PFedMe {
        rate: 0.0,
        inner_rate: 0.0,
        ..pfedme(pfedme::Variant::Authors)
    };
    let mut hand = Hand::new(without, setup);
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.localized), 2.25);
    assert_eq!(b(&seen.personal.unwrap()), 3.25);
}

#[test]
fn the_authors_step_of_pfedme_decays_both_models() {
    // Target 8, λ = 2, η = ¼, μ = 1, one step from w = θ = 4:
    // θ = 4 − ¼(−4 + 1·4 + 2·0) = 4;  w = 4 − ¼(2·0 + 1·4) = 3
    let small = quadratics(&[&[8.0]], 1.0);
    let setup = small.setup(full(1, 0.25), 1, 1.0, false);
    let mut hand = Hand::new(pfedme(pfedme::Variant::Authors), setup);
    (hand.server.model[1], hand.locals[0].theta[1]) = (4.0, 4.0);
    let seen = hand.step().remove(0);
    assert_eq!(b(&seen.personal.unwrap()), 4.0);
    assert_eq!(b(&seen.localized), 3.0);
}

#[test]
fn pfedme_follows_its_float64_evaluation() {
    let (l2, tau, rounds, steps) = (1e-3, 7, 12, 3);
    let (lambda, eta, p, beta) = (2.0, 0.1, 0.1, 0.8);
    let small = classes(5, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    use pfedme::Variant::*;
    for variant in [Reference, AuthorsLoop] {
        let algorithm = PFedMe {
            variant,
            lambda: lambda as f32,
            rate: eta as f32,
            inner_rate: p as f32,
            inner_steps: steps,
            server: beta as f32,
        };
        let setup = small.setup(full(tau, f64::NAN), rounds, 1.0, false);
        let mut hand = Hand::new(algorithm, setup);
        let mut w = vec![0.0f64; 15];
        let mut thetas = vec![vec![0.0f64; 15]; 5];
        for round in 1..=rounds {
            let seen = hand.step();
            let mut all = Vec::new();
            for (i, theta) in thetas.iter_mut().enumerate() {
                let mut w_i = w.clone();
                let inner = |theta: &mut Vec<f64>, w_i: &[f64]| {
                    let g = slow.full(i, theta);
                    (0..15).for_each(|j| theta[j] -= p * (g[j] + lambda * (theta[j] - w_i[j])));
                };
                let outer = |theta: &[f64], w_i: &mut [f64]| {
                    (0..15).for_each(|j| w_i[j] -= eta * lambda * (w_i[j] - theta[j]));
                };
                if variant == Reference {
                    theta.clone_from(&w);
                    for _ in 0..tau {
                        (0..steps).for_each(|_| inner(theta, &w_i));
                        outer(theta, &mut w_i);
                    }
                } else {
                    for s in 1..=tau {
                        inner(theta, &w_i);
                        if [3, 6, 7].contains(&s) {
                            outer(theta, &mut w_i);
                        }
                    }
                }
                assert!(apart(seen[i].personal.as_ref().unwrap(), theta) < 2e-4);
                all.push(w_i);
            }
            let m = mean(&all);
            (0..15).for_each(|j| w[j] = (1.0 - beta) * w[j] + beta * m[j]);
            assert!(
                apart(&hand.shared(), &w) < 2e-4,
                "{variant:?}, round {round}"
            );
        }
        assert!(w.iter().any(|w| w.abs() > 0.05));
    }
}

#[test]
fn pfedme_without_pull_leaves_w_alone_and_theta_is_not_w() {
    let small = classes(3, 4, 3, &[], 0.0);
    for variant in [pfedme::Variant::Reference, pfedme::Variant::AuthorsLoop] {
        let setup = small.setup(full(4, f64::NAN), 3, 1.0, true);
        let w0 = setup.context.w0.to_vec();
        let algorithm = PFedMe {
            lambda: 0.0,
            server: 1.0,
            ..pfedme(variant)
        };
        let mut hand = Hand::new(algorithm, setup.clone());
        for _ in 0..3 {
            for seen in hand.step() {
                assert_eq!(seen.localized, w0);
                assert!(small::gap(&seen.personal.unwrap(), &w0) > 0.01);
            }
        }
        assert_eq!(hand.shared(), w0);
        // What is scored as personal is θ, not wᵢ.
        let mut training = Training::with_algorithm(setup, pfedme(variant)).unwrap();
        let scores = training.next_round().unwrap().unwrap().scores.unwrap();
        assert_ne!(scores.personal.train.loss, scores.localized.train.loss);
    }
}

#[test]
fn every_hyper_parameter_is_checked() {
    for (algorithm, problems) in [
        ("{ kind = 'scaffold', control = 'old' }", 1),
        (
            "{ kind = 'perfedavg', variant = 'so', inner_rate = -1, outer_rate = 0, delta = 0 }",
            4,
        ),
        (
            "{ kind = 'pfedme', variant = 'x', lambda = -1, rate = 0, inner_rate = 0, \
             inner_steps = 0, server = 0 }",
            6,
        ),
    ] {
        let plan = Spec::parse(&format!("algorithm = {algorithm}"))
            .unwrap()
            .plan();
        let Err(apfl::error::Error::Spec(found)) = plan else {
            panic!("{algorithm} was taken")
        };
        assert_eq!(found.0.len(), problems, "{found}");
    }
    let plan = Spec::parse("algorithm = { kind = 'pfedme' }")
        .unwrap()
        .plan()
        .unwrap();
    let AlgorithmSpec::PFedMe(a) = plan.algorithm else {
        panic!("not pFedMe")
    };
    assert_eq!((a.lambda, a.rate, a.inner_rate), (15.0, 0.01, 0.01));
    assert_eq!((a.inner_steps, a.server), (5, 1.0));
    let plan = Spec::parse("algorithm = { kind = 'perfedavg' }")
        .unwrap()
        .plan()
        .unwrap();
    let AlgorithmSpec::PerFedAvg(a) = plan.algorithm else {
        panic!("not perFedAvg")
    };
    assert_eq!((a.inner_rate, a.outer_rate, a.delta), (0.01, 0.001, 1e-3));
}
