//! Arguments of `apfl theory`.

use std::path::PathBuf;

use super::Overrides;

/// `apfl theory`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl theory runs/a                         replay and measure a run
  apfl theory my.toml --set data.iid=true --picture iid.svg
  apfl theory runs/a --constant B=2 --constant d=61 --json
  apfl theory --convergence                  the theorems' rates against simulations

Measures μ, L, κ, ζᵢ, Γ and σ² at visited points, the optima w* and vᵢ*, Δᵢ, Theorem 1's bound
and its αᵢ*, both sides of the corollary against the local minimizer, Theorem 3's condition, and
the learned α next to the α of a line search.

The bound's constants default to B = G = C1 = C2 = 1, delta = 0.05, d = the number of parameters,
R = the largest norm among w* and all vᵢ*. C1, which Theorem 1 names C, may also be given as C. A
distribution can only have C2 ≤ 2·C1.")]
pub struct Theory {
    /// A finished run's directory, or a spec
    #[arg(
        required_unless_present = "convergence",
        conflicts_with = "convergence"
    )]
    pub target: Option<PathBuf>,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Number of visited points to measure, evenly spaced over the rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=1000))]
    pub points: usize,
    /// A constant of the bound: B, G, C1 (or C), C2, d, delta or R; may be repeated
    #[arg(long = "constant", value_name = "NAME=NUMBER")]
    pub constants: Vec<String>,
    /// The picture to write, .svg or .png [default: theory.svg in the run directory]
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Check Theorems 2 to 6 and three lemmas on problems with a known optimum
    #[arg(long)]
    pub convergence: bool,
    /// With --convergence: repetitions to average for an expectation
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// With --convergence: take a tenth of the steps
    #[arg(long)]
    pub quick: bool,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
