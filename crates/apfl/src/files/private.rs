//! What only its owner may read: run directories, and the models and checkpoints in them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::{Result, at};

/// Makes a directory and those above it, readable by its owner alone; one that is there
/// becomes so.
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
                // Where it is another user's, that user has decided who reads it.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
                Ok(())
            }
            other => other.map_err(at(path, "create")),
        }
    }
    #[cfg(not(unix))]
    fs::create_dir_all(path).map_err(at(path, "create"))
}

/// Makes a file that only its owner may read.
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
