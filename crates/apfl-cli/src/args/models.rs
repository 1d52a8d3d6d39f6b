//! Arguments of `apfl export`, `apfl predict`, `apfl evaluate` and `apfl join`.

use std::path::PathBuf;

use clap::ValueEnum;

/// Selects one of a run's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The server's model
    Shared,
    /// The client's copy of the shared model after its last local steps
    Localized,
    /// The client's local model v (if the algorithm has none: its copy of the shared model)
    Local,
    /// The model that serves the client
    Personal,
    /// The model trained on the client's rows alone (with mixing = { chosen = [… 1] })
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
    /// The client; not needed with --model shared
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// Which model
    #[arg(long, value_enum)]
    pub model: Which,
    /// The file to write; its ending (.safetensors or .npz) selects the format
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
Without --client, the input's client column selects the model of each row; rows of clients that the
run does not know use the shared model. The output has one line per row: the --id columns, the
client, then the class and a score per class, or the value.")]
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
    /// A column to copy to the output; may be repeated
    #[arg(long, value_name = "COLUMN")]
    pub id: Vec<String>,
}

/// `apfl evaluate`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl evaluate runs/a --input labelled.csv
  apfl evaluate runs/a --client hospital-3 --model shared --input labelled.csv --json

The input is that of `apfl predict` plus the training table's label column.")]
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
  apfl join runs/a --data new-client.csv
  apfl join runs/a --data new-client.csv --mixing adaptive --train-shared --epochs 10
  apfl join runs/synthetic --data synthetic:100 --out joined

The new client starts at the run's shared model w and trains v in αv + (1−α)w. For comparison, w is
fine-tuned at the same rate on the same batches (as with FedAvg). The table needs the training
table's feature and label columns; a client column is ignored, a split column (train / valid) is
used. synthetic:K is client K of a synthetic run's generator.")]
pub struct Join {
    /// The run directory
    pub run: PathBuf,
    /// A CSV or Parquet file with the new client's data, or synthetic:K
    #[arg(long, value_name = "FILE")]
    pub data: String,
    /// α: a number from 0 to 1; adaptive or adaptive:START; or chosen (on held-out rows, with the
    /// run's losses as a prior) [default: the run's own]
    #[arg(long, value_name = "A")]
    pub mixing: Option<String>,
    /// Passes over the client's training examples
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub epochs: u64,
    /// Train w too instead of freezing it (old name: --running)
    #[arg(long = "train-shared", alias = "running")]
    pub running: bool,
    /// Write join.json and the models (and a synthetic client's data.csv) to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
