//! `federation.server`: optimizers that move the shared model.

use super::{SMALL, bits, problems, run, spec, start};
use crate::small::{Slow, apart, classes, fitting, full, mean};
use apfl::FedAvg;
use apfl::aggregation::ServerOptimizer;
use apfl::aggregation::optimizer::AdaptiveMoments;
use apfl::algorithm::every_algorithm;
use apfl::error::Error;
use apfl::run::Checkpoints;
use apfl::spec::Spec;
use apfl::training::Training;

const MOVING: AdaptiveMoments = AdaptiveMoments {
    learning_rate: 0.5,
    momentum: 0.5,
    decay: 0.75,
    adaptivity: 1.0,
};

/// Two steps from 0 towards cohorts at `to`: what w, m and u become.
fn steps(optimizer: ServerOptimizer, to: [f32; 2]) -> Vec<(f32, f64, f64)> {
    let mut moments = optimizer.start(1).unwrap();
    let mut w = 0.0f32;
    to.map(|to| {
        let mut after = [to];
        optimizer.step(&mut moments, &[w], &mut after);
        w = after[0];
        (
            w,
            moments.m[0],
            moments.u.first().copied().unwrap_or(f64::NAN),
        )
    })
    .to_vec()
}

#[test]
fn momentum_by_hand() {
    // η_s = ½, β₁ = ½. Δ = 4: m = 4, w = 2. Then to 3: Δ = 1, m = 2 + 1 = 3, w = 3.5.
    let momentum = ServerOptimizer::Momentum {
        learning_rate: 0.5,
        momentum: 0.5,
    };
    let found = steps(momentum, [4.0, 3.0]);
    assert_eq!((found[0].0, found[0].1), (2.0, 4.0));
    assert_eq!((found[1].0, found[1].1), (3.5, 3.0));
}

fn close(found: (f32, f64, f64), expected: (f64, f64, f64)) {
    let pairs = [
        (f64::from(found.0), expected.0),
        (found.1, expected.1),
        (found.2, expected.2),
    ];
    for (found, expected) in pairs {
        assert!(
            (found - expected).abs() < 1e-6,
            "{found}, expected {expected}"
        );
    }
}

#[test]
fn the_adaptive_ones_by_hand() {
    // τ = 1, so u⁰ = 1; η_s = ½. From 0 to 2: Δ = 2, Δ² = 4.
    //   adagrad  m = 2, u = 5, w = ½·2/(√5 + 1)
    //   adam     m = ½·2 = 1, u = ¾ + ¼·4 = 1.75, w = ½/(√1.75 + 1)
    //   yogi     m = 1, 1 < 4, so u = 1 + ¼·4 = 2, w = ½/(√2 + 1)
    let adagrad = ServerOptimizer::Adagrad {
        learning_rate: 0.5,
        adaptivity: 1.0,
    };
    let first = 1.0 / (5f64.sqrt() + 1.0);
    let found = steps(adagrad, [2.0, 2.0]);
    close(found[0], (first, 2.0, 5.0));
    let delta = 2.0 - first;
    let u = 5.0 + delta * delta;
    close(found[1], (first + 0.5 * delta / (u.sqrt() + 1.0), delta, u));

    let first = 0.5 / (1.75f64.sqrt() + 1.0);
    let found = steps(ServerOptimizer::Adam(MOVING), [2.0, 2.0]);
    close(found[0], (first, 1.0, 1.75));
    let delta = 2.0 - first;
    let (m, u) = (0.5 + 0.5 * delta, 0.75 * 1.75 + 0.25 * delta * delta);
    close(found[1], (first + 0.5 * m / (u.sqrt() + 1.0), m, u));

    let first = 0.5 / (2f64.sqrt() + 1.0);
    let found = steps(ServerOptimizer::Yogi(MOVING), [2.0, first as f32 + 1.0]);
    close(found[0], (first, 1.0, 2.0));
    // Then Δ = 1 and u = 2 > 1: u = 2 − ¼.
    let m = 0.5 + 0.5;
    close(
        found[1],
        (first + 0.5 * m / (1.75f64.sqrt() + 1.0), m, 1.75),
    );
}

#[test]
fn without_momentum_at_rate_one_it_is_the_mean() {
    let settings = ["federation.server={ kind = 'momentum', learning_rate = 1, momentum = 0 }"];
    for algorithm in [
        "{ kind = 'fedavg' }",
        "{ kind = 'scaffold' }",
        "{ kind = 'fedper' }",
    ] {
        let (plain, moved) = (run(algorithm, &[]), run(algorithm, &settings));
        assert_eq!(bits(&plain.shared), bits(&moved.shared), "{algorithm}");
        let mean = run(algorithm, &["federation.server=mean"]);
        assert_eq!(plain.fingerprint, mean.fingerprint);
    }
}

#[test]
fn adam_follows_its_float64_evaluation() {
    let (l2, tau, eta, rounds) = (1e-3, 3, 0.25, 12);
    let small = classes(5, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    let of = AdaptiveMoments {
        learning_rate: 0.1,
        momentum: 0.9,
        decay: 0.99,
        adaptivity: 1e-3,
    };
    for yogi in [false, true] {
        let mut setup = small.setup(full(tau, eta), rounds, 0.6, false);
        setup.server = if yogi {
            ServerOptimizer::Yogi(of)
        } else {
            ServerOptimizer::Adam(of)
        };
        let cohorts: Vec<_> = (1..=rounds).map(|round| setup.cohort(round)).collect();
        let mut training = Training::with_algorithm(setup, FedAvg).unwrap();
        let (mut w, mut m, mut u) = (vec![0.0f64; 15], vec![0.0; 15], vec![1e-6; 15]);
        for cohort in cohorts {
            let local = |i: &usize| {
                let mut x = w.clone();
                for _ in 0..tau {
                    let g = slow.full(*i, &x);
                    (0..15).for_each(|j| x[j] -= eta * g[j]);
                }
                x
            };
            let together = mean(&cohort.iter().map(local).collect::<Vec<_>>());
            for j in 0..15 {
                let delta = together[j] - w[j];
                let square = delta * delta;
                m[j] = 0.9 * m[j] + 0.1 * delta;
                u[j] = if !yogi {
                    0.99 * u[j] + 0.01 * square
                } else if u[j] > square {
                    u[j] - 0.01 * square
                } else {
                    u[j] + 0.01 * square
                };
                w[j] += 0.1 * m[j] / (f64::sqrt(u[j]) + 1e-3);
            }
            training.next_round().unwrap();
            assert!(apart(&training.shared(), &w) < 2e-4);
        }
        assert!(w.iter().any(|w| w.abs() > 0.1));
    }
}

const OPTIMIZERS: [&str; 4] = [
    "{ kind = 'momentum', learning_rate = 0.5 }",
    "{ kind = 'adagrad', learning_rate = 0.05 }",
    "{ kind = 'adam', learning_rate = 0.05 }",
    "{ kind = 'yogi', learning_rate = 0.05 }",
];

#[test]
fn every_algorithm_with_every_optimizer_has_one_result_or_is_refused() {
    let mut refused = 0;
    for algorithm in every_algorithm() {
        let mut seen = std::collections::BTreeSet::new();
        for optimizer in OPTIMIZERS {
            let server = format!("federation.server={optimizer}");
            let of = |threads: &str| {
                let spec = fitting(spec(algorithm, &[&server, threads, "training.rounds=3"]));
                let plan = match spec.plan() {
                    Err(Error::Spec(problems)) => return Err(problems.to_string()),
                    other => other.unwrap(),
                };
                let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
                while training.next_round().unwrap().is_some() {}
                Ok(training.fingerprint().unwrap())
            };
            match of("engine.threads=1") {
                Err(message) => {
                    assert!(message.contains("federation.server: found"), "{message}");
                    refused += 1;
                }
                Ok(one) => {
                    assert_eq!(Ok(&one), of("engine.threads=3").as_ref(), "{algorithm}");
                    assert!(seen.insert(one), "{algorithm} {optimizer}: its own bits");
                }
            }
        }
    }
    // Averaged outputs (2), local, l2gd, hypcluster, pFedMe with a server of its own, and
    // LG-FedAvg with a warm-up.
    assert_eq!(refused, 7 * OPTIMIZERS.len());
}

#[test]
fn a_resumed_run_remembers_its_moments() {
    for optimizer in OPTIMIZERS {
        let server = format!("federation.server={optimizer}");
        let settings = [server.as_str()];
        for algorithm in [
            "{ kind = 'fedavg' }",
            "{ kind = 'fedper' }",
            "{ kind = 'scaffold' }",
        ] {
            let whole = run(algorithm, &settings).fingerprint;
            let dir = tempfile::tempdir().unwrap();
            let mut first = start(algorithm, &settings);
            let mut checkpoints = Checkpoints::new(dir.path(), Default::default());
            for _ in 0..3 {
                first.next_round().unwrap();
            }
            checkpoints.write(&mut first).unwrap();
            let mut resumed = start(algorithm, &settings);
            Checkpoints::resume(dir.path(), Default::default(), false, &mut resumed).unwrap();
            assert_eq!(resumed.round(), 3);
            while resumed.next_round().unwrap().is_some() {}
            assert_eq!(
                resumed.fingerprint().unwrap(),
                whole,
                "{algorithm} {optimizer}"
            );
        }
    }
}

#[test]
fn settings_are_checked_and_spelled_out() {
    let server = |text: &str| format!("federation.server={text}");
    for (text, words) in [
        ("adam", "federation.server.learning_rate: is missing"),
        (
            "{ kind = 'adam', learning_rate = 0 }",
            "learning_rate: found 0",
        ),
        (
            "{ kind = 'yogi', learning_rate = 1, decay = 1 }",
            "decay: found 1",
        ),
        (
            "{ kind = 'adagrad', learning_rate = 1, momentum = 0.5 }",
            "unknown key",
        ),
        ("{ kind = 'mean', learning_rate = 1 }", "unknown key"),
        (
            "{ kind = 'adma', learning_rate = 1 }",
            "did you mean \"adam\"?",
        ),
    ] {
        let message = problems("{ kind = 'fedavg' }", &[&server(text)]);
        assert!(message.contains(words), "{message}");
    }
    let plan = Spec::parse(SMALL).unwrap().plan().unwrap();
    assert_eq!(plan.server, ServerOptimizer::Mean);
    let plan = spec("{ kind = 'fedavg' }", &[&server(OPTIMIZERS[2])])
        .plan()
        .unwrap();
    let resolved = &plan.resolved["federation"]["server"];
    assert_eq!(resolved["momentum"].as_float(), Some(0.9));
    assert_eq!(resolved["decay"].as_float(), Some(0.99));
    assert_eq!(resolved["adaptivity"].as_float(), Some(1e-3));
}
