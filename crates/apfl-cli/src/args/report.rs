//! `apfl report`: runs as one page.

use std::path::PathBuf;

/// `apfl report`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apfl report runs/a                         writes runs/a/report.html
  apfl report runs/a runs/b --out compared.html
  apfl report runs/a runs/b runs/c --by auc --out compared.html

The page needs no network and no other file. Several runs are compared first, with the keys in
which their specs differ, then shown one by one; a run that is not finished is shown as far as it
went.")]
pub struct Report {
    /// The run directories
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where the page goes [default: report.html in the first run directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Compare runs by this validation score, the best first [default: accuracy, or rmse, in the
    /// order given]
    #[arg(long, value_name = "SCORE", value_parser = super::SCORES)]
    pub by: Option<String>,
}
