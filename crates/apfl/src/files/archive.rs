//! Archives of client states: streams of packed values, written only by the process that owns the
//! clients.
//!
//! Each part is a `.safetensors` file with tensors `<client index>/<array>`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::atomic::AtomicFile;
use super::tensors::{TensorEntry, TensorFile, header};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::pack::{Arrays, Field, arrays_from_bytes};

/// Represents a file of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePart {
    /// The file name.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Represents a directory into which every process streams its own clients' states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveDirectory(pub PathBuf);

impl ArchiveDirectory {
    /// Writes the states of some clients as the part `name`. `client_state` is called for each
    /// client in order and returns the bytes of `fields`.
    ///
    /// # Errors
    /// The file cannot be written, or `client_state` fails.
    pub fn write(
        &self,
        name: &str,
        fields: &[Field],
        clients: &[usize],
        client_state: &mut dyn FnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<ArchivePart> {
        let mut entries = Vec::new();
        for client in clients {
            let prefix = format!("{client}/");
            entries.extend(fields.iter().map(|f| entry(&prefix, f)));
        }
        let expected: usize = fields.iter().map(Field::bytes).sum();
        let mut file = HashedFile::create(&self.0, format!("{name}.safetensors"))?;
        file.write(&header(&entries))?;
        for client in clients {
            let bytes = client_state(*client)?;
            assert_eq!(
                bytes.len(),
                expected,
                "every client state has the same fields"
            );
            file.write(&bytes)?;
        }
        file.commit()
    }

    /// Reads the states of some clients from a part and passes them to `each` in order.
    ///
    /// # Errors
    /// The file cannot be read or lacks a client, or `each` fails.
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

/// Returns the tensor entry of an array.
pub(crate) fn entry(prefix: &str, field: &Field) -> TensorEntry {
    TensorEntry {
        name: format!("{prefix}{}", field.name),
        kind: field.kind,
        shape: vec![field.len],
    }
}

/// Reads the arrays of one value, named with a prefix.
pub(crate) fn read_arrays(file: &mut TensorFile, prefix: &str, fields: &[Field]) -> Result<Arrays> {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.append(&mut file.read(&entry(prefix, field))?);
    }
    arrays_from_bytes(fields, &bytes).map_err(|e| Error::Checkpoint(e.to_string()))
}

/// An atomic file that computes its checksum.
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

    pub(crate) fn commit(self) -> Result<ArchivePart> {
        self.file.commit()?;
        Ok(ArchivePart {
            name: self.name,
            bytes: self.bytes,
            sha256: hex(&self.hasher.finalize()),
        })
    }
}
