//! A self-contained HTML page about one or more runs.

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
use apfl::files::atomic::write_atomically;

pub use compare::ERRORS;
use group::Group;
use read::Run;

/// Reads run directories and writes one page about them, ranked by the score `by` if given.
///
/// # Errors
///
/// Fails if a directory is not a run directory or the file cannot be written.
pub fn write(directories: &[PathBuf], file: &Path, by: Option<&str>) -> Result<()> {
    let mut groups = read(directories)?;
    if let Some(by) = by {
        compare::rank(&mut groups, by);
    }
    write_atomically(file, page::page(&groups, by))
}

fn read(directories: &[PathBuf]) -> Result<Vec<Group>> {
    let mut runs: Vec<Run> = directories
        .iter()
        .map(|directory| Run::open(directory))
        .collect::<Result<_>>()?;
    read::make_names_unique(&mut runs);
    Ok(runs.into_iter().map(Group::of_one).collect())
}

/// Writes one page about groups of runs that differ only in their seeds, with means and spreads of
/// the score `by`.
///
/// # Errors
///
/// Fails if a directory is not a run directory or the file cannot be written.
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
