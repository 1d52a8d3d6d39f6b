//! Whole runs under every rule.

use apfl::aggregation::Aggregation;
use apfl::algorithm::{FedAvg, every_algorithm};
use apfl::training::Training;

use super::{RULES, problems, run, spec};
use crate::small;

#[test]
fn every_algorithm_with_every_rule_has_one_result_or_is_refused() {
    let rules = Aggregation::KINDS.iter().map(|rule| rule.name);
    let mut refused = 0;
    for algorithm in every_algorithm() {
        let algorithm = format!("algorithm={algorithm}");
        let mut seen = std::collections::BTreeSet::new();
        for rule in rules.clone() {
            let rule = format!("federation.aggregation={rule}");
            let attack = "federation.attack.kind=sign-flip";
            let mut settings = vec![algorithm.as_str(), &rule, attack];
            if algorithm.contains("l2gd") {
                settings.push("federation.participation=1");
            }
            if spec(&settings).plan().is_err() {
                let message = problems(&settings);
                let several = "several shared models";
                let parts = ["\"local\" sends no model", "averaged", "agnostic", several];
                assert!(parts.iter().any(|p| message.contains(p)), "{message}");
                refused += 1;
                continue;
            }
            let one = run(&[&settings[..], &["engine.threads=1"]].concat());
            for threads in ["engine.threads=2", "engine.threads=8"] {
                let other = run(&[&settings[..], &[threads]].concat());
                assert!(one == other, "{settings:?} {threads}");
            }
            assert!(seen.insert(one.1), "{settings:?}: each rule has its own");
        }
    }
    // Averaged outputs (2), `local` and `hypcluster` with every rule, agnostic (3) with all but
    // the mean.
    let count = rules.len();
    assert_eq!(refused, 4 * count + 3 * (count - 1));
}

/// A new rule belongs in `RULES`, whose invariances are tested.
#[test]
fn every_rule_but_the_mean_is_tested() {
    let there_are = Aggregation::KINDS.iter().map(|rule| rule.name);
    let tested = [Aggregation::Mean].into_iter().chain(RULES);
    assert!(there_are.eq(tested.map(|rule| rule.kind())));
}

#[test]
fn the_mean_is_what_it_was_and_no_attackers_are_no_attack() {
    let plain = run(&[]);
    assert_eq!(plain, run(&["federation.aggregation=mean"]));
    for attack in ["sign-flip", "gaussian", "label-flip"] {
        let kind = format!("federation.attack={attack}");
        assert_eq!(plain, run(&[&kind, "federation.attack.share=0"]), "{kind}");
        assert_ne!(plain.1, run(&[&kind]).1, "{kind}");
        // ⌊0.09·11⌋ = 0
        assert_eq!(plain, run(&[&kind, "federation.attack.share=0.09"]));
    }
}

/// With identical clients every update is the same, and so is what every rule gives.
#[test]
fn identical_clients_make_every_rule_the_mean() {
    let mut same = small::classes(5, 4, 3, &[6], 0.0);
    let first = same.shards[0].clone();
    same.shards.iter_mut().for_each(|s| *s = first.clone());
    let shared = |rule| {
        let mut setup = same.setup(small::full(2, 0.1), 3, 1.0, true);
        setup.aggregation = rule;
        let mut training = Training::with_algorithm(setup, FedAvg).unwrap();
        while training.next_round().unwrap().is_some() {}
        training.shared()
    };
    let mean = shared(Aggregation::Mean);
    for rule in RULES {
        assert_eq!(mean, shared(rule), "{rule}");
    }
}

/// Four of eleven send their update reversed and four times as long: the mean moves by
/// (7 − 16)/11 = −0.8 honest updates a round, the median follows the honest ones.
#[test]
fn the_median_stands_where_the_mean_falls() {
    let accuracy = |rule: &str| {
        let settings = [
            "federation.participation=1",
            "data.iid=true",
            "data.examples=200",
            "algorithm.kind=fedavg",
            "training.rounds=15",
            "federation.attack={ kind = 'sign-flip', share = 0.37, scale = 4 }",
            rule,
        ];
        let (records, _) = run(&settings);
        let last = records.last().unwrap().scores.unwrap();
        last.shared.valid.accuracy.unwrap()
    };
    let mean = accuracy("federation.aggregation=mean");
    for rule in ["median", "krum", "geometric-median"] {
        let rule = format!("federation.aggregation={rule}");
        let robust = accuracy(&rule);
        assert!(robust > mean + 0.2, "{rule}: {robust}, mean {mean}");
    }
}
