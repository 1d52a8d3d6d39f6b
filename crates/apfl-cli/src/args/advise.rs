//! Arguments of `apfl advise`.

use std::path::PathBuf;

/// `apfl advise`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl advise runs/a
  apfl advise runs/a --json | jq '.total'

For each client, compares the loss of joining with that of its own tuned fit (with an interval) and
names the model that should serve it. Needs a run that also trained every client alone:
algorithm.mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] }.")]
pub struct Advise {
    /// The run directory
    pub run: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
