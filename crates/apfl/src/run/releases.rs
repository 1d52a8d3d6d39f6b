//! `releases.jsonl`: the ledger of a private run whose noise is not reproducible, one line per
//! round, synced before the round begins. Lines are never removed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::error::{Error, Result, at};
use crate::files::atomic::sync_directory;
use crate::files::private::create_file;
use crate::privacy::{Ledger, Release};

/// The name of the file.
const FILE: &str = "releases.jsonl";

/// Reads the entries of earlier processes into the ledger and appends its future entries. A last
/// line without a line end is removed: its round was never begun.
pub(crate) fn open(directory: &Path, ledger: &Ledger) -> Result<()> {
    let path = directory.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            create_file(&path).map_err(at(&path, "create"))?;
            sync_directory(directory)?;
            String::new()
        }
        Err(e) => return Err(at(&path, "read")(e)),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut entries = Vec::new();
    for (k, line) in text[..whole].lines().enumerate() {
        let entry: Release = serde_json::from_str(line).map_err(|e| {
            Error::Checkpoint(format!(
                "{}: line {} is damaged ({e}), so the privacy spent is unknown; begin a new run in \
                 another directory",
                path.display(),
                k + 1
            ))
        })?;
        entries.push(entry);
    }
    let mut file = OpenOptions::new()
        .append(true)
        .open(&path)
        .map_err(at(&path, "open"))?;
    file.set_len(whole as u64).map_err(at(&path, "write"))?;
    ledger.resume(
        entries,
        Box::new(move |release| {
            let line = serde_json::to_string(release).expect("plain JSON");
            file.write_all(format!("{line}\n").as_bytes())
                .and_then(|()| file.sync_data())
                .map_err(at(&path, "write"))
        }),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_again_and_a_torn_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let first = Ledger::default();
        open(folder.path(), &first).unwrap();
        for round in 1..=3 {
            first.record(0, round, Some((0.5, 9))).unwrap();
        }
        let path = folder.path().join(FILE);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"pass\": 0, \"rou");
        fs::write(&path, &text).unwrap();
        let second = Ledger::default();
        open(folder.path(), &second).unwrap();
        assert_eq!(second.count(), 3);
        assert_eq!(second.cohort(0, 2), first.cohort(0, 2));
        second.record(0, 3, None).unwrap();
        let third = Ledger::default();
        open(folder.path(), &third).unwrap();
        assert_eq!((third.count(), third.lost(0, 3)), (4, 1));

        fs::write(&path, "{}\n").unwrap();
        let error = open(folder.path(), &Ledger::default()).unwrap_err();
        assert!(error.to_string().contains("line 1 is damaged"), "{error}");
    }
}
