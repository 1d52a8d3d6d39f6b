//! One at a time: a lock on a directory that dies with the process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result, at};

/// The name of the file that is locked; it stays when the lock is gone.
pub const LOCK: &str = ".lock";

/// An exclusive lock on a directory, until it is dropped or its process ends in any way.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock of a directory that is there; [`Error::InUse`] names who has it. On a
    /// file system without locks there is none, and this succeeds.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(at(&path, "write"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder); // it may be about to be written
                return Err(Error::InUse {
                    path: directory.into(),
                    holder: match holder.trim() {
                        "" => "another process".into(),
                        holder => holder.into(),
                    },
                });
            }
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(at(&path, "lock")(e)),
        }
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = utc(seconds.map_or(0, |d| d.as_secs()));
        let holder = format!("process {} since {since}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()))
            .map_err(at(&path, "write"))?;
        Ok(Self { _file: file })
    }
}

/// Seconds since 1970 as `2026-11-16 14:05:33 UTC`.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years of March to February, so that a leap day is a year's last: days since 0000-03-01.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirectoryLock::take(dir.path()).unwrap();
        let error = DirectoryLock::take(dir.path()).unwrap_err();
        let me = format!("in use by process {} since 20", std::process::id());
        assert!(error.to_string().contains(&me), "{error}");
        drop(held);
        DirectoryLock::take(dir.path()).unwrap();
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(1_794_837_933), "2026-11-16 14:05:33 UTC");
        // Past the year 9999: 253402300800 is 10000-01-01.
        assert_eq!(utc(253_402_300_800), "10000-01-01 00:00:00 UTC");
    }
}
