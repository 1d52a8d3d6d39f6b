//! The authors' released code: perFedAvg by hand, and what `preset = "authors"` makes of a spec.

use apfl::algorithm::perfedavg::{PerFedAvg, Variant};
use apfl::error::Error;
use apfl::schedule::{Per, Schedule};
use apfl::spec::{Plan, Spec};
use toml::Value;

use crate::small::{Hand, full, quadratics};

/// On ½b² a step of rate r makes (1−r)b of b. 16 examples in batches of 2: two are the round's
/// meta batch, 14 make a pass of 7 steps. Eight steps from b = 1 with η = ½ and β = ¼ are ¾⁸ by the
/// meta batch and as follows by the others:
///
/// | the rate | round 1 | round 2 (steps 9 to 16) |
/// |---|---|---|
/// | stays | ½ by step 1, ¾ by the others | ¾ by all |
/// | falls to a fifth a round | ½ by steps 1 and 8, which begin a pass | ⁹⁄₁₀ by step 15 |
#[test]
fn the_authors_per_fed_avg_leaves_its_rate_behind() {
    let falling = Schedule::Geometric {
        factor: 0.2,
        per: Per::Round,
    };
    for (schedule, first, second) in [
        (Schedule::Constant, 0.5 * 0.75f64.powi(15), 0.75f64.powi(16)),
        (falling, 0.25 * 0.75f64.powi(14), 0.9 * 0.75f64.powi(15)),
    ] {
        let small = quadratics(&[&[0.0; 16]], 0.0);
        let mut local_training = full(8, 0.5);
        (local_training.batch, local_training.schedule) = (Some(2), schedule);
        let algorithm = PerFedAvg {
            variant: Variant::Authors,
            inner_rate: 0.0,
            outer_rate: 0.25,
            delta: 1e-3,
        };
        let mut hand = Hand::new(algorithm, small.setup(local_training, 2, 1.0, false));
        hand.server.model = vec![0.0, 1.0];
        let seen = hand.step();
        let found = f64::from(hand.shared()[1]);
        assert!((found / first - 1.0).abs() < 1e-5, "{found} {first}");
        // What is served is the local model itself.
        assert_eq!(seen[0].personal.as_ref(), Some(&seen[0].localized));
        hand.step();
        let (found, wanted) = (f64::from(hand.shared()[1]), first * second);
        assert!((found / wanted - 1.0).abs() < 1e-5, "{found} {wanted}");
    }
}

const TABLE2: &str = "
[data]
kind = 'mnist'
[model]
kind = 'mlp'
[algorithm]
kind = 'apfl'
mixing = { adaptive = 0.5 }
[training]
batch = 20
schedule = { kind = 'geometric', factor = 0.99, per = 'round' }
";

fn plan(text: &str, set: &[&str]) -> Plan {
    let mut spec = Spec::parse(text).unwrap();
    set.iter().for_each(|pair| spec.set(pair).unwrap());
    spec.plan().unwrap()
}

fn at<'p>(plan: &'p Plan, key: &str) -> &'p Value {
    let (table, key) = key.split_once('.').unwrap();
    &plan.resolved[table][key]
}

#[test]
fn the_preset_has_the_released_codes_choices() {
    let plan = plan(TABLE2, &["preset=authors"]);
    for (key, value) in [
        ("model.norm", Value::from("batch")),
        ("model.dropout", 0.25.into()),
        ("model.head_bias", false.into()),
        ("model.l2", 1e-4.into()),
        ("evaluation.batch", 20.into()),
        ("algorithm.preset", "authors".into()),
        ("algorithm.v_dropout", "first-round".into()),
    ] {
        assert_eq!(at(&plan, key), &value, "{key}");
    }
    let schedule = at(&plan, "training.schedule").as_table().unwrap();
    assert_eq!(schedule["kind"].as_str(), Some("constant"));
    // What it takes is said, and the resolved spec needs no preset.
    let said = plan.notes.join("\n");
    assert!(said.contains("training.schedule = {"), "{said}");
    assert!(!plan.resolved.contains_key("preset"));
    let again = Spec::parse(&plan.to_toml()).unwrap().plan().unwrap();
    assert_eq!(again.resolved, plan.resolved);
}

/// Old names stand for the new ones, in files and in overrides, and are not written again.
#[test]
fn old_names_are_read() {
    for (kind, key, old, new) in [
        ("apfl", "preset", "fedtorch", "authors"),
        ("perfedavg", "variant", "released", "authors"),
        ("pfedme", "variant", "released", "authors"),
        ("pfedme", "variant", "fedtorch", "authors-loop"),
    ] {
        let written = |word: &str| {
            let text = format!("algorithm = {{ kind = '{kind}', {key} = '{word}' }}");
            plan(&text, &[]).resolved
        };
        let set = plan(
            "",
            &[
                &format!("algorithm.kind={kind}"),
                &format!("algorithm.{key}={old}"),
            ],
        );
        assert_eq!(written(old), written(new), "{kind} {old}");
        assert_eq!(set.resolved, written(new));
        assert_eq!(set.resolved["algorithm"][key].as_str(), Some(new));
    }
    let whole = plan("preset = 'fedtorch'", &[]);
    assert_eq!(whole.resolved, plan("preset = 'authors'", &[]).resolved);
    assert_eq!(whole.resolved, plan("", &["preset=fedtorch"]).resolved);
    assert_ne!(whole.resolved, plan("", &[]).resolved);
    // The loop alone has rates of its own; the code has the training's.
    let rates = |variant: &str| {
        let text = format!("algorithm = {{ kind = 'pfedme', variant = '{variant}' }}");
        let table = plan(&text, &[]).resolved;
        table["algorithm"]
            .as_table()
            .unwrap()
            .contains_key("inner_rate")
    };
    assert!(rates("authors-loop") && !rates("authors"));
}

/// docs/AUTHORS.md has a row for every key and value that the preset sets, and for every option of
/// APFL's own preset.
#[test]
fn the_page_lists_what_the_preset_sets() {
    let page = include_str!("../../../../docs/AUTHORS.md");
    let mut rows = 0;
    let mut row = |key: &str, value: &Value| {
        let row = format!("| `{key}` | `{value}` |");
        assert!(page.contains(&row), "docs/AUTHORS.md has no row {row}");
        rows += 1;
    };
    let kinds = ["apfl", "perfedavg", "pfedme", "fedavg", "scaffold"];
    for kind in kinds {
        let with = plan(
            TABLE2,
            &["preset=authors", &format!("algorithm.kind={kind}")],
        );
        let without = plan(TABLE2, &[&format!("algorithm.kind={kind}")]);
        for table in ["algorithm", "model", "evaluation"] {
            for (key, value) in with.resolved[table].as_table().unwrap() {
                let before = without.resolved[table].get(key);
                if before != Some(value) && key != "batch" {
                    row(&format!("{table}.{key}"), value);
                }
            }
        }
        // What only the model and the training have is nobody's own.
        let own = with.resolved["algorithm"] != without.resolved["algorithm"];
        assert_eq!(
            own,
            matches!(kind, "apfl" | "perfedavg" | "pfedme"),
            "{kind}"
        );
    }
    let chosen = ["preset=authors", "algorithm.mixing={ chosen = [0, 1] }"];
    let (with, without) = (plan("", &chosen), plan("", &chosen[1..]));
    for (key, value) in with.resolved["algorithm"].as_table().unwrap() {
        if without.resolved["algorithm"].get(key) != Some(value) {
            row(&format!("algorithm.{key}"), value);
        }
    }
    assert!(rows > 15, "{rows}");
}

#[test]
fn what_an_override_sets_stands() {
    let set = [
        "preset=authors",
        "model.dropout=0.5",
        "training.schedule.factor=0.95",
    ];
    let plan = plan(TABLE2, &set);
    assert_eq!(at(&plan, "model.dropout").as_float(), Some(0.5));
    let schedule = at(&plan, "training.schedule").as_table().unwrap();
    assert_eq!(schedule["factor"].as_float(), Some(0.95));
    assert_eq!(schedule["per"].as_str(), Some("round"));
}

#[test]
fn other_algorithms_models_and_data_have_their_own() {
    let of = |set: &[&str]| plan(TABLE2, &[&["preset=authors"], set].concat());
    let perfedavg = of(&["algorithm.kind=perfedavg"]);
    assert_eq!(
        at(&perfedavg, "algorithm.variant").as_str(),
        Some("authors")
    );
    assert_eq!(
        at(&perfedavg, "algorithm.outer_rate").as_float(),
        Some(0.03)
    );
    assert_eq!(
        at(&perfedavg, "training.learning_rate").as_float(),
        Some(0.1)
    );
    let pfedme = of(&["algorithm.kind=pfedme"]);
    assert_eq!(at(&pfedme, "algorithm.variant").as_str(), Some("authors"));
    let schedule = at(&pfedme, "training.schedule").as_table().unwrap();
    assert_eq!(schedule["kind"].as_str(), Some("constant"));
    let chosen = of(&["algorithm.mixing={ chosen = [0, 1] }"]);
    assert_eq!(at(&chosen, "algorithm.mix").as_str(), Some("logits"));
    let cnn = of(&["data.kind=cifar10", "model.kind=cnn"]);
    assert_eq!(at(&cnn, "data.augment").as_str(), Some("all"));
    assert_eq!(at(&cnn, "model.norm").as_str(), Some("none"));
    let wrong = Spec::parse("preset = 'author'")
        .unwrap()
        .plan()
        .unwrap_err();
    assert!(wrong.to_string().contains("none · authors"), "{wrong}");
}

/// A run of the release before says so in `[model]`.
#[test]
fn the_old_place_of_augmentation_is_read() {
    let cnn = "[data]\nkind = 'cifar10'\n[model]\nkind = 'cnn'\naugment = ";
    let old = plan(&format!("{cnn}true"), &[]);
    assert_eq!(at(&old, "data.augment").as_str(), Some("train"));
    let none = plan(&format!("{cnn}false"), &[]);
    assert!(
        !none.resolved["data"]
            .as_table()
            .unwrap()
            .contains_key("augment")
    );
    let flat = plan("[data]\naugment = 'all'", &[]).setup().unwrap_err();
    assert!(flat.to_string().contains("expected images"), "{flat}");
}

#[test]
fn batch_statistics_need_two_rows() {
    let text = "training.batch = 1\nevaluation.batch = 1\nmodel = { kind = 'mlp', norm = ";
    let of = |norm: &str| Spec::parse(&format!("{text}'{norm}' }}")).unwrap().plan();
    assert!(of("layer").is_ok());
    let problems = of("batch").unwrap_err().to_string();
    for key in ["training.batch", "evaluation.batch"] {
        assert!(problems.contains(&format!("{key}: found 1")), "{problems}");
    }
}

#[test]
fn private_examples_and_batch_statistics_do_not_go_together() {
    let text = "federation.privacy = { level = 'example', epsilon = 8.0, delta = 1e-5, clip = 1.0 }\n\
                model = { kind = 'mlp', norm = ";
    let of = |norm: &str| Spec::parse(&format!("{text}'{norm}' }}")).unwrap().plan();
    assert!(of("layer").is_ok() && of("none").is_ok());
    let Err(Error::Spec(problems)) = of("batch") else {
        panic!("batch statistics with privacy by example");
    };
    assert!(
        problems.to_string().contains("model.norm = \"batch\""),
        "{problems}"
    );
}
