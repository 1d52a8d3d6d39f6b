//! The run directory: what a run leaves behind.

mod chosen;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::data::SourceFile;
use crate::metrics::{ByModel, FinalScores, Gain, OverClients, Spread};
use crate::privacy::Spent;

/// The file of what clients saw on held-out rows.
const HELD_OUT: &str = "held-out.jsonl";

pub use chosen::{Alpha, ChosenRecord, HeldOutRecord, Part, Prior, TotalGain};
pub(crate) use read::read_model;
pub use read::{FinishedRun, InterruptedRun, read_clients, read_held_out, read_rounds};
pub use write::{ClientLines, FinalizationFiles, RunDir};

/// `environment.json`: where and by what a run was made.
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
    /// How many numbers its vectors hold; 0: not known.
    #[serde(default)]
    pub lanes: usize,
    /// The engine.
    pub engine: String,
    /// On how many processes, where they may be several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ranks: Option<usize>,
    /// Threads of each process.
    pub threads: usize,
    /// The data's files and checksums.
    pub data: Vec<SourceFile>,
    /// The checksum of who has which example, as a partition file would have it,
    /// where the data does not name its clients itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partition: Option<String>,
}

/// A line of `clients.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRecord {
    /// The client's name.
    pub client: String,
    /// How many examples it has.
    pub examples: Counts,
    /// Its training examples of every class.
    pub classes: Vec<u64>,
    /// Rounds it took part in.
    pub rounds: u64,
    /// Whether it attacks the shared model.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub attacker: bool,
    /// αᵢ; `Some(None)`, written as null: it serves the shared model, which has none.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "present"
    )]
    pub mixing: Option<Option<f64>>,
    /// With privacy by example, ε of its examples; absent where it is infinite.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epsilon: Option<f64>,
    /// Validation accuracy of always answering its commonest training class.
    pub majority: Option<f64>,
    /// Validation errors of always answering the mean of its training examples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline: Option<Baseline>,
    /// The scores.
    #[serde(flatten)]
    pub scores: ByModel<FinalScores>,
    /// What it chose and by which losses, where it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<ChosenRecord>,
    /// Scores of training alone, where it did that too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<FinalScores>,
    /// The loss of training alone minus that of the personal model, on test rows (validation
    /// where there are none).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<Gain>,
}

impl ClientRecord {
    /// αᵢ, where the client has one.
    pub fn alpha(&self) -> Option<f64> {
        self.mixing.flatten()
    }
}

/// Training and validation examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// For training.
    pub train: usize,
    /// Held out.
    pub valid: usize,
    /// Held out for a test, where there is such a part.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test: Option<usize>,
}

/// Errors of always answering the mean of a client's training examples, in the label's units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Root mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
}

/// `summary.json`: the final numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Rounds trained.
    pub rounds: u64,
    /// Clients that delivery reached, attackers not counted.
    pub clients: usize,
    /// Attackers that delivery reached: their scores are in no number here.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attackers: usize,
    /// A hash of the whole state of training.
    pub fingerprint: String,
    /// Clients that were left out of delivery: their loss was not finite, or they did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<String>,
    /// The three models over those clients; absent where there are none.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub models: Option<ByModel<OverClients>>,
    /// Validation accuracy of always answering a client's commonest training class, pooled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub majority: Option<f64>,
    /// Validation errors of always answering the mean of a client's training examples, pooled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline: Option<Baseline>,
    /// αᵢ over those clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<Spread>,
    /// How many of them chose what, where they did.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub chosen: BTreeMap<String, usize>,
    /// The federation's losses on held-out rows, which a newcomer chooses by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prior: Option<Prior>,
    /// Training alone over those clients, where they did that too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<OverClients>,
    /// The loss of training alone minus that of the personal models, over all their rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gain: Option<TotalGain>,
    /// What privacy cost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub privacy: Option<Spent>,
    /// Wall time of the rounds.
    pub seconds: f64,
}

/// Directories that do not say their format are of the first.
fn first_format() -> u32 {
    1
}

/// What is written is there, be it null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
