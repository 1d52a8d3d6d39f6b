//! `apfl site`: a site's own state, for its operator.

use std::path::PathBuf;

use clap::Subcommand;

/// `apfl site`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  apfl site status /var/lib/apfl
  apfl site accept /var/lib/apfl 5f1c…
  apfl predict /var/lib/apfl --input new.csv

The state directory is the one that the site's node was started with; docs/FEDERATION.md is the
guide.")]
pub enum Site {
    /// What was proposed, accepted and agreed on, what is remembered, and the last lines of the log
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
        /// The hash of the terms that were read; others are not accepted
        hash: String,
    },
}
