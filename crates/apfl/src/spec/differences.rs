//! In which keys two resolved specs differ.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::error::{Error, Result};

/// Returns what of a resolved spec decides the result, and so binds a checkpoint to its run: all
/// but `engine` and `checkpoint`, for how a run is carried out never changes its result.
pub fn decisive(resolved: &Table) -> Table {
    let mut table = resolved.clone();
    table.remove("engine");
    table.remove("checkpoint");
    table
}

/// Returns the decisive keys in which two resolved specs differ, with both values.
pub fn differences(there: &Table, given: &Table) -> Vec<String> {
    let mut differences = Vec::new();
    compare("", &decisive(there), &decisive(given), &mut differences);
    differences
}

/// Whether a resolved spec is another one with more rounds and nothing else: how many. An
/// error where more rounds would not be those of one long run, or there are fewer.
pub fn prolonged(there: &Table, given: &Table) -> Result<Option<u64>> {
    let rounds = |spec: &Table| spec.get("training")?.get("rounds")?.as_integer();
    let (Some(old), Some(new)) = (rounds(there), rounds(given)) else {
        return Ok(None);
    };
    if old == new || differences(there, given).len() != 1 {
        return Ok(None);
    }
    let key = |table: &str, key: &str| there.get(table).and_then(|t| t.get(key));
    let kind = key("training", "schedule").and_then(|schedule| schedule.get("kind"));
    let every = key("evaluation", "every").and_then(Value::as_integer);
    let why = if new < old {
        "a run can be made longer, not shorter".to_string()
    } else if kind.and_then(Value::as_str) == Some("theory") {
        "its schedule follows from the number of rounds, so that those done so far would have \
         been others"
            .into()
    } else if key("federation", "privacy").is_some_and(|privacy| privacy.get("epsilon").is_some()) {
        "its noise, or where it ends, follows from federation.privacy.epsilon and the number of \
         rounds, so that those done so far would have been others"
            .into()
    } else if let Some(every) = every.filter(|every| old % every != 0) {
        format!(
            "round {old} was evaluated as its last, which one long run with evaluation.every = \
             {every} does not do"
        )
    } else {
        return Ok(u64::try_from(new).ok());
    };
    Err(Error::Request(format!(
        "training.rounds: {old} there, {new} given: {why}; begin a new run in another directory"
    )))
}

fn compare(path: &str, there: &Table, given: &Table, differences: &mut Vec<String>) {
    let keys: BTreeSet<&String> = there.keys().chain(given.keys()).collect();
    for key in keys {
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        match (there.get(key), given.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => compare(&path, a, b, differences),
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |v: Option<&Value>| v.map_or("nothing".into(), ToString::to_string);
                differences.push(format!("{path}: {} there, {} given", shown(a), shown(b)));
            }
        }
    }
}
