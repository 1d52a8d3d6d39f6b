//! New directories for runs and sweeps started without `--out`.

use std::path::{Path, PathBuf};

use apfl::error::{Error, Result};
use apfl::files::UtcTime;

/// Creates `runs/<name>-<UTC time>`, with a number appended if that exists.
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
    unreachable!("a free number exists")
}
