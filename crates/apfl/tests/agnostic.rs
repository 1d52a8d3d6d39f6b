//! The agnostic shared model: q and w by hand, and what it is for.

use crate::small::{Hand, classes, full, quadratics};
use apfl::algorithm::apfl::{Apfl, Mixing};
use apfl::algorithm::{Agnostic, AlgorithmSpec, FedAvg};
use apfl::error::Error;
use apfl::local_client::{Predictor, Scratch};
use apfl::spec::Spec;
use apfl::training::Training;

#[test]
fn three_rounds_by_hand() {
    // Targets 4 and 0, γ_q = 1/16, η = ½, τ = 1, w = 0.
    // ℓ = (8, 0): q = Π(½ + ½, ½) = (¾, ¼); wᵢ = (2, 0); w = 1.5
    // ℓ = (3.125, 1.125): q = Π(0.9453125, 0.3203125) = (0.8125, 0.1875);
    //     wᵢ = (2.75, 0.75); w = 2.375
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let setup = small.setup(full(1, 0.5), 3, 1.0, false);
    let algorithm = Agnostic {
        inner: FedAvg,
        step: 1.0 / 16.0,
    };
    let mut hand = Hand::new(algorithm, setup);
    hand.step();
    assert_eq!(hand.server.q, [0.75, 0.25]);
    assert_eq!(hand.shared()[1], 1.5);
    hand.step();
    assert_eq!(hand.server.q, [0.8125, 0.1875]);
    assert_eq!(hand.shared()[1], 2.375);
    // Only the second takes part, n/K = 2: ℓ = ½·2.375² = 2.8203125, q₂ + 2ℓ/16 =
    // 0.5400390625, θ = (0.8125 + 0.5400390625 − 1)/2 = 0.17626953125; w = w₂.
    hand.step_with(&[1]);
    assert_eq!(
        hand.server.q,
        [0.8125 - 0.17626953125, 0.5400390625 - 0.17626953125]
    );
    assert_eq!(hand.shared()[1], 1.1875);
    // Where the whole cohort weighs nothing, w stays.
    hand.server.q = vec![1.0, 0.0];
    hand.server.model = vec![0.0, 0.0];
    hand.step_with(&[1]);
    assert_eq!(
        (&hand.server.q[..], hand.shared()[1]),
        (&[1.0, 0.0][..], 0.0)
    );
}

#[test]
fn the_loss_that_is_sent_is_the_objective() {
    // b = 1 with target 4 and λ = 2: ½·9 + 1. From q = ½ each and an idle second client
    // (n/K = 2): q₁ = ½ + 5.5/16 before the projection.
    let small = quadratics(&[&[4.0], &[0.0]], 2.0);
    let algorithm = Agnostic {
        inner: FedAvg,
        step: 1.0 / 32.0,
    };
    let mut hand = Hand::new(algorithm, small.setup(full(1, 0.5), 1, 1.0, false));
    hand.server.model = vec![0.0, 1.0];
    hand.step_with(&[0]);
    let moved = 5.5 / 16.0;
    assert_eq!(hand.server.q, [0.5 + moved / 2.0, 0.5 - moved / 2.0]);
}

#[test]
fn the_worst_client_fares_better_than_under_fedavg() {
    // Three clients agree, one does not. The mean's minimum is 1; the agnostic one's is 2.
    let small = quadratics(&[&[0.0], &[0.0], &[0.0], &[4.0]], 0.0);
    let setup = small.setup(full(1, 0.2), 400, 1.0, false);
    let end = |choice: AlgorithmSpec| {
        let mut training = Training::new(setup.clone(), &choice).unwrap();
        let mut last = None;
        while let Some(record) = training.next_round().unwrap() {
            last = record.worst;
        }
        (training.shared()[1], last.unwrap().shared.train)
    };
    let (b, worst) = end(AlgorithmSpec::FedAvg(FedAvg));
    assert!((b - 1.0).abs() < 1e-3 && (worst - 4.5).abs() < 0.01);
    let (b, worst) = end(AlgorithmSpec::AgnosticFedAvg(Agnostic {
        inner: FedAvg,
        step: 0.01,
    }));
    assert!(
        (b - 2.0).abs() < 0.05 && (worst - 2.0).abs() < 0.1,
        "{b} {worst}"
    );
}

#[test]
fn agnostic_apfl_has_agnostic_fedavgs_shared_path() {
    let small = classes(4, 4, 3, &[], 1e-2);
    let setup = small.setup(full(3, 0.2), 5, 0.5, false);
    let step = 0.05;
    let mut fedavg = Hand::new(
        Agnostic {
            inner: FedAvg,
            step,
        },
        setup.clone(),
    );
    let inner = Apfl::paper(Mixing::Adaptive(0.5));
    let mut apfl = Hand::new(Agnostic { inner, step }, setup.clone());
    let mut plain = Hand::new(FedAvg, setup);
    for _ in 0..5 {
        fedavg.step();
        apfl.step();
        plain.step();
        assert_eq!(fedavg.shared(), apfl.shared());
        assert_eq!(fedavg.server.q, apfl.server.q);
        let sum: f64 = apfl.server.q.iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
    assert_ne!(fedavg.shared(), plain.shared());
    assert!(apfl.locals.iter().any(|l| l.alpha != 0.5));
}

#[test]
fn the_worst_loss_of_a_round_is_the_largest_of_its_clients() {
    let small = classes(5, 4, 3, &[], 0.0);
    let setup = small.setup(full(3, 0.3), 2, 0.6, false);
    let apfl = Apfl::paper(Mixing::Fixed(0.5));
    let mut training = Training::with_algorithm(setup.clone(), apfl).unwrap();
    let mut hand = Hand::new(apfl, setup.clone());
    for round in 1..=2 {
        let record = training.next_round().unwrap().unwrap();
        let seen = hand.step();
        let cohort = setup.cohort(round);
        let largest = |model: &dyn Fn(usize) -> Vec<f32>| {
            let losses = cohort.iter().enumerate().map(|(k, client)| {
                let shard = &small.shards[*client];
                let model = model(k);
                let predictor = Predictor::At(&model);
                let tally = Scratch::default().tally(&*small.model, &predictor, &shard.train);
                tally.loss / tally.examples as f64
            });
            losses.fold(0.0, f64::max)
        };
        let worst = record.worst.unwrap();
        assert_eq!(worst.shared.train, largest(&|_| hand.shared()));
        assert_eq!(
            worst.localized.train,
            largest(&|k| seen[k].localized.clone())
        );
        assert_eq!(
            worst.personal.train,
            largest(&|k| seen[k].personal.clone().unwrap())
        );
        assert!(worst.shared.train > record.scores.unwrap().shared.train.loss);
        let line = serde_json::to_value(&record).unwrap();
        assert!(line["worst"]["personal"]["valid"].is_f64());
        let back: apfl::training::RoundRecord = serde_json::from_value(line).unwrap();
        assert!(back.worst.is_some());
    }
}

#[test]
fn combinations_that_make_no_sense_are_refused() {
    let problems = |text: &str| match Spec::parse(text).unwrap().plan() {
        Err(Error::Spec(problems)) => {
            let keys: Vec<String> = problems.0.into_iter().map(|p| p.key).collect();
            keys.join(" ")
        }
        Err(e) => panic!("{e}"),
        Ok(plan) => plan.resolved["algorithm"]["agnostic"].to_string(),
    };
    assert_eq!(problems("algorithm = { kind = 'fedavg' }"), "false");
    assert_eq!(
        problems("algorithm = { kind = 'fedavg', agnostic = true }"),
        "0.01"
    );
    assert_eq!(
        problems("algorithm = { kind = 'apfl', agnostic = 2 }"),
        "2.0"
    );
    for wrong in ["0", "-1", "'on'", "1e9"] {
        let text = format!("algorithm = {{ kind = 'apfl', agnostic = {wrong} }}");
        assert_eq!(problems(&text), "algorithm.agnostic");
    }
    assert_eq!(
        problems(
            "algorithm = { kind = 'apfl', mixing = { fixed = 0.5 }, agnostic = true, \
             output = 'averaged', averaging_shift = 1 }"
        ),
        "algorithm.agnostic"
    );
    assert_eq!(
        problems(
            "algorithm = { kind = 'fedavg', agnostic = true }
             federation = { weights = 'examples' }"
        ),
        "federation.weights"
    );
}
