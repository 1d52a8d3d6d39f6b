//! `apfl report`: writes an HTML page about one or more runs.

use apfl::error::Result;

use crate::args;
use crate::output::{print, require_free};

/// Writes the report, by default into the first run's directory, and prints its path.
pub fn run(args: &args::Report) -> Result<()> {
    let file = match &args.out {
        Some(file) => {
            require_free("--out", file, &["html", "htm"])?;
            file.clone()
        }
        None => args.runs[0].join("report.html"),
    };
    apfl_report::write(&args.runs, &file, args.by.as_deref())?;
    print(&format!("{}\n", file.display()))
}
