//! `preset = "authors"`: the choices of the authors' released code (FedTorch) where the paper's
//! text differs or says nothing.

use toml::{Table, Value};

use crate::settings::{Problems, Setting, Values, Words, shown};

pub(super) const PRESET: Setting<Words<bool>> = Setting::words(
    "preset",
    "none",
    &[
        ("none", false, ""),
        (
            "authors",
            true,
            "the choices of the authors' released code instead of the paper's text",
        ),
    ],
)
.help(
    "whose choices a run follows: the paper's text or the authors' released code; its old name \
     `fedtorch` is accepted",
)
.source("FedTorch")
.seldom();

/// The old name of the preset, which is accepted.
const OLD_NAME: &str = "fedtorch";

/// Returns the spec with deprecated keys replaced and, if it names the preset, with the released
/// code's choices in place of its own; keys that an override set are kept. Also returns a note
/// that lists the choices.
pub(super) fn expand(
    written: &Table,
    overridden: &[String],
    problems: &mut Problems,
) -> (Table, Option<String>) {
    let mut table = written.clone();
    replace_deprecated(&mut table);
    let Some(mut found) = table.remove(PRESET.key) else {
        return (table, None);
    };
    if found.as_str() == Some(OLD_NAME) {
        found = "authors".into();
    }
    match PRESET.values.parse(&found) {
        Some(true) => (),
        Some(false) => return (table, None),
        None => {
            problems.note(PRESET.key, PRESET.refusal(&found));
            return (table, None);
        }
    }
    let mut applied = Vec::new();
    for (key, value) in choices(&table) {
        let sets_it = |set: &String| *set == key || set.starts_with(&format!("{key}."));
        if overridden.iter().any(sets_it) {
            continue;
        }
        applied.push(format!("{key} = {}", shown(&value)));
        insert(&mut table, key, value);
    }
    let note = format!("preset = \"authors\" sets {}", applied.join(", "));
    (table, Some(note))
}

/// Replaces the deprecated `model.augment = true` by `data.augment = "train"`.
fn replace_deprecated(table: &mut Table) {
    let model = table.get_mut("model").and_then(Value::as_table_mut);
    if let Some(model) = model
        && let Some(Value::Boolean(augment)) = model.get("augment").cloned()
    {
        model.remove("augment");
        if augment && text(table, "data", "augment").is_none() {
            insert(table, "data.augment", "train".into());
        }
    }
}

fn text<'t>(table: &'t Table, section: &str, key: &str) -> Option<&'t str> {
    table.get(section)?.get(key)?.as_str()
}

/// Sets `section.key`.
fn insert(table: &mut Table, key: &str, value: Value) {
    let (section, key) = key.split_once('.').expect("a section and a key");
    let section = table
        .entry(section.to_string())
        .or_insert_with(|| Value::Table(Table::new()));
    if let Some(section) = section.as_table_mut() {
        section.insert(key.into(), value);
    }
}

/// Returns the keys and values of the released code, which docs/AUTHORS.md lists:
///
/// | where | the released code |
/// |---|---|
/// | every model | weight decay 1e-4 |
/// | the MLP | BatchNorm with batch statistics only, dropout 0.25, a head without a bias; scores in shuffled batches of the training's size |
/// | CIFAR-10 | flips and crops of all images, in training and scoring |
/// | the learning rate | constant |
/// | APFL | `preset = "authors"` |
/// | perFedAvg | `variant = "authors"` |
/// | pFedMe | `variant = "authors"`: both rates are the training's |
fn choices(table: &Table) -> Vec<(&'static str, Value)> {
    let model = text(table, "model", "kind").unwrap_or("linear");
    let algorithm = text(table, "algorithm", "kind").unwrap_or("apfl");
    let mut all: Vec<(&'static str, Value)> = vec![("model.l2", 1e-4.into())];
    if model == "mlp" {
        all.push(("model.norm", "batch".into()));
        all.push(("model.dropout", 0.25.into()));
        all.push(("model.head_bias", false.into()));
        let batch = table.get("training").and_then(|t| t.get("batch"));
        let batch = batch.map_or(Some(50), Value::as_integer);
        all.extend(batch.map(|batch| ("evaluation.batch", batch.into())));
    }
    if text(table, "data", "kind") == Some("cifar10") {
        all.push(("data.augment", "all".into()));
    }
    let mut schedule = Table::new();
    schedule.insert("kind".into(), "constant".into());
    all.push(("training.schedule", schedule.into()));
    let mixing = table.get("algorithm").and_then(|t| t.get("mixing"));
    let chosen = mixing.is_some_and(|mixing| mixing.get("chosen").is_some());
    match algorithm {
        // A chosen α is not learned, so the options of learning it do not apply.
        "apfl" if chosen => all.extend([
            ("algorithm.mix", "logits".into()),
            ("algorithm.order", "sequential".into()),
            ("algorithm.v_rate", "constant".into()),
            ("algorithm.l2_on_v", true.into()),
            ("algorithm.v_dropout", "first-round".into()),
        ]),
        "apfl" => all.push(("algorithm.preset", "authors".into())),
        "perfedavg" => all.push(("algorithm.variant", "authors".into())),
        "pfedme" => all.push(("algorithm.variant", "authors".into())),
        _ => (),
    }
    all
}
