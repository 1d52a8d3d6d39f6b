//! Aggregation rules against vectors worked out by hand, their invariances, and attacks.

use apfl::aggregation::Aggregation;
use apfl::error::Error;
use apfl::spec::{Plan, Spec};
use apfl::training::{RoundRecord, Training};

mod attacks;
mod by_hand;
mod invariances;
mod runs;
mod specs;

const TRIMMED: Aggregation = Aggregation::TrimmedMean { trim: 0.2 };
const KRUM: Aggregation = Aggregation::Krum { byzantine: 0.2 };
const RULES: [Aggregation; 4] = [
    Aggregation::Median,
    TRIMMED,
    KRUM,
    Aggregation::GeometricMedian,
];

/// 11 clients, 7 of them a round: Krum's f is ⌊0.2·7⌋ = 1.
fn spec(settings: &[&str]) -> Spec {
    let mut spec = Spec::parse(
        "seed = 5
         data = { clients = 11, features = 6, classes = 3, max_examples = 120 }
         model = { kind = 'mlp', hidden = [8] }
         federation = { participation = 0.6 }
         training = { rounds = 4, local_steps = 3, batch = 16 }",
    )
    .unwrap();
    for setting in settings {
        spec.set(setting).unwrap();
    }
    spec
}

fn plan(settings: &[&str]) -> Plan {
    spec(settings).plan().unwrap()
}

fn finish(mut training: Training) -> (Vec<RoundRecord>, String) {
    let mut records = Vec::new();
    while let Some(mut record) = training.next_round().unwrap() {
        record.seconds = 0.0;
        records.push(record);
    }
    (records, training.fingerprint().unwrap())
}

fn run(settings: &[&str]) -> (Vec<RoundRecord>, String) {
    let plan = plan(settings);
    finish(Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap())
}

fn problems(settings: &[&str]) -> String {
    match spec(settings).plan() {
        Err(error @ Error::Spec(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{settings:?} is not refused"),
    }
}
