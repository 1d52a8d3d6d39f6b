//! Files that are stored only if their checksums are right.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use apfl::digest::hex;
use apfl::error::{Error, Result};
use apfl::files::atomic::AtomicFile;
use md5::{Digest, Md5};
use sha2::Sha256;

use super::catalogue::Form;

/// Accumulates size and checksums.
#[derive(Default)]
pub struct Sums {
    bytes: u64,
    md5: Md5,
    sha256: Sha256,
}

impl Sums {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.md5.update(bytes);
        self.sha256.update(bytes);
    }

    /// Returns how the bytes differ from a form, or `None`.
    fn mismatch(self, form: &Form) -> Option<String> {
        let (md5, sha256) = (hex(&self.md5.finalize()), hex(&self.sha256.finalize()));
        if self.bytes != form.bytes {
            return Some(format!(
                "has {} bytes, should have {}",
                self.bytes, form.bytes
            ));
        }
        if md5 != form.md5 {
            return Some(format!("has the MD5 {md5}, should have {}", form.md5));
        }
        match form.sha256 {
            Some(right) if right != sha256 => {
                Some(format!("has the SHA-256 {sha256}, should have {right}"))
            }
            _ => None,
        }
    }

    /// Returns the SHA-256.
    pub fn sha256(self) -> String {
        hex(&self.sha256.finalize())
    }
}

/// Returns a constructor of file errors, for `map_err`.
pub fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::File {
        path,
        action,
        source,
    }
}

/// Returns how a file in the folder differs from its form, or `None`.
pub fn mismatch(folder: &Path, form: &Form) -> Result<Option<String>> {
    let path = folder.join(form.name);
    let size = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some("is not there".into()));
        }
        Err(e) => return Err(io(&path, "read")(e)),
    };
    if size != form.bytes {
        return Ok(Some(format!(
            "has {size} bytes, should have {}",
            form.bytes
        )));
    }
    let mut file = File::open(&path).map_err(io(&path, "read"))?;
    let mut sums = Sums::default();
    copy(&mut file, u64::MAX, &mut |bytes| {
        sums.add(bytes);
        Ok(())
    })
    .map_err(|e| e.on(&path))?;
    Ok(sums.mismatch(form))
}

/// Represents a failure to copy.
pub enum CopyError {
    /// The source failed.
    Reading(std::io::Error),
    /// The destination failed; no other source helps.
    Writing(Error),
}

impl CopyError {
    /// Converts to an error about the file that was read.
    pub fn on(self, path: &Path) -> Error {
        match self {
            CopyError::Reading(e) => io(path, "read")(e),
            CopyError::Writing(e) => e,
        }
    }
}

/// Copies at most `max_bytes` bytes in pieces.
fn copy(
    from: &mut dyn Read,
    max_bytes: u64,
    to: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), CopyError> {
    let mut buffer = vec![0; 1 << 16];
    let mut from = from.take(max_bytes);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to(&buffer[..n]).map_err(CopyError::Writing)?,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(CopyError::Reading(e)),
        }
    }
}

/// Writes a file of a form into the folder if its size and checksums are right. Otherwise returns
/// the mismatch and leaves nothing behind.
pub fn store(
    folder: &Path,
    form: &Form,
    from: &mut dyn Read,
    progress: &mut dyn FnMut(u64),
) -> std::result::Result<Option<String>, CopyError> {
    let path = folder.join(form.name);
    let mut file = AtomicFile::create(&path).map_err(CopyError::Writing)?;
    let mut sums = Sums::default();
    // One byte beyond the size shows that it is another file.
    copy(from, form.bytes + 1, &mut |bytes| {
        sums.add(bytes);
        progress(bytes.len() as u64);
        file.write(bytes)
    })?;
    match sums.mismatch(form) {
        Some(mismatch) => Ok(Some(mismatch)),
        None => file.commit().map(|()| None).map_err(CopyError::Writing),
    }
}

/// Returns the SHA-256 of a file.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(io(path, "read"))?;
    let mut sums = Sums::default();
    copy(&mut file, u64::MAX, &mut |bytes| {
        sums.add(bytes);
        Ok(())
    })
    .map_err(|e| e.on(path))?;
    Ok(sums.sha256())
}

/// Removes `<file>.<process>.tmp` and `.scratch-<process>` of processes that no longer run.
pub fn remove_leftovers(folder: &Path, names: &[&str]) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = names.iter().find_map(|file| {
            let rest = name.strip_prefix(file)?.strip_prefix('.')?;
            rest.strip_suffix(".tmp")?.parse::<u32>().ok()
        });
        let scratch = name
            .strip_prefix(".scratch-")
            .and_then(|id| id.parse().ok());
        let running = |id: u32| Path::new("/proc").join(id.to_string()).exists();
        // A leftover that cannot be removed does no harm.
        if process.is_some_and(|id| !running(id)) {
            let _ = fs::remove_file(entry.path());
        } else if scratch.is_some_and(|id| !running(id)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Represents a temporary folder, removed on drop.
pub struct Scratch(pub std::path::PathBuf);

impl Scratch {
    /// Creates an empty temporary folder in `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        let path = folder.join(format!(".scratch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // left by an earlier process of the same id
        fs::create_dir_all(&path).map_err(io(&path, "create"))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // an error cannot be reported here
    }
}
