//! Files of clients' memories: each is written by the process that owns the clients.
//!
//! A file is a `.safetensors` with tensors `<client index>/<array>`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::atomic::AtomicFile;
use super::tensors::{Entry, TensorFile, head};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::pack::{Arrays, Field, arrays_of};

/// A file that was written: its name, size and SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its name, without the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: String,
}

/// Writes the memories of some clients, which `memory` gives as bytes of those fields.
pub fn write(
    directory: &Path,
    name: String,
    fields: &[Field],
    clients: &[usize],
    mut memory: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<Written> {
    let mut entries = Vec::new();
    for client in clients {
        let prefix = format!("{client}/");
        entries.extend(fields.iter().map(|f| entry(&prefix, f)));
    }
    let wanted: usize = fields.iter().map(Field::bytes).sum();
    let mut file = HashedFile::create(directory, name)?;
    file.write(&head(&entries))?;
    for client in clients {
        let bytes = memory(*client)?;
        assert_eq!(bytes.len(), wanted, "every memory has the same fields");
        file.write(&bytes)?;
    }
    file.commit()
}

/// Reads the memories of some clients out of a file.
pub fn read(
    path: &Path,
    fields: &[Field],
    clients: &[usize],
    mut each: impl FnMut(usize, Arrays) -> Result<()>,
) -> Result<()> {
    let mut file = TensorFile::open(path)?;
    for client in clients {
        each(
            *client,
            read_arrays(&mut file, &format!("{client}/"), fields)?,
        )?;
    }
    Ok(())
}

/// The tensor of an array.
pub(super) fn entry(prefix: &str, field: &Field) -> Entry {
    Entry {
        name: format!("{prefix}{}", field.name),
        kind: field.kind,
        shape: vec![field.len],
    }
}

/// Reads the arrays of one value.
pub(super) fn read_arrays(file: &mut TensorFile, prefix: &str, fields: &[Field]) -> Result<Arrays> {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.append(&mut file.read(&entry(prefix, field))?);
    }
    arrays_of(fields, &bytes).map_err(|e| Error::Data(e.to_string()))
}

/// An atomic file that knows its checksum.
pub(super) struct HashedFile {
    file: AtomicFile,
    name: String,
    bytes: u64,
    hasher: Sha256,
}

impl HashedFile {
    pub(super) fn create(directory: &Path, name: String) -> Result<Self> {
        Ok(Self {
            file: AtomicFile::create(&directory.join(&name))?,
            name,
            bytes: 0,
            hasher: Sha256::new(),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        self.file.write(bytes)
    }

    pub(super) fn commit(self) -> Result<Written> {
        self.file.commit()?;
        Ok(Written {
            name: self.name,
            bytes: self.bytes,
            sha256: hex(&self.hasher.finalize()),
        })
    }
}
