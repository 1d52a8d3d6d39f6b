//! Reports what a test cannot do on this machine, since `cargo test` hides the output of
//! passing tests.

use std::fs::OpenOptions;
use std::io::Write;

/// Reports that something was not tested, and why: on the error stream past the harness and, where
/// `$APFL_SKIPS` names a file, in a line of it, which `./test.sh` shows at its end.
pub fn skipped(why: &str) {
    let line = format!("SKIPPED: {}\n", why.replace('\n', " "));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("APFL_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
