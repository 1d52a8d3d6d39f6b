//! Passes the current commit to the build of the program and of the Python module.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"]);
    let commit = commit.unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=APFL_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Any edit of the sources makes the commit dirty.
    for path in [
        "src",
        "Cargo.toml",
        "../apfl/src",
        "../apfl-report/src",
        "../apfl-paper/src",
        "../apfl-paper/presets",
        "../../Cargo.lock",
    ] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in ["HEAD", "refs/heads"] {
        // In a linked work tree these paths are outside .git.
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
