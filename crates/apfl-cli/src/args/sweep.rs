//! Arguments of `apfl sweep`.

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

`rate` is each algorithm's own rate: algorithm.rate for pfedme, algorithm.outer_rate for perfedavg,
training.learning_rate for the others. pfedme and perfedavg do not use training.learning_rate, so
sweeping over it is an error for them.

The grid is the product of all --over lists and the seeds seed, seed+1, …. Commas within braces,
brackets or quotes do not separate values. Every run is an ordinary run directory in OUT/runs; the
same command with the same --out runs what is missing. OUT gets sweep.csv (one row per run),
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
    /// Show only this key's best value on validation for every combination of the other keys; the
    /// files keep all values
    #[arg(long, value_name = "KEY")]
    pub best: Option<String>,
    /// The score to show (on test examples if there are any) and to rank by for --best (on
    /// validation examples) [default: accuracy or rmse]
    #[arg(long, value_name = "SCORE", value_parser = super::SCORES)]
    pub by: Option<String>,
    /// The output directory [default: runs/<name>-sweep-<UTC time>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads; 0 for all cores. Does not change any result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=4096))]
    pub threads: usize,
    /// Print no progress and no table; errors are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}
