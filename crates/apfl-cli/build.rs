//! Notes the commit that the program is built from; the Python module is built with it too.

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
    // What the program is made of: an edit makes the commit a dirty one.
    for part in [
        "src",
        "Cargo.toml",
        "../apfl/src",
        "../apfl-report/src",
        "../apfl-paper/src",
        "../apfl-paper/presets",
        "../../Cargo.lock",
    ] {
        if std::path::Path::new(part).exists() {
            println!("cargo::rerun-if-changed={part}");
        }
    }
    for part in ["HEAD", "refs/heads"] {
        // In a linked work tree these lie elsewhere than in .git.
        if let Some(path) = git(&["rev-parse", "--git-path", part]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
