//! `apfl report`: one self-contained HTML page about one or more runs.

mod advice;
mod clients;
mod compare;
mod curves;
mod group;
mod html;
mod mix;
mod page;
mod privacy;
mod read;
mod scores;

use std::path::{Path, PathBuf};

use apfl::error::Result;
use apfl::store::atomic::write_atomically;

use crate::output::{print, require_free};
pub use compare::ERRORS;
use group::Group;
use read::Run;

/// Writes the report, by default into the first run's directory, and prints where it is.
pub fn run(runs: &[PathBuf], out: Option<&Path>, by: Option<&str>) -> Result<()> {
    let file = match out {
        Some(file) => {
            require_free("--out", file, &["html", "htm"])?;
            file.to_owned()
        }
        None => runs[0].join("report.html"),
    };
    let mut groups = read(runs)?;
    if let Some(by) = by {
        compare::rank(&mut groups, by);
    }
    write_atomically(&file, page::page(&groups, by))?;
    print(&format!("{}\n", file.display()))
}

/// Reads run directories and writes one page about them all.
pub fn write(directories: &[PathBuf], file: &Path) -> Result<()> {
    write_atomically(file, page::page(&read(directories)?, None))
}

fn read(directories: &[PathBuf]) -> Result<Vec<Group>> {
    let mut runs: Vec<Run> = directories
        .iter()
        .map(|directory| Run::open(directory))
        .collect::<Result<_>>()?;
    read::tell_apart(&mut runs);
    Ok(runs.into_iter().map(Group::of_one).collect())
}

/// The same for runs that differ in their seeds alone, group by group: the page shows means
/// and spreads of the score `by`.
pub fn write_groups(
    groups: &[(String, Vec<PathBuf>)],
    file: &Path,
    by: Option<&str>,
) -> Result<()> {
    let groups: Vec<Group> = groups
        .iter()
        .map(|(name, directories)| Group::open(name, directories))
        .collect::<Result<_>>()?;
    write_atomically(file, page::page(&groups, by))
}
