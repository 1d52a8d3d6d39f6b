//! The fingerprint of a small run of every algorithm, per width of the CPU's vectors: a
//! change of bits is a decision, made in the commit that changes `tests/pinned/`.
//!
//! Where a change is meant, `APFL_PIN=1 cargo test -p apfl pinned` writes the file of this
//! CPU's width anew; `scripts/pin.sh` does it for the narrower ones too.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use apfl::Error;
use apfl::algorithm::every_algorithm;
use apfl::model::kernels::lanes;
use apfl::spec::Spec;
use apfl::training::Training;

use crate::skipped::skipped;
use crate::small::fitting;

const MODELS: [&str; 2] = ["linear", "mlp"];

/// Twelve of twenty clients a round on synthetic(1, 1), four rounds.
fn spec(model: &str, algorithm: &str) -> String {
    let model = match model {
        "mlp" => "{ kind = 'mlp', hidden = [17] }",
        _ => "{ kind = 'logistic' }",
    };
    format!(
        "data = {{ kind = 'synthetic', clients = 20, max_examples = 120 }}
         model = {model}
         algorithm = {algorithm}
         federation = {{ participation = 0.6 }}
         training = {{ rounds = 4, local_steps = 5, batch = 16 }}
         evaluation = {{ every = 4 }}"
    )
}

fn fingerprint(spec: Spec) -> String {
    let plan = fitting(spec).plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    while training.next_round().unwrap().is_some() {}
    training.fingerprint().unwrap()
}

#[test]
fn every_algorithm_has_the_bits_it_had() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pinned/{}-lanes.txt", lanes()));
    let mut now = BTreeMap::new();
    for algorithm in every_algorithm() {
        for model in MODELS {
            let name = format!("{model} {algorithm}");
            let spec = Spec::parse(&spec(model, algorithm)).unwrap();
            let layers = match spec.plan() {
                Err(Error::Spec(problems)) => problems.0.iter().any(|p| p.key == "model.kind"),
                _ => false,
            };
            // Of one layer no part can be shared.
            if !layers {
                now.insert(name, fingerprint(spec));
            }
        }
    }
    if std::env::var_os("APFL_PIN").is_some() {
        let lines = now.iter().fold(String::new(), |mut text, (name, bits)| {
            writeln!(text, "{bits} {name}").unwrap();
            text
        });
        std::fs::write(&file, lines).unwrap();
        return;
    }
    let Ok(text) = std::fs::read_to_string(&file) else {
        skipped(&format!(
            "no fingerprints are pinned for vectors of {} numbers (scripts/pin.sh)",
            lanes()
        ));
        return;
    };
    let pinned: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(bits, name)| (name.to_string(), bits.to_string()))
        .collect();
    for (name, bits) in &now {
        let Some(before) = pinned.get(name) else {
            panic!("{name}: its bits are not pinned yet; APFL_PIN=1 writes them");
        };
        assert_eq!(
            before,
            bits,
            "{name}: other bits than pinned in {}; where that is meant, write it anew with \
             APFL_PIN=1",
            file.display()
        );
    }
    assert_eq!(now.len(), pinned.len(), "an algorithm is gone");
}
