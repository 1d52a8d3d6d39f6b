//! `releases`: the account of the rounds that left a site with irreproducible noise, one line per
//! release: pass, round and the request's hash. Entries are never removed.

use std::fs::OpenOptions;
use std::io::Write;

use super::state::{StateDirectory, read};
use crate::error::{Error, Result, at};
use crate::files::atomic::write_privately;
use crate::files::private::create_file;

/// The pass and round of an entry whose line was torn: it counts for every round.
pub(super) const TORN: (u64, u64) = (0, 0);

impl StateDirectory {
    /// Appends a release in one write, and syncs it.
    pub fn record_release(&self, pass: u64, round: u64, request: &str) -> Result<()> {
        let path = self.0.join("releases");
        let append = || {
            if !path.exists() {
                create_file(&path)?;
            }
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(format!("{pass} {round} {request}\n").as_bytes())?;
            file.sync_all()
        };
        append().map_err(at(&path, "write"))
    }

    /// Returns pass and round of every release so far. A last line without a line end is completed
    /// in the file: as it is if it is whole, otherwise as [`TORN`], since its response may have
    /// left the site.
    pub fn releases(&self) -> Result<Vec<(u64, u64)>> {
        let path = self.0.join("releases");
        let mut text = read(&path)?.unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            let start = text.rfind('\n').map_or(0, |end| end + 1);
            if !is_whole(&text[start..]) {
                text.truncate(start);
                text += &format!("{} {} torn", TORN.0, TORN.1);
            }
            text.push('\n');
            write_privately(&path, &text)?;
            self.log("releases: the last entry was not complete; it counts as a release");
        }
        let entries: Option<Vec<_>> = text.lines().map(entry).collect();
        entries.ok_or_else(|| {
            Error::Checkpoint(
                "releases: found a line that is not an entry; the privacy spent is unknown".into(),
            )
        })
    }
}

/// Returns pass and round of a line.
fn entry(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Returns whether a line without a line end has all of an entry: the hash is the last word, and
/// its length is known.
fn is_whole(line: &str) -> bool {
    let hash = line.rsplit(' ').next().unwrap_or_default();
    entry(line).is_some() && hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// However much of the third entry is on the disk, it is a release, and so is the next one.
    #[test]
    fn a_torn_entry_counts() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory(directory.path().into());
        let path = directory.path().join("releases");
        let hash = "ab".repeat(32);
        assert_eq!(state.releases().unwrap(), []);
        let mut whole = String::new();
        for round in [1, 2, 12] {
            state.record_release(0, round, &hash).unwrap();
            whole = fs::read_to_string(&path).unwrap();
        }
        let second = 2 * "0 1 \n".len() + 2 * 64;
        assert_eq!(state.releases().unwrap(), [(0, 1), (0, 2), (0, 12)]);
        for cut in second + 1..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let third = if cut + 1 == whole.len() {
                (0, 12)
            } else {
                TORN
            };
            assert_eq!(state.releases().unwrap(), [(0, 1), (0, 2), third], "{cut}");
            state.record_release(0, 3, &hash).unwrap();
            let again = state.releases().unwrap();
            assert_eq!(again, [(0, 1), (0, 2), third, (0, 3)], "{cut}");
        }
        fs::write(&path, "0 1 x\nnothing\n").unwrap();
        assert!(state.releases().is_err());
    }
}
