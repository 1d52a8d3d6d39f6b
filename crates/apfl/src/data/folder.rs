//! The folders of data sets, and reading of their files.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::SourceFile;
use crate::digest::sha256_of;
use crate::error::{Error, Result, at};
use crate::settings::{Section, Setting, Text};

/// Returns the data directory: `$APFL_DATA`, or `apfl` in the user's data folder. It has one folder
/// per data set.
pub fn data_directory() -> PathBuf {
    let named = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || named("HOME").unwrap_or_default();
    let directory = named("APFL_DATA").unwrap_or_else(|| {
        let folder = if cfg!(windows) {
            named("LOCALAPPDATA").unwrap_or_default()
        } else if cfg!(target_os = "macos") {
            home().join("Library/Application Support")
        } else {
            named("XDG_DATA_HOME").unwrap_or_else(|| home().join(".local/share"))
        };
        folder.join("apfl")
    });
    std::path::absolute(&directory).unwrap_or(directory)
}

/// The setting `data.dir`.
pub(super) const DIR: Setting<Text> = Setting::text("dir", || None)
    .help("its folder")
    .usually("the folder of the kind's name in the data directory")
    .example("\"data/set\"")
    .seldom();

/// Reads `data.dir`; the default is `<data directory>/<kind>`.
pub(super) fn read_dir(s: &mut Section<'_>, kind: &str) -> PathBuf {
    read_path_or(s, &DIR, data_directory().join(kind).display().to_string())
}

/// Reads a path and makes it absolute, so that the resolved spec runs from anywhere.
pub(super) fn read_path(s: &mut Section<'_>, setting: &Setting<Text>) -> PathBuf {
    read_path_or(s, setting, String::new())
}

fn read_path_or(s: &mut Section<'_>, setting: &Setting<Text>, default: String) -> PathBuf {
    let text = s.get_or(setting, default);
    let path = std::path::absolute(&text).unwrap_or_else(|_| text.into());
    s.resolve(setting.key, path.display().to_string());
    path
}

/// Finds a file in a folder, plain or gzipped.
pub(super) fn find(dir: &Path, name: &str, kind: &str) -> Result<PathBuf> {
    let gzipped = format!("{name}.gz");
    [name, &gzipped]
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::NoData {
            kind: kind.into(),
            folder: dir.into(),
            file: name.into(),
        })
}

/// Refuses pipes and devices, which can be read only once, may never end, and have no checksum. A
/// missing file is reported when it is opened.
pub(super) fn require_regular_file(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let what = if found.is_dir() {
                "is a directory"
            } else {
                "is not a regular file (a pipe or a device?); save it to a file first"
            };
            Err(Error::in_file(path, what))
        }
        _ => Ok(()),
    }
}

/// Reads a file's bytes and checksum.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, SourceFile)> {
    require_regular_file(path)?;
    let bytes = std::fs::read(path).map_err(at(path, "read"))?;
    let file = SourceFile {
        path: path.display().to_string(),
        sha256: sha256_of(&bytes),
    };
    Ok((bytes, file))
}

/// Returns whether the bytes are gzipped.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The largest expansion of a byte by deflate: a header that needs more is wrong.
pub(super) const MAX_DEFLATE_RATIO: u64 = 1032;

/// Decompresses at most `most` bytes, and checks the checksum if the end is reached.
pub(super) fn inflate(bytes: &[u8], most: u64) -> std::result::Result<Vec<u8>, String> {
    let mut out = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(most)
        .read_to_end(&mut out)
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                "its gzip stream ends too early; the file is truncated".to_string()
            }
            _ => format!("is not a complete gzip file: {e}"),
        })?;
    Ok(out)
}
