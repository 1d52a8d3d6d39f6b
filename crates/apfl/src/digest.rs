//! SHA-256 of files and of packed values.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Result, at};
use crate::pack::Pack;

/// The digest of a whole file, in hexadecimal.
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

/// The digest of bytes, in hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The digest of a value: of every array's name, type, length and bytes.
pub fn digest_of(value: &impl Pack) -> [u8; 32] {
    let mut hasher = Sha256::new();
    value.visit(&mut |name, view| {
        let kind = match view {
            crate::pack::View::F32(_) => "f32",
            crate::pack::View::F64(_) => "f64",
            crate::pack::View::U64(_) => "u64",
        };
        hasher.update(format!("{name}:{kind}:{};", view.bytes()));
        view.for_each_piece(|piece| hasher.update(piece));
    });
    hasher.finalize().into()
}

/// The digest of several pieces, each preceded by its length.
pub fn digest_of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update((piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    hasher.finalize().into()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
