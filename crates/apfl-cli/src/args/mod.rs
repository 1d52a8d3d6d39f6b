//! Command-line arguments: one file per command, or per group of related commands.

mod advise;
mod bench;
mod data;
mod models;
mod privacy;
mod report;
mod reproduce;
mod run;
mod site;
mod spec;
mod sweep;
mod theory;

use apfl::error::Result;
use clap::{CommandFactory, Parser, Subcommand};

pub use advise::Advise;
pub use bench::Bench;
pub use data::{Data, Get, Inspect, List};
pub use models::{Evaluate, Export, Join, Predict, Which};
pub use privacy::Privacy;
pub use report::Report;
pub use reproduce::Reproduce;
pub use run::{Finish, Run};
pub use site::Site;
pub use spec::{Check, Init, Overrides, read_spec, set};
pub use sweep::Sweep;
pub use theory::Theory;

/// The scores that runs can be ranked by.
const SCORES: [&str; 9] = [
    "accuracy",
    "balanced_accuracy",
    "auc",
    "f1",
    "brier",
    "loss",
    "rmse",
    "mae",
    "r2",
];

/// Personalized federated learning: one shared model, and one for each client.
#[derive(Debug, Parser)]
#[command(name = "apfl", version, about, after_help = EXAMPLES, propagate_version = true)]
pub struct Args {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  apfl run                                 train the built-in example; needs no files
  apfl init my.toml                        a commented spec to start from
  apfl check my.toml                       a dry run: problems, sizes, memory and time
  apfl run my.toml --set training.rounds=20
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg --seeds 3
  apfl predict runs/my-… --client hospital-3 --input new.csv

Exit status: 0 success; 1 failure (a file, the data, a non-finite loss); 2 invalid request.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train one run, from a spec or the built-in example
    Run(Run),
    /// End a run that was stopped at its last checkpoint, with scores and models
    Finish(Finish),
    /// Train a grid of runs over any keys and seeds, and compare them
    Sweep(Sweep),
    /// Reproduce figures and tables of the paper, with a verdict for every claim
    Reproduce(Reproduce),
    /// Write a commented spec to start from
    Init(Init),
    /// Dry run of a spec: problems, clients, sizes, memory and time
    Check(Check),
    /// List data sets, download them, or show how a spec's data is assigned to clients
    #[command(subcommand)]
    Data(Data),
    /// Write a trained model to a .safetensors or .npz file
    Export(Export),
    /// Apply the clients' models to the rows of a table
    Predict(Predict),
    /// Score the clients' models on labelled rows
    Evaluate(Evaluate),
    /// Personalize a trained shared model for a client that was never in training
    Join(Join),
    /// Show for which clients joining is worth it, and which model should serve each of them
    Advise(Advise),
    /// Write an HTML report about one run, or comparing several
    Report(Report),
    /// Measure the paper's quantities on a run, or check its theorems by simulation
    Theory(Theory),
    /// Compute ε from noise, sampling and steps, or the noise for a given ε
    Privacy(Privacy),
    /// Show a federation site's state, or accept its terms
    #[command(subcommand)]
    Site(Site),
    /// Measure training speed on this machine
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

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "apfl", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))
}
