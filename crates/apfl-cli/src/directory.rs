//! A new directory for a run or a sweep where none was named.

use std::path::{Path, PathBuf};

use apfl::error::{Error, Result};
use apfl::files::UtcTime;

/// Makes `runs/<name>-<UTC time>`, with a number behind where that is taken.
pub fn new_directory(name: &str) -> Result<PathBuf> {
    let time = UtcTime::now().compact();
    let failed = |path: &Path, source| Error::File {
        path: path.into(),
        action: "create",
        source,
    };
    std::fs::create_dir_all("runs").map_err(|e| failed(Path::new("runs"), e))?;
    for k in 1u32.. {
        let suffix = if k == 1 {
            String::new()
        } else {
            format!("-{k}")
        };
        let path = PathBuf::from(format!("runs/{name}-{time}{suffix}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&path, e)),
        }
    }
    unreachable!("some number is free")
}
