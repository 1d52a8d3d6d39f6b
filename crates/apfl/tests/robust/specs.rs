//! Rules and attacks as a spec writes them.

use apfl::aggregation::Aggregation;
use apfl::algorithm::LocalOnly;
use apfl::spec::Spec;
use apfl::training::Training;

use super::{plan, problems};

#[test]
fn what_does_not_go_together_is_refused() {
    let message = problems(&[
        "algorithm.kind=local",
        "federation.aggregation=krum",
        "federation.attack=sign-flip",
        "federation.weights=examples",
    ]);
    for part in [
        "3 problems",
        "federation.aggregation: found \"krum\", but algorithm \"local\" sends no model",
        "federation.aggregation: found \"krum\", but it counts clients, not examples",
        "federation.attack: found \"sign-flip\", but algorithm \"local\" sends no model",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
    let wrong = |settings: &[&str], parts: &[&str]| {
        let message = problems(settings);
        for part in parts {
            assert!(message.contains(part), "{part} is missing in\n{message}");
        }
    };
    wrong(
        &["federation.aggregation=medain"],
        &["did you mean \"median\"?"],
    );
    wrong(
        &["federation.aggregation=trimmed-mean", "federation.trim=0.5"],
        &["federation.trim: found 0.5, allowed is 0 to below 0.5"],
    );
    wrong(
        &["federation.aggregation=median", "federation.trim=0.1"],
        &["federation.trim: unknown key"],
    );
    wrong(
        &["federation.attack={ kind = 'gaussian', share = 1, scale = 2 }"],
        &[
            "federation.attack.share: found 1, allowed is 0 to below 1",
            "federation.attack.scale: unknown key",
        ],
    );
    wrong(&["federation.attack=sign"], &["federation.attack.kind"]);
    wrong(
        &[
            "algorithm.mixing={ fixed = 0.5 }",
            "training.schedule.kind=theory",
            "federation.aggregation=median",
        ],
        &["the theorems of training.schedule assume the mean"],
    );
    // Krum's cohort is known when the data is: 0.6·11 ≈ 7 clients, and 2·3 + 3 = 9.
    let krum = plan(&["federation.aggregation=krum", "federation.byzantine=0.45"]);
    let error = krum.setup().err().unwrap();
    assert!(error.is_request());
    assert!(error.to_string().contains("K = 7 and f = 3"), "{error}");
    // From the library, an algorithm that sends no model.
    let mut setup = plan(&[]).setup().unwrap();
    setup.aggregation = Aggregation::Median;
    let mut training = Training::with_algorithm(setup, LocalOnly).unwrap();
    let error = training.next_round().unwrap_err().to_string();
    assert!(error.contains("update has none"), "{error}");
}

#[test]
fn the_resolved_spec_spells_rule_and_attack_out() {
    let settings = [
        "federation.aggregation=krum",
        "federation.attack=sign-flip",
        "federation.attack.share=0.1",
    ];
    let written = plan(&settings).to_toml();
    for part in ["byzantine = 0.2", "scale = 1.0", "share = 0.1"] {
        assert!(written.contains(part), "{part} is missing in\n{written}");
    }
    let again = Spec::parse(&written).unwrap();
    assert_eq!(again.plan().unwrap().to_toml(), written);
    // Another rule or kind drops what the old one had.
    let mut other = again;
    other.set("federation.aggregation=median").unwrap();
    other.set("federation.attack.kind=gaussian").unwrap();
    let other = other.plan().unwrap().to_toml();
    assert!(!other.contains("byzantine") && !other.contains("scale"));
    assert!(other.contains("deviation = 1.0") && other.contains("share = 0.1"));
}
