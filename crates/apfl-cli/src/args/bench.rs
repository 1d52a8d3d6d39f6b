//! Arguments of `apfl bench`.

use apfl::algorithm::AlgorithmSpec;
use apfl::model::Shape;

/// Returns the examples and the names of the benchmarks.
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

A benchmark is <algorithm>-<model> (rounds of training, without evaluation) or step-<model>
(gradient steps alone). Each runs in its own process. Models train on MNIST if it is installed,
otherwise on generated images with the same share of zeros; cnn (32 and 64 channels) trains on
generated images of CIFAR-10's shape.
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
    /// What to measure [default: everything except local-<model>]
    #[arg(value_name = "BENCHMARK")]
    pub benchmarks: Vec<String>,
    /// Threads; 0 for all cores; may be repeated [default: 1 and all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=1024))]
    pub threads: Vec<usize>,
    /// Examples per step
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub batch: usize,
    /// Run on all ranks of an MPI job, with --threads threads on each
    #[cfg(feature = "mpi")]
    #[arg(long)]
    pub mpi: bool,
    /// Seconds to run each benchmark
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    pub seconds: f64,
    /// Print no progress
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
        Err("must be more than 0 and at most 3600".into())
    }
}
