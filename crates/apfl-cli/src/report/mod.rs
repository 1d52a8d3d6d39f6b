//! `apfl report`: one self-contained HTML page about one or more runs.

mod clients;
mod compare;
mod curves;
mod html;
mod mix;
mod page;
mod read;
mod scores;

use std::path::{Path, PathBuf};

use apfl::error::Result;
use apfl::store::atomic::write_atomically;

use crate::output::print;
use read::Run;

/// Writes the report, by default into the first run's directory, and prints where it is.
pub fn run(runs: &[PathBuf], out: Option<&Path>) -> Result<()> {
    let file = match out {
        Some(file) => file.to_owned(),
        None => runs[0].join("report.html"),
    };
    write(runs, &file)?;
    print(&format!("{}\n", file.display()))
}

/// Reads run directories and writes one page about them all.
pub fn write(directories: &[PathBuf], file: &Path) -> Result<()> {
    let mut runs: Vec<Run> = directories
        .iter()
        .map(|directory| Run::open(directory))
        .collect::<Result<_>>()?;
    read::tell_apart(&mut runs);
    write_atomically(file, page::page(&runs))
}
