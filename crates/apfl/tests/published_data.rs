//! Folders of published data sets on this machine.

use std::path::{Path, PathBuf};

use crate::skipped::skipped;

/// Finds the folder of a data set in `$APFL_DATA`, the user's data folder, or `shared/data` next to
/// the repository. Reports a missing one as skipped.
pub fn folder(kind: &str) -> Option<PathBuf> {
    let next_to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = [apfl::data::folder::data_directory(), next_to]
        .map(|directory| directory.join(kind))
        .into_iter()
        .find(|folder| std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()));
    if found.is_none() {
        skipped(&format!(
            "{kind} is not on this machine (`apfl data get {kind}`, or APFL_DATA names the \
             data directory)"
        ));
    }
    found
}
