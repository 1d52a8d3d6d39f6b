//! Results of a run for comparisons.

use std::path::Path;

use serde_json::Value;

use crate::files::{json, lines};

/// Reads the fingerprint of a finished run.
pub fn fingerprint(run: &Path) -> String {
    let summary = json(&run.join("summary.json"));
    summary["fingerprint"].as_str().unwrap().to_owned()
}

/// Reads the rounds' records without their wall time.
pub fn records(run: &Path) -> Vec<Value> {
    let mut records = lines(&run.join("rounds.jsonl"));
    for record in &mut records {
        record.as_object_mut().unwrap().remove("seconds");
    }
    records
}
