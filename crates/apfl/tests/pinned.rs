//! The fingerprint of a small run of every algorithm, per width of the CPU's vectors: a
//! change of bits is a decision, made in the commit that changes `tests/pinned/`.
//!
//! Where a change is meant, `APFL_PIN=1 cargo test -p apfl pinned` writes the file of this
//! CPU's width anew; `scripts/pin.sh` does it for the narrower ones too. A new algorithm is pinned
//! for one width at least.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

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

fn file(lanes: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pinned/{lanes}-lanes.txt"))
}

/// The fingerprints of a width by their names, where it has any.
fn pinned(lanes: usize) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file(lanes)).ok()?;
    let line = |line: &str| {
        let (bits, name) = line.split_once(' ')?;
        Some((name.to_string(), bits.to_string()))
    };
    Some(text.lines().filter_map(line).collect())
}

#[test]
fn every_algorithm_has_the_bits_it_had() {
    let file = file(lanes());
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
    let Some(pinned_here) = pinned(lanes()) else {
        skipped(&format!(
            "no fingerprints are pinned for vectors of {} numbers (scripts/pin.sh)",
            lanes()
        ));
        return;
    };
    let elsewhere: Vec<_> = [4, 8, 16].into_iter().filter_map(pinned).collect();
    for (name, bits) in &now {
        let Some(before) = pinned_here.get(name) else {
            let known = elsewhere.iter().any(|pinned| pinned.contains_key(name));
            assert!(
                known,
                "{name}: its bits are not pinned yet; APFL_PIN=1 writes them"
            );
            skipped(&format!(
                "{name}: pinned for another width of vectors alone (scripts/pin.sh)"
            ));
            continue;
        };
        assert_eq!(
            before,
            bits,
            "{name}: other bits than pinned in {}; where that is meant, write it anew with \
             APFL_PIN=1",
            file.display()
        );
    }
    for name in pinned_here.keys() {
        assert!(now.contains_key(name), "{name}: pinned, but it is gone");
    }
}
