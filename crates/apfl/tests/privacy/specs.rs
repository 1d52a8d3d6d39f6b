//! `federation.privacy` as a spec writes it.

use apfl::algorithm::every_algorithm;

use super::{plan, spec};

fn problems(settings: &[&str]) -> String {
    spec(settings).plan().unwrap_err().to_string()
}

#[test]
fn what_has_no_proof_is_refused_with_the_reason() {
    for level in ["client", "example"] {
        let privacy = format!("federation.privacy={{ level = '{level}', epsilon = 8.0 }}");
        for (other, why) in [
            ("federation.aggregation=median", "is not a sum"),
            ("federation.weights=examples", "everybody's weight"),
            (
                "algorithm.kind=scaffold",
                "no privacy proof for algorithm.kind = \"scaffold\"",
            ),
            (
                "algorithm.kind=local",
                "no privacy proof for algorithm.kind = \"local\"",
            ),
            (
                "algorithm={ kind = 'fedavg', agnostic = true }",
                "sends losses",
            ),
            (
                "algorithm={ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', shift = 10 }",
                "second vector",
            ),
            ("algorithm.mixing={ chosen = [0, 0.5, 1] }", "without noise"),
        ] {
            let message = problems(&[&privacy, other]);
            assert!(
                message.contains(why),
                "{other}: {why} is missing in\n{message}"
            );
            assert!(
                message.contains("federation.privacy: found level"),
                "{message}"
            );
        }
    }
    let example = "federation.privacy={ level = 'example', noise = 1 }";
    assert!(problems(&[example, "model.kind=cnn"]).contains("dense layers"));
    assert!(problems(&[example, "algorithm.mix=logits"]).contains("only the paper's"));
}

#[test]
fn every_algorithm_is_refused_or_runs() {
    let mut ran = 0;
    for algorithm in every_algorithm() {
        let algorithm = format!("algorithm={algorithm}");
        let privacy = "federation.privacy={ level = 'client', noise = 1.0 }";
        if let Ok(plan) = spec(&[&algorithm, privacy]).plan() {
            let setup = plan.setup().unwrap();
            let mut training = apfl::training::Training::new(setup, &plan.algorithm).unwrap();
            while training.next_round().unwrap().is_some() {}
            ran += 1;
        }
    }
    assert!(ran >= 3);
}

#[test]
fn wrong_values_are_told_and_right_ones_resolved() {
    let message = problems(&["federation.privacy={ clip = 0, delta = 2, noize = 1 }"]);
    for part in [
        "federation.privacy.level: is missing",
        "federation.privacy.epsilon: `epsilon` and `noise` are both missing",
        "federation.privacy.clip: found 0",
        "federation.privacy.delta: found 2",
        "federation.privacy.noize: unknown key; did you mean \"noise\"?",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
    let tiny = problems(&["federation.privacy={ level = 'client', noise = 0.001 }"]);
    assert!(
        tiny.contains("found 0.001, allowed is 0, or 0.01 to 1e6"),
        "{tiny}"
    );
    let resolved = plan(&["federation.privacy={ level = 'client', epsilon = 8 }"]).resolved;
    let privacy = resolved["federation"]["privacy"].as_table().unwrap();
    assert_eq!(privacy["delta"].as_float(), Some(1e-5));
    assert_eq!(privacy["clip"].as_float(), Some(1.0));
    assert!(!privacy.contains_key("noise"));
    assert!(
        !plan(&[]).resolved["federation"]
            .as_table()
            .unwrap()
            .contains_key("privacy")
    );
}
