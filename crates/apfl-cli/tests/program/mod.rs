//! The program, run to its end in a directory.

use std::path::Path;
use std::process::{Command, Output};

/// Runs it; data sets are those in the directory alone.
pub fn apfl(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apfl"))
        .args(args)
        .env("APFL_DATA", directory)
        .current_dir(directory)
        .output()
        .expect("the program starts")
}

/// What it said on stderr; it ended with that code and did not panic.
#[track_caller]
pub fn ended(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// What it printed on stdout; it did what was asked.
#[track_caller]
pub fn ok(directory: &Path, args: &[&str]) -> String {
    let output = apfl(directory, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it said on stderr; it ended with that code.
#[track_caller]
pub fn fails(directory: &Path, args: &[&str], code: i32) -> String {
    ended(&apfl(directory, args), code)
}

/// It said all of that.
#[track_caller]
pub fn has(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}
