//! `apfl sweep`: a grid of runs.

use std::path::PathBuf;

use super::Overrides;

/// `apfl sweep`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg,scaffold --seeds 3
  apfl sweep my.toml --over 'algorithm.mixing={ fixed = 0.25 },{ fixed = 0.75 }' --out runs/alpha
  apfl sweep my.toml --seeds 5
  apfl sweep my.toml --over algorithm.kind=apfl,fedavg \\
      --over training.learning_rate=0.01,0.03,0.1 --best training.learning_rate

  apfl sweep my.toml --over algorithm.kind=apfl,pfedme --over rate=0.01,0.1 --best rate

`rate` is every algorithm's own rate: training.learning_rate, but algorithm.rate for pfedme and
algorithm.outer_rate for perfedavg, whose runs over training.learning_rate would all be the same
and are refused.

The grid is the product of all --over lists and the seeds seed, seed+1, …. Commas within braces,
brackets or quotes do not separate values. Every run is an ordinary run directory in OUT/runs; the
same command with the same --out runs what is missing. OUT gets sweep.csv (a row for every run),
sweep.md (means over seeds) and report.html.")]
pub struct Sweep {
    /// The spec, a TOML file
    pub spec: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// A key of the spec and its values; may be repeated
    #[arg(long, value_name = "KEY=V1,V2,…")]
    pub over: Vec<String>,
    /// Seeds: the spec's seed, the next one, and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Of this key show only the value that validates best, for every combination of the others;
    /// the files keep all of them
    #[arg(long, value_name = "KEY")]
    pub best: Option<String>,
    /// The score that is shown, on test examples where the data has such a part, and that --best
    /// goes by on validation examples [default: accuracy, or rmse]
    #[arg(long, value_name = "SCORE", value_parser = super::SCORES)]
    pub by: Option<String>,
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
