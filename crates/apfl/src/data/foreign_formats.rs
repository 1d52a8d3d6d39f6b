//! Recognizes files that are not tables by their first bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of formats and their descriptions.
const FORMATS: [(&[u8], &str); 15] = [
    (
        b"ARROW1",
        "an Arrow (Feather) file; save it as Parquet or CSV",
    ),
    (b"\x93NUMPY", "a NumPy array; save it as CSV with a header"),
    (
        b"\x89HDF",
        "an HDF5 file; save the table in it as Parquet or CSV",
    ),
    (
        b"PK\x03\x04",
        "a zip archive (.xlsx, .npz, .zip); save the table in it as CSV",
    ),
    (
        b"SQLite format 3",
        "an SQLite database; save the table in it as CSV",
    ),
    (b"\x89PNG", "a PNG image; for images use kind = \"idx\""),
    (
        b"\xff\xd8\xff",
        "a JPEG image; for images use kind = \"idx\"",
    ),
    (
        b"\x00\x00\x08\x01",
        "an IDX file of labels; use kind = \"idx\" with images and labels",
    ),
    (
        b"\x00\x00\x08\x03",
        "an IDX file of images; use kind = \"idx\" with images and labels",
    ),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
    (b"BZh", "a bzip2 file; unpack it first"),
    (b"\xfd7zXZ", "an xz file; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"),
    (b"ORC", "an ORC file; save it as Parquet or CSV"),
];

/// Describes a file that is not a table and says what to do instead.
pub(super) fn describe_non_table(path: &Path) -> Option<&'static str> {
    if path.is_dir() {
        return Some("a folder; data.path names a file of rows (for images use kind = \"idx\")");
    }
    let mut first = Vec::new();
    File::open(path)
        .ok()?
        .take(16)
        .read_to_end(&mut first)
        .ok()?;
    let found = FORMATS.iter().find(|(magic, _)| first.starts_with(magic));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let describe = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            describe_non_table(&path)
        };
        assert!(describe(b"ARROW1\0\0rest").unwrap().contains("Arrow"));
        assert!(
            describe(&[0, 0, 8, 3, 0, 0, 0, 1])
                .unwrap()
                .contains("IDX file of images")
        );
        assert!(describe(b"client,label,x\n").is_none());
        assert!(describe(b"").is_none());
        assert!(describe_non_table(dir.path()).unwrap().contains("a folder"));
    }
}
