//! Directories and files that only their owner may read, such as run directories.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::{Result, at};

/// Creates a directory and its parents, and makes it readable by its owner only, also if it exists.
pub fn create_directory(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(at(path, "create"))?;
        }
        let made = fs::DirBuilder::new().mode(0o700).create(path);
        match made {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                // The directory of another user keeps that user's permissions.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
                Ok(())
            }
            other => other.map_err(at(path, "create")),
        }
    }
    #[cfg(not(unix))]
    fs::create_dir_all(path).map_err(at(path, "create"))
}

/// Creates a file that only its owner may read.
pub fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
