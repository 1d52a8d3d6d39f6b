//! Invariants 9 and 10: what personalization does to scores. Statistical, with fixed
//! seeds and generous margins.

use super::{apfl, finish, spec, start};

/// Final (mean α, personal training loss, personal validation accuracy).
fn outcome(base: &str, mixing: &str, seed: u64) -> (f64, f64, f64) {
    let mut spec = spec(base, &apfl(mixing), "{ kind = 'logistic' }");
    spec.set(&format!("seed={seed}")).unwrap();
    spec.set("evaluation.every=1000").unwrap();
    let records = finish(&mut start(&spec));
    let last = &records[records.len() - 1];
    let personal = last.scores.unwrap().personal;
    let alpha = last.mixing.expect("APFL has an α").mean;
    (alpha, personal.train.loss, personal.valid.accuracy.unwrap())
}

const HETEROGENEOUS: &str = "
    data = { kind = 'synthetic', clients = 12, features = 10, classes = 4, max_examples = 120 }
    training = { rounds = 40, local_steps = 5, batch = 20 }";

#[test]
fn i09_on_identically_distributed_data_personalization_vanishes() {
    let iid = "
        data = { kind = 'synthetic', iid = true, clients = 20, features = 20, classes = 5, examples = 100 }
        training = { rounds = 60, local_steps = 5, batch = 20 }";
    for seed in [1, 2, 3] {
        let (alpha, ..) = outcome(iid, "adaptive = 0.5", seed);
        assert!(alpha < 0.02, "seed {seed}: α ends at {alpha}");
        let (elsewhere, ..) = outcome(HETEROGENEOUS, "adaptive = 0.5", seed);
        assert!(
            elsewhere > 0.5,
            "seed {seed}: α ends at {elsewhere} where clients differ"
        );
        let without = outcome(iid, "fixed = 0", seed).2;
        for mixing in ["fixed = 0.25", "fixed = 0.5", "fixed = 0.75", "fixed = 1"] {
            let with = outcome(iid, mixing, seed).2;
            assert!(
                with < without + 0.01,
                "seed {seed}, {mixing}: {with} against {without}"
            );
        }
    }
}

#[test]
fn i10_on_heterogeneous_data_more_personalization_fits_better() {
    for seed in [1, 2, 3] {
        let losses = [
            "fixed = 0",
            "fixed = 0.25",
            "fixed = 0.5",
            "fixed = 0.75",
            "fixed = 1",
        ]
        .map(|mixing| outcome(HETEROGENEOUS, mixing, seed).1);
        let falls = losses.windows(2).all(|pair| pair[1] <= pair[0]);
        assert!(falls, "seed {seed}: {losses:?}");
    }
}
