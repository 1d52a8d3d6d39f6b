//! `releases.jsonl`: the ledger of a private run whose noise is not reproducible, one line per
//! round, synced before the round begins. Lines are never removed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::error::{Error, Result, at};
use crate::files::atomic::{sync_directory, write_privately};
use crate::files::private::create_file;
use crate::privacy::{Ledger, Release};

/// The name of the file.
const FILE: &str = "releases.jsonl";

/// Reads the entries of earlier processes into the ledger and appends its future entries, each in
/// one write. A last line without a line end is completed in the file: as it is if it is whole,
/// otherwise as a release of an unknown round, which counts.
pub(crate) fn open(directory: &Path, ledger: &Ledger) -> Result<()> {
    let path = directory.join(FILE);
    let mut text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            create_file(&path).map_err(at(&path, "create"))?;
            sync_directory(directory)?;
            String::new()
        }
        Err(e) => return Err(at(&path, "read")(e)),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        complete(&mut text);
        write_privately(&path, &text)?;
    }
    let mut entries = Vec::new();
    for (k, line) in text.lines().enumerate() {
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
    ledger.resume(
        entries,
        Box::new(move |release| {
            file.write_all(line_of(release).as_bytes())
                .and_then(|()| file.sync_data())
                .map_err(at(&path, "write"))
        }),
    );
    Ok(())
}

fn line_of(release: &Release) -> String {
    let line = serde_json::to_string(release).expect("plain JSON");
    line + "\n"
}

/// Completes the last line of a text that ends within it.
fn complete(text: &mut String) {
    let start = text.rfind('\n').map_or(0, |end| end + 1);
    if serde_json::from_str::<Release>(&text[start..]).is_ok() {
        text.push('\n');
        return;
    }
    text.truncate(start);
    *text += &line_of(&Release {
        pass: 0,
        round: 0,
        cohort: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds, and however much of a fourth entry: four releases, and the round is repeated
    /// for a fifth.
    #[test]
    fn entries_are_read_again_and_a_torn_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let first = Ledger::default();
        open(folder.path(), &first).unwrap();
        for round in 1..=3 {
            first.record(0, round, Some((0.5, 9))).unwrap();
        }
        let three = fs::read_to_string(&path).unwrap();
        first.record(0, 4, Some((0.5, 9))).unwrap();
        let four = fs::read_to_string(&path).unwrap();
        for end in three.len() + 1..four.len() {
            fs::write(&path, &four[..end]).unwrap();
            let second = Ledger::default();
            open(folder.path(), &second).unwrap();
            assert_eq!(second.count(), 4, "{end}");
            assert_eq!(second.cohort(0, 2), first.cohort(0, 2));
            // Without its line end alone the entry is known.
            let known = end + 1 == four.len();
            assert_eq!(second.require(0, 4).is_ok(), known);
            let extra: &[u64] = if known { &[] } else { &[0] };
            assert_eq!(second.extra_rounds(0, 4), extra);
            second.record(0, 4, None).unwrap();
            let third = Ledger::default();
            open(folder.path(), &third).unwrap();
            assert_eq!((third.count(), third.lost(0, 4)), (5, 1));
        }
        for damaged in ["{}\n", "{}\n{\"pass\":0"] {
            fs::write(&path, damaged).unwrap();
            let error = open(folder.path(), &Ledger::default()).unwrap_err();
            assert!(error.to_string().contains("line 1 is damaged"), "{error}");
        }
    }
}
