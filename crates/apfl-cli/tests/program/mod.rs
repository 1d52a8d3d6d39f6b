//! Runs the program to its end in a directory.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program with the data sets of the directory alone.
pub fn apfl(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apfl"))
        .args(args)
        .env("APFL_DATA", directory)
        .current_dir(directory)
        .output()
        .expect("the program starts")
}

/// Returns stderr, and checks that the program ended with the exit code and did not panic.
#[track_caller]
pub fn ended(output: &Output, code: i32) -> String {
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(!printed.contains("panicked"), "{printed}");
    printed
}

/// Runs the program, checks that it succeeded, and returns stdout.
#[track_caller]
pub fn ok(directory: &Path, args: &[&str]) -> String {
    let output = apfl(directory, args);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {printed}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program, checks the exit code, and returns stderr.
#[track_caller]
pub fn fails(directory: &Path, args: &[&str], code: i32) -> String {
    ended(&apfl(directory, args), code)
}

/// Checks that the text contains all parts.
#[track_caller]
pub fn has(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part} is missing in\n{printed}");
    }
}
