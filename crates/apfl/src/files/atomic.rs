//! Atomic writes: a file appears completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::private::create_file;
use crate::error::{Result, at};

/// A file that appears under its name, complete and synced, when it is committed, and is removed if
/// it is dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Starts writing `path` under a temporary name beside it.
    pub fn create(path: &Path) -> Result<Self> {
        Self::with(path, |temporary| File::create(temporary))
    }

    /// Starts writing a file that only its owner may read.
    pub fn create_private(path: &Path) -> Result<Self> {
        Self::with(path, create_file)
    }

    fn with(path: &Path, create: impl FnOnce(&Path) -> io::Result<File>) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = create(&temporary).map_err(at(path, "write"))?;
        Ok(Self {
            path: path.into(),
            temporary,
            out: Some(BufWriter::with_capacity(1 << 18, file)),
        })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let out = self.out.as_mut().expect("open until committed");
        out.write_all(bytes).map_err(at(&self.path, "write"))
    }

    /// Flushes the file and returns its temporary path.
    pub fn flush_temporary(&mut self) -> Result<&Path> {
        let out = self.out.as_mut().expect("open until committed");
        out.flush().map_err(at(&self.path, "write"))?;
        Ok(&self.temporary)
    }

    /// Syncs the file, renames it to its path and syncs the directory.
    pub fn commit(mut self) -> Result<()> {
        let out = self.out.take().expect("open until committed");
        let finish = || -> io::Result<()> {
            let file = out.into_inner().map_err(|e| e.into_error())?;
            file.sync_all()?;
            fs::rename(&self.temporary, &self.path)
        };
        if let Err(e) = finish() {
            let _ = fs::remove_file(&self.temporary); // the first error is reported
            return Err(at(&self.path, "write")(e));
        }
        sync_directory(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.out.is_some() {
            let _ = fs::remove_file(&self.temporary); // errors cannot be reported here
        }
    }
}

/// Makes renames in a directory durable if the system supports it.
#[cfg(unix)]
pub fn sync_directory(directory: &Path) -> Result<()> {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let synced = File::open(directory).and_then(|opened| match opened.sync_all() {
        Err(e) if cannot_sync(&e) => Ok(()),
        outcome => outcome,
    });
    synced.map_err(at(directory, "sync"))
}

/// Does nothing: Windows cannot sync a directory, and its file systems journal renames.
#[cfg(not(unix))]
pub fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}

/// Returns whether an error of fsync means that directories cannot be synced, as on some network
/// and user-space file systems, and not that content was lost: EINVAL ("fd is bound to a special
/// file which does not support synchronization", fsync(2)), ENOTSUP, ENOSYS.
#[cfg(unix)]
fn cannot_sync(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

/// Writes bytes atomically.
pub fn write_atomically(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write(bytes.as_ref())?;
    file.commit()
}

/// Writes bytes atomically to a file that only its owner may read.
pub fn write_privately(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut file = AtomicFile::create_private(path)?;
    file.write(bytes.as_ref())?;
    file.commit()
}

/// Returns whether a name is a temporary name of [`AtomicFile`].
pub fn is_temporary(name: &str) -> bool {
    let rest = name.strip_suffix(".tmp");
    let process = rest.and_then(|rest| rest.rsplit_once('.'));
    process.is_some_and(|(_, id)| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's numbers: EINVAL 22, ENOSYS 38, EOPNOTSUPP 95; EIO 5, ENOSPC 28, EACCES 13.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_directory_that_cannot_be_synced_is_let_pass() {
        let passes = |number| cannot_sync(&io::Error::from_raw_os_error(number));
        assert!([22, 38, 95].into_iter().all(passes));
        assert!(![5, 28, 13].into_iter().any(passes));
        let gone = sync_directory(Path::new("no such directory")).unwrap_err();
        assert!(gone.to_string().contains("no such directory"), "{gone}");
    }

    #[test]
    fn an_abandoned_write_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_atomically(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write(b"half of the ne").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write_atomically(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
}
