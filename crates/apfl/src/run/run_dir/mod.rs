//! The run directory: the files of a run and their records.

mod chosen;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::data::SourceFile;
use crate::metrics::{ByModel, FinalScores, Gain, OverClients, Spread};
use crate::privacy::Spent;
use crate::run::stop::Stopped;

/// The file of the clients' losses on held-out rows.
const HELD_OUT: &str = "held-out.jsonl";

pub use chosen::{Alpha, ChosenRecord, GainSplit, HeldOutRecord, Prior, TotalGain};
pub(crate) use read::read_model;
pub use read::{FinishedRun, InterruptedRun, read_clients, read_held_out, read_rounds};
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
    pub baseline: Option<Baseline>,
    /// The scores.
    #[serde(flatten)]
    pub scores: ByModel<FinalScores>,
    /// The candidate it chose and the losses it chose by, if it chose.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<ChosenRecord>,
    /// Scores of training alone, if it also did that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<FinalScores>,
    /// The loss of training alone minus that of the personal model, on test rows (else
    /// validation rows).
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
    /// The number of rounds trained.
    pub rounds: u64,
    /// Where training stopped, if not simply after all rounds: why, and the round that the models
    /// are of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<Stopped>,
    /// If the loss still fell by more than 1% over the last tenth of the run, by which share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_converged: Option<f64>,
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
    pub baseline: Option<Baseline>,
    /// αᵢ over those clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<Spread>,
    /// How many of them chose each candidate.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub chosen: BTreeMap<String, usize>,
    /// The federation's losses on held-out rows, by which new clients choose.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prior: Option<Prior>,
    /// Scores of training alone over those clients, if they also did that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<OverClients>,
    /// The loss of training alone minus that of personal models, over all of their rows.
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

/// Distinguishes a null from an absent field.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
