//! What a spec may say of these algorithms, what it must not, and what it says for nothing.

use super::{problems, spec};
use apfl::algorithm::AlgorithmSpec;
use apfl::spec::Spec;

#[test]
fn every_hyper_parameter_is_checked() {
    for (algorithm, count) in [
        ("{ kind = 'fedprox', proximal = -1 }", 1),
        ("{ kind = 'ditto', proximal = 'much' }", 1),
        ("{ kind = 'fedper', private_layers = -1 }", 1),
        (
            "{ kind = 'fedrep', private_layers = 100, head_share = 2 }",
            2,
        ),
        ("{ kind = 'lgfedavg', shared_layers = 1.5, warmup = -1 }", 2),
        ("{ kind = 'l2gd', averaging = 1, pull = -1 }", 2),
        ("{ kind = 'mapper', grid = [0.5, 0.25], aside = 1 }", 2),
        ("{ kind = 'mapper', grid = [], aside = 0 }", 2),
        ("{ kind = 'hypcluster', clusters = 0 }", 1),
    ] {
        let message = problems(algorithm, &["federation.participation=1"]);
        assert!(
            message.starts_with(&format!("the spec has {count} problem")),
            "{message}"
        );
    }
    let read = |kind: &str| {
        let settings = ["federation.participation=1"];
        let algorithm = format!("{{ kind = '{kind}' }}");
        spec(&algorithm, &settings).plan().unwrap().algorithm
    };
    let AlgorithmSpec::FedProx(a) = read("fedprox") else {
        panic!()
    };
    assert_eq!(a.proximal, 0.01);
    let AlgorithmSpec::Ditto(a) = read("ditto") else {
        panic!()
    };
    assert_eq!(a.proximal, 1.0);
    let AlgorithmSpec::FedPer(a) = read("fedper") else {
        panic!()
    };
    assert_eq!(a.sharing.private_layers, 1);
    let AlgorithmSpec::FedRep(a) = read("fedrep") else {
        panic!()
    };
    assert_eq!((a.sharing.private_layers, a.sharing.head_share), (1, 0.9));
    let AlgorithmSpec::LgFedAvg(a) = read("lgfedavg") else {
        panic!()
    };
    assert_eq!((a.sharing.shared_layers, a.sharing.warmup), (1, 0));
    let AlgorithmSpec::L2gd(a) = read("l2gd") else {
        panic!()
    };
    assert_eq!((a.averaging, a.pull), (0.1, 0.1));
    let AlgorithmSpec::Mapper(a) = read("mapper") else {
        panic!()
    };
    assert_eq!((&a.grid[..], a.held_out), (&[0.25, 0.5, 0.75][..], 0.2));
    let AlgorithmSpec::HypCluster(a) = read("hypcluster") else {
        panic!()
    };
    assert_eq!(a.clusters, 2);
}

#[test]
fn a_model_of_one_layer_has_no_part_to_share() {
    for kind in ["fedper", "fedrep", "lgfedavg"] {
        for model in ["{ kind = 'logistic' }", "{ kind = 'mlp', hidden = [] }"] {
            let model = format!("model={model}");
            let message = problems(&format!("{{ kind = '{kind}' }}"), &[&model]);
            for words in [
                "model.kind: found",
                kind,
                "nothing would be shared; use mlp",
            ] {
                assert!(message.contains(words), "{message}");
            }
        }
    }
    let message = problems("{ kind = 'fedper', private_layers = 4 }", &[]);
    let words = "algorithm.private_layers: found 4, but the model has 3 layers";
    assert!(message.contains(words), "{message}");
    let message = problems("{ kind = 'lgfedavg', shared_layers = 4 }", &[]);
    assert!(
        message.contains("algorithm.shared_layers: found 4"),
        "{message}"
    );
}

#[test]
fn l2gd_wants_everybody_and_no_step_beyond_the_mean() {
    let message = problems("{ kind = 'l2gd' }", &["federation.weights=examples"]);
    for words in [
        "federation.participation: found 0.5",
        "federation.weights: found",
    ] {
        assert!(message.contains(words), "{message}");
    }
    // ηλ/p = 0.2·1/0.1 = 2
    let everybody = "federation.participation=1";
    let settings = [everybody, "training.learning_rate=0.2"];
    let message = problems("{ kind = 'l2gd', pull = 1 }", &settings);
    assert!(message.contains("at most p/λ = 0.1"), "{message}");
    let settings = [
        everybody,
        "training.schedule={ kind = 'theory', theorem = 5 }",
    ];
    let message = problems("{ kind = 'l2gd' }", &settings);
    assert!(message.contains("steps of its own"), "{message}");
}

/// Written keys that an algorithm does not use are named, and not in the resolved spec.
#[test]
fn keys_that_are_not_used_are_named_and_left_out() {
    let plan = |algorithm: &str, more: &str| {
        let text = format!("algorithm = {algorithm}\n{more}");
        Spec::parse(&text).unwrap().plan().unwrap()
    };
    let written = "training = { learning_rate = 0.3, schedule = 'constant', local_steps = 7 }";
    for (algorithm, unused) in [
        ("{ kind = 'pfedme' }", &["learning_rate", "schedule"][..]),
        ("{ kind = 'perfedavg' }", &["learning_rate", "schedule"]),
        ("{ kind = 'l2gd' }", &["local_steps"]),
        ("{ kind = 'ditto' }", &[]),
    ] {
        let silent = plan(algorithm, "");
        assert!(silent.notes.is_empty(), "{:?}", silent.notes);
        let loud = plan(algorithm, written);
        assert_eq!(loud.notes.len(), unused.len(), "{:?}", loud.notes);
        for (note, key) in loud.notes.iter().zip(unused) {
            assert!(
                note.starts_with(&format!("training.{key} is not used by ")),
                "{note}"
            );
        }
        for plan in [&silent, &loud] {
            let training = plan.resolved["training"].as_table().unwrap();
            for key in ["learning_rate", "schedule", "local_steps"] {
                assert_eq!(
                    training.contains_key(key),
                    !unused.contains(&key),
                    "{algorithm} {key}"
                );
            }
            // What is told to a user comes with the setup, and the resolved spec is silent.
            assert_eq!(plan.setup().unwrap().notes, plan.notes);
            let again = Spec::parse(&plan.to_toml()).unwrap().plan().unwrap();
            assert!(again.notes.is_empty());
            assert_eq!(again.resolved, plan.resolved);
        }
    }
}
