//! Archives of clients' memories: streams of packed values, kept by the process that owns
//! the clients and nobody else.
//!
//! Each part is a `.safetensors` file with tensors `<client index>/<array>`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::atomic::AtomicFile;
use super::tensors::{Entry, TensorFile, head};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::pack::{Arrays, Field, arrays_of};

/// A part of an archive: its name, size and SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: String,
}

/// An archive: a directory that every process opens to stream its own clients' states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveDirectory(pub PathBuf);

impl ArchiveDirectory {
    /// Keeps the states of some clients as the part `name`. `memory` returns a client's,
    /// packed: the bytes of `fields`. They are asked for one by one, in order.
    ///
    /// # Errors
    /// A file that cannot be written; what `memory` returns.
    pub fn write(
        &self,
        name: &str,
        fields: &[Field],
        clients: &[usize],
        memory: &mut dyn FnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<Written> {
        let mut entries = Vec::new();
        for client in clients {
            let prefix = format!("{client}/");
            entries.extend(fields.iter().map(|f| entry(&prefix, f)));
        }
        let wanted: usize = fields.iter().map(Field::bytes).sum();
        let mut file = HashedFile::create(&self.0, format!("{name}.safetensors"))?;
        file.write(&head(&entries))?;
        for client in clients {
            let bytes = memory(*client)?;
            assert_eq!(bytes.len(), wanted, "every memory has the same fields");
            file.write(&bytes)?;
        }
        file.commit()
    }

    /// Hands out the states of some clients of a part, one by one, in order.
    ///
    /// # Errors
    /// A file that cannot be read or lacks a client; what `each` returns.
    pub fn read(
        &self,
        part: &str,
        fields: &[Field],
        clients: &[usize],
        each: &mut dyn FnMut(usize, Arrays) -> Result<()>,
    ) -> Result<()> {
        let mut file = TensorFile::open(&self.0.join(part))?;
        for client in clients {
            let arrays = read_arrays(&mut file, &format!("{client}/"), fields)?;
            each(*client, arrays)?;
        }
        Ok(())
    }
}

/// The tensor of an array.
pub(crate) fn entry(prefix: &str, field: &Field) -> Entry {
    Entry {
        name: format!("{prefix}{}", field.name),
        kind: field.kind,
        shape: vec![field.len],
    }
}

/// Reads the arrays of one value.
pub(crate) fn read_arrays(file: &mut TensorFile, prefix: &str, fields: &[Field]) -> Result<Arrays> {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.append(&mut file.read(&entry(prefix, field))?);
    }
    arrays_of(fields, &bytes).map_err(|e| Error::Checkpoint(e.to_string()))
}

/// An atomic file that knows its checksum.
pub(crate) struct HashedFile {
    file: AtomicFile,
    name: String,
    bytes: u64,
    hasher: Sha256,
}

impl HashedFile {
    pub(crate) fn create(directory: &Path, name: String) -> Result<Self> {
        Ok(Self {
            file: AtomicFile::create_private(&directory.join(&name))?,
            name,
            bytes: 0,
            hasher: Sha256::new(),
        })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        self.file.write(bytes)
    }

    pub(crate) fn commit(self) -> Result<Written> {
        self.file.commit()?;
        Ok(Written {
            name: self.name,
            bytes: self.bytes,
            sha256: hex(&self.hasher.finalize()),
        })
    }
}
