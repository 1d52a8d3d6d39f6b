//! Whole runs with privacy.

use std::ops::ControlFlow;

use apfl::run::{Ended, Event, Run};
use apfl::spec::{Resources, changed_rounds};
use apfl::training::{RoundRecord, Training};

use super::plan;

fn trained(settings: &[&str]) -> (Training, Vec<RoundRecord>) {
    let plan = plan(settings);
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    let mut records = Vec::new();
    while let Some(record) = training.next_round().unwrap() {
        records.push(record);
    }
    (training, records)
}

const LEVELS: [&str; 2] = [
    "federation.privacy={ level = 'client', noise = 0.8, clip = 0.5 }",
    "federation.privacy={ level = 'example', noise = 0.8, clip = 0.5 }",
];

#[test]
fn without_noise_and_clipping_it_is_the_run_without_privacy() {
    for algorithm in [
        "algorithm.kind=fedavg",
        "algorithm.mixing={ adaptive = 0.3 }",
    ] {
        let (plain, _) = trained(&[algorithm, "training.batch='full'"]);
        for level in ["client", "example"] {
            let privacy =
                format!("federation.privacy={{ level = '{level}', noise = 0, clip = 1e9 }}");
            let (private, records) = trained(&[algorithm, "training.batch='full'", &privacy]);
            for (a, b) in plain.shared().iter().zip(&private.shared()) {
                assert!((a - b).abs() < 1e-6, "{algorithm} {level}: {a} {b}");
            }
            assert!(
                records.iter().all(|r| r.epsilon.is_none()),
                "it is infinite"
            );
        }
    }
}

/// Invariant 1 under privacy: w's path does not know of v, so v needs no noise.
#[test]
fn personal_models_leave_the_shared_path_as_it_is() {
    for level in LEVELS {
        let shared = |algorithm: &str| trained(&[algorithm, level]).0.shared();
        let fedavg = shared("algorithm.kind=fedavg");
        for mixing in ["{ fixed = 0.7 }", "{ adaptive = 0.3 }", "{ fixed = 0.0 }"] {
            assert_eq!(
                fedavg,
                shared(&format!("algorithm.mixing={mixing}")),
                "{level} {mixing}"
            );
        }
    }
}

#[test]
fn threads_and_resume_change_no_bit() {
    for level in LEVELS {
        for participation in [
            "federation.participation=1.0",
            "federation.participation=0.4",
        ] {
            let run = |threads: &str| {
                let (mut training, mut records) = trained(&[level, participation, threads]);
                records.iter_mut().for_each(|r| r.seconds = 0.0);
                (training.fingerprint().unwrap(), records)
            };
            let one = run("engine.threads=1");
            assert_eq!(one, run("engine.threads=4"), "{level} {participation}");

            let plan = plan(&[level, participation, "checkpoint.every=2"]);
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("run");
            let setup = || {
                let on = Resources {
                    directory: Some(&path),
                    ..Resources::default()
                };
                plan.setup_with(plan.data.load().unwrap(), on).unwrap()
            };
            let begun = Run::new(&plan, setup()).directory(&path);
            let ended = begun.watch(&mut |event| match event {
                Event::Round(record) if record.round == 3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            assert!(matches!(ended.unwrap(), Ended::Stopped(3)));
            let finished = Run::new(&plan, setup()).resume(&path).train().unwrap();
            assert_eq!(
                finished.summary.fingerprint, one.0,
                "{level} {participation}"
            );
            // Read back from its file, where a number may lose its last bit.
            for (resumed, whole) in finished.rounds().unwrap().iter().zip(&one.1) {
                let (resumed, whole) = (resumed.epsilon.unwrap(), whole.epsilon.unwrap());
                assert!((resumed / whole - 1.0).abs() < 1e-14, "{resumed} {whole}");
            }
        }
    }
}

#[test]
fn epsilon_is_kept_and_told() {
    for level in ["client", "example"] {
        let privacy = format!("federation.privacy={{ level = '{level}', epsilon = 2.0 }}");
        let settings = ["federation.participation=0.5", &privacy];
        let plan = plan(&settings);
        let run = Run::new(&plan, plan.setup().unwrap()).train().unwrap();
        let told: Vec<f64> = run
            .rounds()
            .unwrap()
            .iter()
            .filter_map(|r| r.epsilon)
            .collect();
        assert_eq!(told.len(), 6);
        assert!(told.is_sorted(), "{told:?}");
        let last = told[5];
        assert!(last <= 2.0 && last > 1.99, "{level}: {last}");
        let spent = run.summary.privacy.clone().unwrap();
        assert_eq!((spent.level.as_str(), spent.epsilon), (level, Some(last)));
        assert_eq!((spent.delta, spent.clip), (1e-5, 1.0));
        let clients = run.clients().unwrap();
        match level {
            "client" => {
                assert_eq!(spent.steps, 6);
                assert!(clients.iter().all(|c| c.epsilon.is_none()));
                let cost = apfl::privacy::Mechanism {
                    noise: spent.noise,
                    sampling: 0.5,
                };
                assert!((cost.cost(6, 1e-5).epsilon() - last).abs() < 1e-9);
            }
            _ => {
                // Each its own, from batch/m and the steps it took: the largest is the run's.
                for client in &clients {
                    let cost = apfl::privacy::Mechanism {
                        noise: spent.noise,
                        sampling: (10.0 / client.examples.train as f64).min(1.0),
                    };
                    let own = cost.cost(3 * client.rounds, 1e-5).epsilon();
                    let told = client.epsilon.unwrap();
                    assert!((told - own).abs() < 1e-3 * own + 1e-9, "{told} {own}");
                }
                let most = clients.iter().filter_map(|c| c.epsilon).fold(0.0, f64::max);
                assert_eq!(most, last);
                assert_eq!(spent.steps % 3, 0);
            }
        }
    }
}

#[test]
fn with_noise_and_epsilon_the_run_ends_before_it_is_exceeded() {
    for level in ["client", "example"] {
        let of = |more: &str| {
            let privacy = format!("federation.privacy={{ level = '{level}', noise = 3.0 {more} }}");
            trained(&["training.rounds=20", &privacy]).1
        };
        let without = of("");
        assert_eq!(without.len(), 20);
        // Between the seventh and the eighth round.
        let limit = (without[6].epsilon.unwrap() + without[7].epsilon.unwrap()) / 2.0;
        let with = of(&format!(", epsilon = {limit}"));
        assert_eq!(with.len(), 7, "{level}");
        assert!(with[6].scores.is_some());
        let too_little =
            format!("federation.privacy={{ level = '{level}', noise = 0.3, epsilon = 0.5 }}");
        let error = plan(&[&too_little]).setup().unwrap_err();
        assert!(
            error.is_request() && error.to_string().contains("the first round costs"),
            "{error}"
        );
    }
}

/// A round with nobody in it releases noise all the same.
#[test]
fn an_empty_cohort_is_a_round_of_noise() {
    let settings = [
        "federation.participation=0.05",
        "training.rounds=20",
        "federation.privacy={ level = 'client', noise = 1.0, clip = 0.1 }",
    ];
    let plan = plan(&settings);
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    let (mut before, mut empty, mut last) = (training.shared(), 0, 0.0);
    while let Some(record) = training.next_round().unwrap() {
        let after = training.shared();
        assert_ne!(before, after);
        if record.cohort == 0 {
            empty += 1;
            assert!(record.scores.is_none() && record.mixing.is_none());
            // N(0, σ²C²)/(q·n), deviation 0.1/0.6.
            let moved: f64 = before
                .iter()
                .zip(&after)
                .map(|(a, b)| f64::from(a - b).powi(2))
                .sum();
            let deviation = (moved / after.len() as f64).sqrt();
            assert!((deviation / (0.1 / 0.6) - 1.0).abs() < 0.6, "{deviation}");
        }
        assert!(record.epsilon.unwrap() > last);
        (before, last) = (after, record.epsilon.unwrap());
    }
    // (1 − 0.05)¹² = 0.54 of 20 rounds.
    assert!((4..=18).contains(&empty), "{empty}");
}

#[test]
fn more_rounds_are_refused_where_the_noise_follows_from_their_number() {
    let resolved = |rounds: u64, privacy: &str| {
        let rounds = format!("training.rounds={rounds}");
        plan(&[&rounds, &format!("federation.privacy={privacy}")]).resolved
    };
    let with_epsilon = "{ level = 'client', epsilon = 3.0 }";
    let error = changed_rounds(&resolved(6, with_epsilon), &resolved(9, with_epsilon)).unwrap_err();
    assert!(
        error.to_string().contains("federation.privacy.epsilon"),
        "{error}"
    );
    let with_noise = "{ level = 'client', noise = 1.0 }";
    let longer = changed_rounds(&resolved(6, with_noise), &resolved(9, with_noise));
    assert_eq!(longer.unwrap(), Some((6, 9)));
}
