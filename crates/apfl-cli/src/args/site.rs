//! Arguments of `apfl site`.

use std::path::PathBuf;

use clap::Subcommand;

/// `apfl site`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  apfl site status /var/lib/apfl
  apfl site accept /var/lib/apfl 5f1c…
  apfl predict /var/lib/apfl --input new.csv

The state directory is the one that the site's node was started with. See docs/FEDERATION.md.")]
pub enum Site {
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
