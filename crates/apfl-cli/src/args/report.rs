//! Arguments of `apfl report`.

use std::path::PathBuf;

/// `apfl report`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl report runs/a                         writes runs/a/report.html
  apfl report runs/a runs/b --out compared.html
  apfl report runs/a runs/b runs/c --by auc --out compared.html

The page needs no network and no other file. Several runs are compared first, with the keys in
which their specs differ, then shown one by one. An unfinished run is shown up to its last round.")]
pub struct Report {
    /// The run directories
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The file to write [default: report.html in the first run directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Rank the runs by this validation score, best first [default: accuracy or rmse, runs in the
    /// given order]
    #[arg(long, value_name = "SCORE", value_parser = super::SCORES)]
    pub by: Option<String>,
}
