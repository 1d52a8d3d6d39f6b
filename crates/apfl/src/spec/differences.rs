//! Comparison of resolved specs.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::error::{Error, Result};

/// Returns the keys that identify a run and bind a checkpoint to it: all but `engine` and
/// `checkpoint`, which never change the result.
pub(crate) fn identifying_keys(resolved: &Table) -> Table {
    let mut table = resolved.clone();
    table.remove("engine");
    table.remove("checkpoint");
    table
}

/// Returns the identifying keys in which two resolved specs differ, with both values.
#[doc(hidden)]
pub fn differences(existing: &Table, given: &Table) -> Vec<String> {
    let mut differences = Vec::new();
    let (existing, given) = (identifying_keys(existing), identifying_keys(given));
    compare("", &existing, &given, &mut differences);
    differences
}

/// Returns the rounds of an existing resolved spec and of a given one that differs from it in
/// `training.rounds` alone. Returns `None` for any other difference, or none. Whether a run can end after fewer
/// rounds depends on its checkpoints.
///
/// # Errors
/// If the rounds trained so far would have been different.
#[doc(hidden)]
pub fn changed_rounds(existing: &Table, given: &Table) -> Result<Option<(u64, u64)>> {
    let rounds = |spec: &Table| spec.get("training")?.get("rounds")?.as_integer();
    let (Some(old), Some(new)) = (rounds(existing), rounds(given)) else {
        return Ok(None);
    };
    if old == new || differences(existing, given).len() != 1 {
        return Ok(None);
    }
    let key = |table: &str, key: &str| existing.get(table).and_then(|t| t.get(key));
    let kind = key("training", "schedule").and_then(|schedule| schedule.get("kind"));
    let every = key("evaluation", "every").and_then(Value::as_integer);
    let why = if kind.and_then(Value::as_str) == Some("theory") {
        "its learning-rate schedule depends on the number of rounds, so the rounds trained so far \
         would have been different"
            .to_string()
    } else if key("federation", "privacy").is_some_and(|privacy| privacy.get("epsilon").is_some()) {
        "its noise or its last round depends on federation.privacy.epsilon and the number of \
         rounds, so the rounds trained so far would have been different"
            .into()
    } else if let Some(every) = every.filter(|every| new > old && old % every != 0) {
        format!(
            "round {old} was evaluated as the last round, which one long run with \
             evaluation.every = {every} would not do"
        )
    } else {
        return Ok(u64::try_from(old).ok().zip(u64::try_from(new).ok()));
    };
    Err(Error::Request(format!(
        "training.rounds: found {new}, but the existing run has {old}: {why}; start a new run in \
         another directory"
    )))
}

fn compare(path: &str, existing: &Table, given: &Table, differences: &mut Vec<String>) {
    let keys: BTreeSet<&String> = existing.keys().chain(given.keys()).collect();
    for key in keys {
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        match (existing.get(key), given.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => compare(&path, a, b, differences),
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |v: Option<&Value>| v.map_or("nothing".into(), ToString::to_string);
                differences.push(format!(
                    "{path}: {} in the existing run, {} given",
                    shown(a),
                    shown(b)
                ));
            }
        }
    }
}
