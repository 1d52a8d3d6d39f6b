//! Files of slots of equal size, which several processes may access.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Result, at};

/// Represents the location of slots in a file, so that a process can open them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsLocation {
    /// The file.
    pub path: PathBuf,
    /// Bytes before the first slot.
    pub start: u64,
    /// Bytes of a slot.
    pub bytes: usize,
}

/// Reads and writes slots behind a header of `start` bytes.
#[derive(Debug)]
pub struct Slots {
    path: PathBuf,
    start: u64,
    bytes: usize,
    file: Mutex<File>,
}

impl Slots {
    /// Creates an empty file of slots of `bytes` bytes, without a header.
    pub fn create(path: &Path, bytes: usize) -> Result<Self> {
        Self::with(
            path,
            0,
            bytes,
            OpenOptions::new().create(true).truncate(true),
        )
    }

    /// Opens the slots of an existing file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(place: &SlotsLocation) -> Result<Self> {
        let SlotsLocation { path, start, bytes } = place;
        Self::with(path, *start, *bytes, &mut OpenOptions::new())
    }

    fn with(path: &Path, start: u64, bytes: usize, options: &mut OpenOptions) -> Result<Self> {
        let file = options.read(true).write(true).open(path);
        Ok(Self {
            path: path.into(),
            start,
            bytes,
            file: Mutex::new(file.map_err(at(path, "write"))?),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a slot.
    ///
    /// # Panics
    /// `bytes` has another length than a slot.
    pub fn write(&self, slot: u64, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), self.bytes, "all slots are of one size");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.start + slot * self.bytes as u64))
            .and_then(|_| file.write_all(bytes))
            .map_err(at(&self.path, "write"))
    }

    /// Reads a slot.
    pub fn read(&self, slot: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.start + slot * self.bytes as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(at(&self.path, "read"))?;
        Ok(bytes)
    }

    /// Syncs the file.
    pub fn sync(&self) -> Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.sync_all().map_err(at(&self.path, "sync"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_owners_fill_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        std::fs::write(&path, "head").unwrap();
        let place = SlotsLocation {
            path: path.clone(),
            start: 4,
            bytes: 2,
        };
        let (a, b) = (Slots::open(&place), Slots::open(&place));
        let (a, b) = (a.unwrap(), b.unwrap());
        b.write(1, b"bb").unwrap();
        a.write(0, b"aa").unwrap();
        a.write(2, b"cc").unwrap();
        a.sync().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"headaabbcc");
        assert_eq!(a.read(1).unwrap(), b"bb");
        assert!(a.read(3).is_err());
    }
}
