//! A run's models put to use: `apfl export`, `apfl predict`, `apfl join`.

use std::path::PathBuf;

use clap::ValueEnum;

/// One of the models of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The server's model
    Shared,
    /// The client's copy of it after its last local steps
    Localized,
    /// The client's local model v (where the algorithm has none: its copy of the shared one)
    Local,
    /// The model the client serves
    Personal,
    /// What the client trained on its own rows alone (with mixing = { chosen = [… 1] })
    Alone,
}

impl From<Which> for apfl::WhichModel {
    fn from(which: Which) -> Self {
        match which {
            Which::Shared => apfl::WhichModel::Shared,
            Which::Localized => apfl::WhichModel::Localized,
            Which::Local => apfl::WhichModel::Local,
            Which::Personal => apfl::WhichModel::Personal,
            Which::Alone => apfl::WhichModel::Alone,
        }
    }
}

/// `apfl export`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl export runs/a --model shared --out shared.safetensors
  apfl export runs/a --client hospital-3 --model personal --out hospital-3.npz

A dense layer's weight has the shape (inputs, outputs): y = x·W + b.")]
pub struct Export {
    /// The run directory
    pub run: PathBuf,
    /// The client; not needed for the shared model
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// Which model
    #[arg(long, value_enum)]
    pub model: Which,
    /// The file; its ending decides: .safetensors or .npz
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// `apfl predict`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl predict runs/a --client hospital-3 --input new.csv > answers.csv
  apfl predict runs/a --input all.csv --id patient --model localized
  cat new.csv | apfl predict runs/a --client hospital-3 --input -

The input needs the training table's raw feature columns, by name; other columns are ignored.
Without --client its client column says whose model serves a row; a client that the run does not
know is served by the shared model. The output has a line for each row: the --id columns, the
client, the class and a score for every class, or the value.")]
pub struct Predict {
    /// The run directory (or that of `apfl join --out`, or a site's state directory)
    pub run: PathBuf,
    /// The client whose model to use for all rows
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// A CSV or Parquet file with the feature columns; - is stdin
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Which model
    #[arg(long, value_enum, default_value = "personal")]
    pub model: Which,
    /// A column to be passed through; may be repeated
    #[arg(long, value_name = "COLUMN")]
    pub id: Vec<String>,
}

/// `apfl evaluate`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl evaluate runs/a --input labelled.csv
  apfl evaluate runs/a --client hospital-3 --model shared --input labelled.csv --json

The input is as for `apfl predict`, with the training table's label column.")]
pub struct Evaluate {
    /// The run directory (or that of `apfl join --out`)
    pub run: PathBuf,
    /// The client whose model to use for all rows
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// A CSV or Parquet file with the feature columns and the label; - is stdin
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Which model
    #[arg(long, value_enum, default_value = "personal")]
    pub model: Which,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `apfl join`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl join runs/a --data newcomer.csv
  apfl join runs/a --data newcomer.csv --mixing adaptive --running --epochs 10
  apfl join runs/synthetic --data synthetic:100 --out joined

The newcomer starts at the run's shared model w and trains v in αv + (1−α)w; beside it stands
fine-tuning w at the same rate on the same batches (FedAvg's way). The table needs the training
table's feature columns and its label column; a client column is ignored, a split column
(train / valid) is used. synthetic:K is client K of a synthetic run's generator.")]
pub struct Join {
    /// The run directory
    pub run: PathBuf,
    /// A CSV or Parquet file with the newcomer's data, or synthetic:K
    #[arg(long, value_name = "FILE")]
    pub data: String,
    /// α: a number from 0 to 1, adaptive, adaptive:0.1, or chosen: on held-out rows, with the
    /// run's losses as a prior [default: the run's own]
    #[arg(long, value_name = "A")]
    pub mixing: Option<String>,
    /// Passes over its training examples
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub epochs: u64,
    /// Let w take local steps too; otherwise it stays frozen
    #[arg(long)]
    pub running: bool,
    /// Write join.json and the models (and a synthetic newcomer's data.csv) there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
