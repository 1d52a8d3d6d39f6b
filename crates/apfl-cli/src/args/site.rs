//! Arguments of `apfl site`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Overrides;

const CHECK: &str = "\
Examples:
  apfl site check --data north.csv --spec spec.toml
  apfl site check --data /srv/data/rows.csv --spec spec.toml --client north --json

Nothing is sent and no state directory is needed. Exit status: 0 the survey can be sent; 1 it would
be refused, or the table cannot be used; 2 invalid request.";

/// `apfl site`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  apfl site check --data north.csv --spec spec.toml
  apfl site status /var/lib/apfl
  apfl site accept /var/lib/apfl 5f1c…
  apfl predict /var/lib/apfl --input new.csv

The state directory is the one that the site's node was started with. See docs/FEDERATION.md.")]
pub enum Site {
    /// Show what this site would send under a spec, before anything is agreed on
    #[command(after_help = CHECK)]
    Check(SiteCheck),
    /// Show the proposed, accepted and agreed terms, the stored client states, and the end of the log
    Status {
        /// The site's state directory
        state: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept the terms in proposal.toml
    Accept {
        /// The site's state directory
        state: PathBuf,
        /// The hash of the terms that you read; terms with another hash are not accepted
        hash: String,
    },
}

/// `apfl site check`
#[derive(Debug, clap::Args)]
pub struct SiteCheck {
    /// The site's table, CSV or Parquet
    #[arg(long)]
    pub data: PathBuf,
    /// The spec that the server's operator has written, or the site's proposal.toml
    #[arg(long)]
    pub spec: PathBuf,
    /// The site's name in federation.sites [default: the table's file name without its ending]
    #[arg(long)]
    pub client: Option<String>,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
