//! Exclusive locks on directories, released when the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use super::time::UtcTime;
use crate::error::{Error, Result, at};

/// The name of the locked file, which remains when the lock is released.
pub const LOCK_FILE: &str = ".lock";

/// Holds an exclusive lock on a directory until it is dropped or its process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

/// Returns who holds the lock. Waits a moment, since a new holder writes its name after locking.
fn holder(file: &mut File) -> String {
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(20));
        let mut text = String::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_string(&mut text));
        if read.is_ok() && text.ends_with('\n') {
            return text.trim().into();
        }
    }
    "another process".into()
}

impl DirectoryLock {
    /// Locks an existing directory. On a file system without locks this always succeeds.
    ///
    /// # Errors
    /// [`Error::InUse`] names the process that holds the lock.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_FILE);
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
                return Err(Error::InUse {
                    path: directory.into(),
                    holder: holder(&mut file),
                });
            }
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(at(&path, "lock")(e)),
        }
        let since = UtcTime::now();
        let holder = format!("process {} since {since}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()))
            .map_err(at(&path, "write"))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_gets_the_name_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirectoryLock::take(dir.path()).unwrap();
        let error = DirectoryLock::take(dir.path()).unwrap_err();
        let me = format!("in use by process {} since 20", std::process::id());
        assert!(error.to_string().contains(&me), "{error}");
        drop(held);
        DirectoryLock::take(dir.path()).unwrap();
    }
}
