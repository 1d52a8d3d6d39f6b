//! A short run, and a long one to be interrupted.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::ok;

/// The arguments of a run of eight rounds with a checkpoint after each.
pub const RUN: [&str; 21] = [
    "run",
    "--quiet",
    "--json",
    "--set",
    "data={ kind = 'synthetic' }",
    "--set",
    "algorithm={ kind = 'apfl' }",
    "--set",
    "data.clients=6",
    "--set",
    "data.features=4",
    "--set",
    "data.classes=3",
    "--set",
    "data.examples=30",
    "--set",
    "federation.participation=0.5",
    "--set",
    "checkpoint.every=1",
    "--set",
    "training.rounds=8",
];

/// Runs it in a directory with more settings.
pub fn run(at: &Path, out: &str, more: &[&str]) -> String {
    ok(at, &[&RUN[..], more, &["--out", out]].concat())
}

/// Changes the run in `out` as if it had been killed between its last checkpoint and its end.
pub fn killed_at_its_end(at: &Path, out: &str) {
    fs::remove_file(at.join(out).join("summary.json")).unwrap();
}

const RESUME: [&str; 4] = ["run", "--quiet", "--resume", "--out"];

/// Returns the arguments that resume the run.
pub fn resume<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&RESUME[..], &[out], more].concat()
}

/// Starts a run in `live` that is too long to end by itself, after a shell's `prelude`, and waits
/// for its first round.
#[cfg(unix)]
pub fn long_run(at: &Path, prelude: &str, more: &[&str]) -> std::process::Child {
    let endless = ["--set", "training.rounds=1000000", "--out", "live"];
    let args: Vec<&str> = [&RUN[..], &endless, more].concat();
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("{prelude} exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_apfl"))
        .args(args)
        .current_dir(at)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while fs::metadata(at.join("live/rounds.jsonl")).map_or(0, |m| m.len()) == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no round was written"
        );
        if let Some(status) = child.try_wait().unwrap() {
            panic!("ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Sends a signal to the process.
#[cfg(unix)]
pub fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}
