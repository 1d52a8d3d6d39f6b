//! Where published data sets are on this machine.

use std::path::{Path, PathBuf};

use crate::skipped::skipped;

/// The folder of a data set: in `$APFL_DATA`, in the user's data folder, or in `shared/data` beside
/// the repository. None is said.
pub fn folder(kind: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = [apfl::data::folder::data_directory(), beside]
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
