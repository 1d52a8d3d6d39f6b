//! `training.momentum`: buffers that start at zero in every round.

use super::{bits, models, problems, run};
use crate::small::{Hand, Slow, apart, classes, full, mean, quadratics};
use apfl::FedAvg;
use apfl::algorithm::{Apfl, FedRep};

const HEAVY: &[&str] = &["training.momentum=0.5"];

#[test]
fn two_rounds_by_hand() {
    // Targets 4 and 0, η = β = ½, τ = 2. Round 1, from 0:
    //   A: m = −4, 2;  m = ½·(−4) − 2 = −4, 4     B: 0     w = 2
    // Round 2, from m = 0:
    //   A: m = −2, 3;  m = −1 − 1 = −2, 4         B: m = 2, 1;  m = 1 + 1 = 2, 0     w = 2
    let small = quadratics(&[&[4.0], &[0.0]], 0.0);
    let mut local_training = full(2, 0.5);
    local_training.momentum = 0.5;
    let mut hand = Hand::new(FedAvg, small.setup(local_training, 2, 1.0, false));
    let seen = hand.step();
    assert_eq!(seen[0].localized[1], 4.0);
    assert_eq!(hand.shared()[1], 2.0);
    let seen = hand.step();
    assert_eq!((seen[0].localized[1], seen[1].localized[1]), (4.0, 0.0));
}

#[test]
fn a_step_of_a_mixture_by_hand() {
    // APFL with α = ½ on target 8, η = β = ½, τ = 2, v = w = 0:
    //   w: m = −8, 4;  m = −4 − 4 = −8, 8
    //   v̄ = 0: m_v = ½·(−8) = −4, v = 2;  v̄ = ½(2 + 4) = 3: m_v = −2 − ½·5 = −4.5, v = 4.25
    let small = quadratics(&[&[8.0]], 0.0);
    let mut local_training = full(2, 0.5);
    local_training.momentum = 0.5;
    let mut hand = Hand::new(Apfl::fixed(0.5), small.setup(local_training, 1, 1.0, false));
    hand.step();
    assert_eq!(hand.shared()[1], 8.0);
    assert_eq!(hand.locals[0].v[1], 4.25);
}

#[test]
fn identities_hold_with_momentum() {
    let (fedavg, local) = (
        run("{ kind = 'fedavg' }", HEAVY),
        run("{ kind = 'local' }", HEAVY),
    );
    assert_ne!(
        bits(&fedavg.shared),
        bits(&run("{ kind = 'fedavg' }", &[]).shared)
    );
    for algorithm in [
        "{ kind = 'fedprox', proximal = 0 }",
        "{ kind = 'ditto' }",
        "{ kind = 'fedper', private_layers = 0 }",
        "{ kind = 'fedrep', private_layers = 0 }",
        "{ kind = 'lgfedavg', shared_layers = 3 }",
        "{ kind = 'hypcluster', clusters = 1 }",
        "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
    ] {
        assert_eq!(
            bits(&run(algorithm, HEAVY).shared),
            bits(&fedavg.shared),
            "{algorithm}"
        );
    }
    for algorithm in [
        "{ kind = 'ditto', proximal = 0 }",
        "{ kind = 'fedper', private_layers = 3 }",
        "{ kind = 'fedrep', private_layers = 3 }",
        "{ kind = 'apfl', mixing = { fixed = 1 } }",
    ] {
        let of = |end| models(end, |m| &m.personal);
        assert_eq!(of(&run(algorithm, HEAVY)), of(&local), "{algorithm}");
    }
}

#[test]
fn momentum_follows_its_float64_evaluation() {
    let (l2, tau, eta, beta, rounds) = (1e-3, 5, 0.1, 0.8, 12);
    let small = classes(5, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    let mut local_training = full(tau, eta);
    local_training.momentum = beta;
    let mut hand = Hand::new(FedAvg, small.setup(local_training, rounds, 1.0, false));
    let mut w = vec![0.0f64; 15];
    for round in 1..=rounds {
        let local: Vec<Vec<f64>> = (0..5)
            .map(|i| {
                let (mut x, mut m) = (w.clone(), vec![0.0; 15]);
                for _ in 0..tau {
                    let g = slow.full(i, &x);
                    for j in 0..15 {
                        m[j] = beta * m[j] + g[j];
                        x[j] -= eta * m[j];
                    }
                }
                x
            })
            .collect();
        w = mean(&local);
        hand.step();
        assert!(apart(&hand.shared(), &w) < 2e-4, "round {round}");
    }
    assert!(w.iter().any(|w| w.abs() > 0.1));
}

/// While the head moves, the base and its buffer rest, and the other way round.
#[test]
fn frozen_layers_keep_still_under_momentum() {
    let small = classes(2, 4, 3, &[5], 0.0);
    let mut local_training = full(4, 0.2);
    local_training.momentum = 0.9;
    let setup = small.setup(local_training, 1, 1.0, true);
    let w0 = setup.context.w0.to_vec();
    // Three steps of the head and one of the base: the base's is its first, without a past.
    let mut hand = Hand::new(FedRep::last_layers_first(1, 0.75), setup.clone());
    let seen = hand.step();
    let mut head_only = setup.clone();
    head_only.context.local_training.momentum = 0.0;
    let mut plain = Hand::new(FedRep::last_layers_first(1, 0.75), head_only);
    let other = plain.step();
    let cut = 4 * 5 + 5;
    assert_ne!(seen[0].localized[..cut], w0[..cut]);
    assert_ne!(seen[0].localized[cut..], other[0].localized[cut..]);
}

#[test]
fn those_without_momentum_refuse_it() {
    for algorithm in [
        "{ kind = 'scaffold' }",
        "{ kind = 'perfedavg' }",
        "{ kind = 'pfedme' }",
        "{ kind = 'l2gd' }",
        "{ kind = 'mapper' }",
        "{ kind = 'apfl', mix = 'logits' }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 9 }",
    ] {
        let settings = ["training.momentum=0.5", "federation.participation=1"];
        let message = problems(algorithm, &settings);
        assert!(
            message.contains("training.momentum: found 0.5"),
            "{message}"
        );
    }
    for wrong in ["-0.1", "1", "1.5"] {
        let message = problems(
            "{ kind = 'fedavg' }",
            &[&format!("training.momentum={wrong}")],
        );
        assert!(message.contains("0 to below 1"), "{message}");
    }
}
