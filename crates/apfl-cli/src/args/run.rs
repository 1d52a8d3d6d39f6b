//! Arguments of `apfl run`.

use std::path::PathBuf;

use super::Overrides;

/// `apfl run`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl run                                   adaptive APFL on synthetic(1, 1), 100 clients
  apfl run my.toml --out runs/first
  apfl run my.toml --set algorithm.kind=fedavg --set seed=2
  apfl run --set 'algorithm.mixing={ fixed = 0.5 }' --set training.rounds=20
  apfl run --resume --out runs/first         continue after an interruption
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
    /// Threads; 0 for all cores. Does not change the result
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Continue the run in --out from its last checkpoint
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Train even if the memory estimate exceeds this machine's; with --resume, also if another
    /// version of the program began the run
    #[arg(long)]
    pub force: bool,
    /// Print no progress and no table; errors are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// End the run at its last checkpoint; set by `apfl finish`
    #[arg(skip)]
    pub finish: bool,
}

/// `apfl finish`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl finish runs/first                     after Ctrl-C, a signal or a kill
  apfl run --resume --out runs/first --set training.rounds=200     later: train on

Takes the newest checkpoint: every client's last local round, scores, models, report. Afterwards
it is a finished run of that many rounds. To end at an earlier checkpoint, give its round:
apfl run --resume --out RUN --set training.rounds=N")]
pub struct Finish {
    /// The directory of a run that was stopped
    pub run: PathBuf,
    /// Threads; 0 for all cores. Does not change the result
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Finish it even if another version of the program began the run
    #[arg(long)]
    pub force: bool,
    /// Print no progress and no table; errors are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

impl Finish {
    /// Returns the arguments of the run that finishes it.
    pub fn as_run(&self) -> Run {
        Run {
            spec: None,
            overrides: Overrides::default(),
            out: Some(self.run.clone()),
            threads: self.threads,
            resume: true,
            force: self.force,
            quiet: self.quiet,
            json: self.json,
            finish: true,
        }
    }
}
