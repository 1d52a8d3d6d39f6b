//! `apfl bench`: how fast it is.

use apfl::algorithm::AlgorithmSpec;
use apfl::model::Shape;

/// The examples, and what there is to measure.
fn after_help() -> String {
    let algorithms = AlgorithmSpec::KINDS.iter().map(|kind| kind.name);
    let models = Shape::KINDS.iter().map(|kind| kind.name);
    let listed = |names: Vec<&str>| names.join(", ");
    format!(
        "\
Examples:
  apfl bench                                 everything, on one thread and on all
  apfl bench apfl-mlp fedavg-mlp --threads 1
  apfl bench --json > bench.json

A work is <algorithm>-<model>: rounds of training only; or step-<model>: one gradient and its
update, again and again. Each is measured in a process of its own. Models run on MNIST where it is
on this machine, else on made images with as many zeros; cnn (32 and 64 channels) on made images of
CIFAR-10's shape.
  algorithms: {}
  models: {}",
        listed(algorithms.collect()),
        listed(models.collect())
    )
}

/// `apfl bench`
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Bench {
    /// What to measure; everything but local-<model> by default
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
    if seconds > 0.0 && seconds <= 3600.0 {
        Ok(seconds)
    } else {
        Err("more than 0 and at most 3600".into())
    }
}
