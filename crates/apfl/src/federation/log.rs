//! The log of a site, `log`, with one older file, `log.1`.
//!
//! Other parties choose parts of its messages, so control characters are escaped and the size of a
//! message and of the file is bounded.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::state::StateDirectory;
use crate::files::UtcTime;
use crate::files::private::create_file;
use crate::quote::shown;

/// The size at which the log becomes the older file.
const MAX_BYTES: u64 = 1 << 20;

/// How many bytes of a file are read for its last lines.
const TAIL_BYTES: u64 = 1 << 16;

impl StateDirectory {
    /// Appends a message to the log in one write; failures are ignored.
    pub fn log(&self, message: &str) {
        let message = shown(message).replace('\n', "\n    ");
        let entry = format!("{} {message}\n", UtcTime::now());
        let path = self.0.join("log");
        match fs::metadata(&path) {
            Ok(found) if found.len() + entry.len() as u64 <= MAX_BYTES => {}
            Ok(_) => {
                let _ = fs::rename(&path, self.0.join("log.1"));
                let _ = create_file(&path);
            }
            Err(_) => {
                let _ = create_file(&path);
            }
        }
        if let Ok(mut file) = OpenOptions::new().append(true).open(&path) {
            let _ = file.write_all(entry.as_bytes());
        }
    }

    /// Returns the last lines of the log, at most `count`, fit for a terminal.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let mut lines = tail(&self.0.join("log"));
        if lines.len() < count {
            let mut older = tail(&self.0.join("log.1"));
            older.append(&mut lines);
            lines = older;
        }
        lines.split_off(lines.len().saturating_sub(count))
    }
}

/// Returns the lines in the last bytes of a file; none if it cannot be read.
fn tail(path: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<String>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let start = size.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line may have begun before.
        let skipped = usize::from(start > 0);
        Ok(text.lines().skip(skipped).map(shown).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of 20 MB each, of which 40 lines stay, until both files are full.
    #[test]
    fn hostile_messages_neither_fill_the_disk_nor_forge_lines() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory(directory.path().into());
        let long = format!("{}\n", "\u{1b}[2J".repeat(500)).repeat(10_000);
        assert_eq!(long.len(), 20_010_000);
        // 40 lines of 1,000 characters, a quarter of which is escaped as six: 90 kB.
        for k in 0..40 {
            state.log(&format!("{k} {long}"));
        }
        state.log("the last one");
        let files = fs::read_dir(directory.path()).unwrap();
        let mut sizes: Vec<(String, u64)> = files
            .map(|file| file.unwrap())
            .map(|file| {
                let name = file.file_name().into_string().unwrap();
                (name, file.metadata().unwrap().len())
            })
            .collect();
        sizes.sort();
        let names: Vec<&str> = sizes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["log", "log.1"]);
        assert!(sizes.iter().all(|(_, size)| *size <= MAX_BYTES));
        let text = fs::read_to_string(directory.path().join("log")).unwrap();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        // A message's lines after the first are indented, so none looks like an entry.
        let entry = |line: &&str| !line.starts_with(' ');
        let entries: Vec<&str> = text.lines().filter(entry).collect();
        let digit = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        assert!(entries.iter().all(digit));
        let lines = state.last_lines(10);
        assert_eq!(lines.len(), 10);
        assert!(lines[9].ends_with("the last one"), "{lines:?}");
    }

    #[test]
    fn only_the_end_is_read_and_the_older_file_where_the_log_is_short() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory(directory.path().into());
        assert!(state.last_lines(3).is_empty());
        fs::write(directory.path().join("log.1"), "a\nb\nc\n").unwrap();
        fs::write(directory.path().join("log"), "d\u{1b}\n").unwrap();
        assert_eq!(state.last_lines(3), ["b", "c", "d\\u{1b}"]);
        // Longer than what is read: the line that is cut is not shown.
        let line = "x".repeat(99) + "\n";
        fs::write(directory.path().join("log"), line.repeat(10_000)).unwrap();
        let lines = state.last_lines(10_000);
        assert_eq!(lines.len(), 3 + (1 << 16) / 100);
        assert!(lines[3..].iter().all(|line| line.len() == 99));
    }
}
