//! The run directory: the files of a run and their records.

mod chosen;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::data::SourceFile;
use crate::metrics::{ByModel, FinalScores, Gain, OverClients, Spread, number_or_null};
use crate::privacy::Spent;

/// The file of the clients' losses on held-out rows.
const HELD_OUT: &str = "held-out.jsonl";

pub use chosen::{Alpha, ChosenRecord, GainSplit, HeldOutRecord, Prior, TotalGain};
pub(crate) use read::read_model;
pub use read::{
    FinishedRun, InterruptedRun, for_each_client, read_clients, read_held_out, read_rounds,
};
pub use write::{ClientRecordWriter, FinalizationFiles, RunDir};

/// `environment.json`: the environment that a run was made in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Environment {
    /// The format of the run directory.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The program's version.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// The processor.
    pub cpu: String,
    /// The number of elements in its vectors; 0: not known.
    #[serde(default)]
    pub lanes: usize,
    /// The engine.
    pub engine: String,
    /// The number of processes, for engines that may have several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ranks: Option<usize>,
    /// Threads of each process.
    pub threads: usize,
    /// The data's files and checksums.
    pub data: Vec<SourceFile>,
    /// The checksum of the partition, if the data does not name its clients.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partition: Option<String>,
}

/// A line of `clients.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRecord {
    /// The client's name.
    pub client: String,
    /// The number of its examples.
    pub examples: Counts,
    /// The number of its training examples of each class.
    pub classes: Vec<u64>,
    /// Rounds it took part in.
    pub rounds: u64,
    /// Whether it attacks the shared model.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub attacker: bool,
    /// αᵢ; `Some(None)`, written as null, if it serves the shared model.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "present"
    )]
    pub mixing: Option<Option<f64>>,
    /// With privacy by example, ε of its examples; absent if it is infinite.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epsilon: Option<f64>,
    /// Validation accuracy of always predicting its most common training class.
    pub majority: Option<f64>,
    /// Validation errors of always predicting the mean of its training examples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_mean: Option<MeanErrors>,
    /// The scores.
    #[serde(flatten)]
    pub scores: ByModel<FinalScores>,
    /// The candidate it chose and the losses it chose by, if it chose.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<ChosenRecord>,
    /// Scores of training alone, if it also did that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<FinalScores>,
    /// Scores of its own tuned fit, in that case: a ridge by its own evidence for linear models,
    /// else those of training alone.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "scores"
    )]
    pub baseline: Option<FinalScores>,
    /// The loss of that fit minus the loss of the personal model, on test rows (else validation
    /// rows).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<Gain>,
}

impl ClientRecord {
    /// Returns αᵢ, if the client has one.
    pub fn alpha(&self) -> Option<f64> {
        self.mixing.flatten()
    }
}

/// The number of a client's examples in each split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Training examples.
    pub train: usize,
    /// Validation examples.
    pub valid: usize,
    /// Test examples, if there is such a split.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test: Option<usize>,
}

/// Errors of always predicting the mean of a client's training examples, in the label's units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanErrors {
    /// Root mean squared error.
    #[serde(deserialize_with = "number_or_null")]
    pub rmse: f64,
    /// Mean absolute error.
    #[serde(deserialize_with = "number_or_null")]
    pub mae: f64,
}

/// αᵢ over the finalized clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixingSpread {
    /// The distribution.
    #[serde(flatten)]
    pub spread: Spread,
    /// The number of clients whose αᵢ ended at exactly 0; `None` in directories of versions that
    /// did not count them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_zero: Option<usize>,
    /// The same for exactly 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at_one: Option<usize>,
}

impl MixingSpread {
    /// Returns the distribution of the αᵢ; `None` without values.
    pub fn of(alphas: &[f64]) -> Option<Self> {
        let count = |end: f64| Some(alphas.iter().filter(|alpha| **alpha == end).count());
        Some(Self {
            spread: Spread::of(alphas)?,
            at_zero: count(0.0),
            at_one: count(1.0),
        })
    }
}

/// `summary.json`: the final numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The number of rounds trained.
    pub rounds: u64,
    /// The number of finalized clients, without attackers.
    pub clients: usize,
    /// The number of finalized attackers, whose scores are excluded.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attackers: usize,
    /// A hash of the whole state of training.
    pub fingerprint: String,
    /// Clients that were not finalized: their loss was not finite, or they did not respond.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<String>,
    /// Scores of the three models over those clients; absent without clients.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub models: Option<ByModel<OverClients>>,
    /// Validation accuracy of always predicting a client's most common training class, pooled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub majority: Option<f64>,
    /// Validation errors of always predicting the mean of a client's training examples, pooled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_mean: Option<MeanErrors>,
    /// αᵢ over those clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<MixingSpread>,
    /// How many of them chose each candidate.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub chosen: BTreeMap<String, usize>,
    /// The federation's losses on held-out rows, by which new clients choose.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prior: Option<Prior>,
    /// Scores of training alone over those clients, if they also did that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<OverClients>,
    /// Scores of the clients' own tuned fits, in that case.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "scores"
    )]
    pub baseline: Option<OverClients>,
    /// The loss of those fits minus that of personal models, over all of their rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<TotalGain>,
    /// The privacy that was spent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub privacy: Option<Spent>,
    /// Wall time of the rounds.
    pub seconds: f64,
}

/// Returns the format of directories that do not name one.
fn first_format() -> u32 {
    1
}

/// Reads scores. Until version 0.1 `baseline` was what is `client_mean` now: errors without parts.
fn scores<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    match Value::deserialize(from)? {
        Value::Object(fields) if fields.contains_key("rmse") => Ok(None),
        found => serde_json::from_value(found).map_err(D::Error::custom),
    }
}

/// Distinguishes a null from an absent field.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_of_the_mean_in_old_records_are_no_baseline() {
        let scores = json!({"train": {"loss": 1.0}, "valid": {"loss": 2.0}});
        let record = |baseline: Value| {
            let record = json!({
                "client": "a", "examples": {"train": 1, "valid": 1}, "classes": [], "rounds": 1,
                "shared": scores, "localized": scores, "personal": scores, "baseline": baseline,
            });
            serde_json::from_value::<ClientRecord>(record)
        };
        let old = record(json!({"rmse": 2.0, "mae": 1.0})).unwrap();
        assert_eq!(old.baseline, None);
        let new = record(scores.clone()).unwrap();
        assert_eq!(new.baseline.unwrap().valid.loss, 2.0);
        assert!(record(json!({"train": 3})).is_err());
    }
}
