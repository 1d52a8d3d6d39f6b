//! In which keys two resolved specs differ.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The keys in which two resolved specs differ, with both values, but for those of `engine`
/// and `checkpoint`: how a run is carried out never changes its result.
pub fn differences(there: &Table, given: &Table) -> Vec<String> {
    let result = |table: &Table| {
        let mut table = table.clone();
        table.remove("engine");
        table.remove("checkpoint");
        table
    };
    let mut differences = Vec::new();
    compare("", &result(there), &result(given), &mut differences);
    differences
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
