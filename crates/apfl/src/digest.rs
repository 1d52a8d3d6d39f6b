//! SHA-256 of files and of packed values.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Result, at};
use crate::pack::{Pack, View};

/// Returns the SHA-256 of a file, in hexadecimal.
pub fn sha256_of_file(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).map_err(at(path, "read"))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(at(path, "read"))? {
            0 => return Ok(hex(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// Returns the SHA-256 of bytes, in hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a value: of every array's name, type, length and bytes.
pub fn digest_of(value: &impl Pack) -> [u8; 32] {
    let mut hasher = Sha256::new();
    value.visit(&mut |name, view| {
        let kind = match view {
            View::F32(_) => "f32",
            View::F64(_) => "f64",
            View::U64(_) => "u64",
        };
        hasher.update(format!("{name}:{kind}:{};", view.bytes()));
        view.for_each_chunk(|chunk| hasher.update(chunk));
    });
    hasher.finalize().into()
}

/// Returns the SHA-256 of several chunks, each preceded by its length.
pub fn digest_of_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for chunk in chunks {
        hasher.update((chunk.len() as u64).to_le_bytes());
        hasher.update(chunk);
    }
    hasher.finalize().into()
}

/// Formats bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
