//! Specs: all problems are reported together, overrides, and resolved specs.

use crate::small::fitting;
use apfl::algorithm::every_algorithm;
use apfl::error::Error;
use apfl::settings::Problem;
use apfl::spec::{Plan, Spec};
use apfl::training::Training;

/// The problems of a spec, which must have status 2.
fn problems(spec: &Spec) -> Vec<Problem> {
    let error = spec.plan().expect_err("a wrong spec");
    assert!(error.is_request(), "{error}");
    let text = error.to_string();
    match error {
        Error::Spec(problems) => {
            let count = problems.0.len();
            assert!(
                text.starts_with(&format!("the spec has {count} problem")),
                "{text}"
            );
            for Problem { key, message } in &problems.0 {
                assert!(text.contains(&format!("\n  {key}: {message}")), "{text}");
            }
            problems.0
        }
        other => panic!("not a list of problems: {other}"),
    }
}

fn parsed(text: &str) -> Spec {
    Spec::parse(text).unwrap()
}

/// The spec has that one problem, whose message has these words.
fn one(text: &str, key: &str, words: &[&str]) {
    let problems = problems(&parsed(text));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].key, key);
    for word in words {
        let message = &problems[0].message;
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

#[test]
fn values_out_of_range() {
    let share = "federation.participation";
    one(
        "federation.participation = 1.5",
        share,
        &["found 1.5", "at most 1"],
    );
    one(
        "federation.participation = 0",
        share,
        &["found 0", "above 0, at most 1"],
    );
    one("federation.participation = nan", share, &["found nan"]);
    one(
        "training.local_steps = 0",
        "training.local_steps",
        &["found 0", "at least 1"],
    );
    one(
        "training.local_epochs = 0",
        "training.local_epochs",
        &["found 0", "at least 1"],
    );
    one("training.rounds = -3", "training.rounds", &["found -3"]);
    one("training.batch = 0", "training.batch", &["found 0", "full"]);
    one(
        "training.learning_rate = 0",
        "training.learning_rate",
        &["found 0", "above 0"],
    );
    one(
        "training.learning_rate = inf",
        "training.learning_rate",
        &["found inf"],
    );
    one(
        "data.validation = 1",
        "data.validation",
        &["found 1", "below 1"],
    );
    one("model.l2 = -1e-4", "model.l2", &["found -0.0001"]);
    let both = "training.local_steps = 3\ntraining.local_epochs = 1";
    one(both, "training.local_epochs", &["mutually exclusive"]);
}

#[test]
fn mixing_out_of_range() {
    for wrong in [
        "{ fixed = 1.5 }",
        "{ fixed = -0.1 }",
        "{ adaptive = nan }",
        "{ fixed = 0.5, adaptive = 0.5 }",
        "{ learned = 0.5 }",
        "{}",
        "0.5",
        "'half'",
    ] {
        let text = format!("algorithm.mixing = {wrong}");
        one(
            &text,
            "algorithm.mixing",
            &["found", "0 ≤ α ≤ 1", "fixed", "adaptive"],
        );
    }
}

#[test]
fn near_misses_suggest_the_right_word() {
    one(
        "training.ruonds = 3",
        "training.ruonds",
        &["unknown key", "\"rounds\""],
    );
    one("trainin = {}", "trainin", &["unknown key", "\"training\""]);
    one("data.gama = 1", "data.gama", &["\"gamma\""]);
    one(
        "algorithm.kind = 'fedavgg'",
        "algorithm.kind",
        &["\"fedavg\"", "apfl"],
    );
    one(
        "training.zzz = 3",
        "training.zzz",
        &["unknown key", "known here", "rounds"],
    );
    one("data = 3", "data", &["found 3", "a table"]);
}

#[test]
fn every_problem_is_listed_at_once() {
    let found = problems(&parsed(
        "sede = 1
         [federation]
         participation = 1.5
         [training]
         local_steps = 0
         learning_rat = 1
         [algorithm]
         mixing = { fixed = 1.5 }
         [data]
         kind = 'table'",
    ));
    let mut keys: Vec<&str> = found.iter().map(|p| p.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "algorithm.mixing",
            "data.path",
            "federation.participation",
            "sede",
            "training.learning_rat",
            "training.local_steps",
        ]
    );
}

#[test]
fn text_that_is_not_toml() {
    let error = Spec::parse("seed = = 1").unwrap_err();
    assert!(error.is_request());
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn overrides_are_toml_or_else_a_text() {
    let mut spec = Spec::default();
    for assignment in [
        "training.rounds=7",
        "algorithm.mixing={ fixed = 0.5 }",
        "training.batch=full",
        "data.iid=true",
        "training.schedule = constant",
    ] {
        spec.set(assignment).unwrap();
    }
    let plan = spec.plan().unwrap();
    assert_eq!(plan.rounds, 7);
    assert_eq!(plan.local_training.batch, None);
    let text = plan.to_toml();
    for line in ["fixed = 0.5", "iid = true", "kind = \"constant\""] {
        assert!(text.contains(line), "no {line:?} in: {text}");
    }
    for wrong in ["training.rounds", "=3", "training..rounds=3", ".=1"] {
        let error = spec.set(wrong).expect_err(wrong);
        assert!(error.is_request());
        assert!(error.to_string().contains(wrong), "{error}");
    }
    spec.set("training.ruonds=3").unwrap();
    assert_eq!(problems(&spec)[0].key, "training.ruonds");
}

#[test]
fn another_kind_drops_what_it_does_not_have() {
    let mut spec = parsed("[algorithm]\nkind = 'apfl'\nmixing = { fixed = 0.5 }");
    spec.set("algorithm.kind=fedavg").unwrap();
    let text = spec.plan().unwrap().to_toml();
    assert!(
        text.contains("kind = \"fedavg\"") && !text.contains("mixing"),
        "{text}"
    );

    let mut spec = parsed("[data]\ngamma = 0.5\nclients = 9\nvalidation = 0.1");
    spec.set("data.kind=table").unwrap();
    spec.set("data.path=x.csv").unwrap();
    let text = spec.plan().unwrap().to_toml();
    assert!(
        !text.contains("gamma") && text.contains("validation = 0.1"),
        "{text}"
    );

    let mut spec = parsed("[model]\nkind = 'mlp'\nhidden = [3]");
    spec.set("model.kind=logistic").unwrap();
    assert!(!spec.plan().unwrap().to_toml().contains("hidden"));
}

#[test]
fn overridden_keys_are_never_dropped_silently() {
    for set in [
        "algorithm.mixing={ fixed = 0.5 }",
        "algorithm.mixing.fixed=0.5",
    ] {
        let mut spec = parsed("algorithm = { kind = 'apfl' }");
        spec.set("algorithm.kind=fedavg").unwrap();
        spec.set(set).unwrap();
        assert_eq!(problems(&spec)[0].key, "algorithm.mixing", "{set}");
    }
    let mut spec = parsed("data = { kind = 'synthetic' }");
    for set in [
        "data.kind=table",
        "data.path=x.csv",
        "data.client=",
        "data.partition.kinds=iid",
    ] {
        spec.set(set).unwrap();
    }
    assert_eq!(problems(&spec)[0].key, "data.partition.kinds");
    // And without another kind a key that the kind does not have stays a problem.
    one(
        "algorithm = { kind = 'fedavg', mixing = { fixed = 0.5 } }",
        "algorithm.mixing",
        &[],
    );
}

fn fingerprint(plan: &Plan) -> String {
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    while training.next_round().unwrap().is_some() {}
    training.fingerprint().unwrap()
}

#[test]
fn a_resolved_spec_is_the_same_run() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.csv");
    let rows: String = (0..60)
        .map(|k| format!("{},{},{}\n", k % 7, k * k % 11, k % 3))
        .collect();
    std::fs::write(&table, format!("a,b,label\n{rows}")).unwrap();
    let table = format!(
        "data = {{ kind = 'table', path = '{}', client = '', clients = 4, standardize = true }}",
        table.display()
    );
    let synthetic =
        "data = { kind = 'synthetic', clients = 6, features = 5, examples = 30, seed = 9 }";
    for data in [&table, synthetic] {
        for model in [
            "{ kind = 'logistic' }",
            "{ kind = 'mlp', hidden = [4], l2 = 0.1 }",
        ] {
            for algorithm in every_algorithm() {
                let text = format!(
                    "seed = 3\nalgorithm = {algorithm}\nmodel = {model}\n{data}\n\
                     federation = {{ participation = 0.5, weights = 'examples' }}\n\
                     training = {{ rounds = 3, local_epochs = 2, batch = 7, learning_rate = 0.3 }}"
                );
                // Averaged outputs need equal steps, agnostic ones set the weights.
                let plain = text
                    .replace("local_epochs", "local_steps")
                    .replace(", weights = 'examples'", "");
                let plan = fitting(parsed(&text)).plan();
                let plan = plan.unwrap_or_else(|_| fitting(parsed(&plain)).plan().unwrap());
                let again = parsed(&plan.to_toml()).plan().unwrap();
                assert_eq!(again.to_toml(), plan.to_toml());
                assert_eq!(
                    fingerprint(&again),
                    fingerprint(&plan),
                    "{}",
                    plan.to_toml()
                );
            }
        }
    }
}

#[test]
fn the_fingerprint_sees_what_changes_a_run() {
    let base = "data = { kind = 'synthetic', clients = 4, features = 5, examples = 30 }
                training = { rounds = 2 }";
    let of = |set: &str| {
        let mut spec = parsed(base);
        spec.set(set).unwrap();
        fingerprint(&spec.plan().unwrap())
    };
    let plain = of("seed=1");
    for set in [
        "seed=2",
        "training.rounds=3",
        "training.batch=7",
        "training.learning_rate=0.2",
        "model.l2=0.01",
        "federation.participation=0.5",
        "algorithm.mixing.adaptive=0.5",
    ] {
        assert_ne!(of(set), plain, "{set}");
    }
    for set in [
        "engine.threads=3",
        "evaluation.every=2",
        "delivery.keep=false",
    ] {
        assert_eq!(of(set), plain, "{set}");
    }
}

/// Run directories are bound to this text: a change of it is one of what can be resumed.
#[test]
fn the_resolved_default_stays_byte_for_byte() {
    let resolved = Spec::default().plan().unwrap().to_toml();
    assert_eq!(resolved, RESOLVED);
}

const RESOLVED: &str = "\
seed = 1

[data]
kind = \"synthetic\"
seed = 1
validation = 0.2
test = 0.0
min_examples = 0
gamma = 1.0
beta = 1.0
features = 60
classes = 10
iid = false
max_examples = 1000
clients = 100

[model]
kind = \"linear\"
init = \"zeros\"
l2 = 0.0001
loss = \"auto\"

[algorithm]
kind = \"apfl\"
preset = \"none\"
mix = \"parameters\"
order = \"simultaneous\"
alpha_every = \"round\"
alpha_l2 = 0.0
alpha_gradient = \"slope\"
alpha_on = \"batch\"
alpha_rate = \"schedule\"
v_rate = \"schedule\"
l2_on_v = false
v_dropout = \"always\"
projection = \"none\"
output = \"last\"
agnostic = false

[algorithm.mixing]
adaptive = 0.01

[federation]
participation = 1.0
weights = \"uniform\"
aggregation = \"mean\"

[federation.attack]
kind = \"none\"

[federation.server]
kind = \"mean\"

[training]
rounds = 100
local_steps = 10
batch = 50
learning_rate = 0.1
momentum = 0.0
on_nonfinite = \"stop\"
class_weights = \"none\"

[training.schedule]
kind = \"geometric\"
factor = 0.99
per = \"round\"

[evaluation]
every = 1

[delivery]
clients = \"all\"
keep = true

[checkpoint]
every = 10

[engine]
kind = \"threads\"
threads = 0
memory = \"ram\"
";

/// A kind that is set drops what it does not have, but except keys that overrides set, also
/// within a table that they gave whole.
#[test]
fn a_mistyped_key_within_a_table_that_is_set_is_named() {
    for (kind, table, key, near) in [
        (
            "algorithm.kind=apfl",
            "algorithm.mixing={ chosen = [0, 1], fold = 1 }",
            "algorithm.mixing.fold",
            "folds",
        ),
        (
            "data.kind=mnist",
            "data.partition={ kind = 'dirichlet', concentraton = 5 }",
            "data.partition.concentraton",
            "concentration",
        ),
    ] {
        let mut spec = Spec::parse("algorithm.kind = 'fedavg'").unwrap();
        spec.set(kind).unwrap();
        spec.set(table).unwrap();
        let message = spec.plan().unwrap_err().to_string();
        let expected = format!("{key}: unknown key; did you mean \"{near}\"?");
        assert!(message.contains(&expected), "{message}");
    }
}
