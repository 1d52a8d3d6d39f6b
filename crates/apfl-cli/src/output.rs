//! Printing to stdout and stderr.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use apfl::error::{Error, Result};
use apfl::model::Normalization;
use apfl::quote::{escape_controls, shown};
use apfl::spec::{BATCH_STATISTICS, Plan};

pub use apfl_report::format::{bytes, counted, describe_privacy, duration};
pub use apfl_report::table::columns;

/// Prints to stdout. A closed pipe (`apfl … | head`) is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() {
        escape_controls(text)
    } else {
        Cow::Borrowed(text)
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(Error::File {
            path: Path::new("stdout").into(),
            action: "write",
            source,
        }),
        _ => Ok(()),
    }
}

/// Prints a message to stderr, ignoring write errors.
pub fn tell(message: impl std::fmt::Display) {
    let text = shown(&message.to_string());
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Warns if the model has batch statistics, so that a row's prediction depends on the other rows.
pub fn note_batches(plan: &Plan) {
    if plan.architecture.extras.norm == Some(Normalization::Batch) {
        tell(BATCH_STATISTICS);
    }
}

/// Returns an error if writing the file would overwrite one of a run's own files, or if its name
/// has none of the endings.
pub fn require_free(flag: &str, path: &Path, endings: &[&str]) -> Result<()> {
    let refused = |what: String| Err(Error::Request(format!("{flag} {}: {what}", path.display())));
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !endings.contains(&ending) {
        return refused(format!("the name must end in .{}", endings.join(" or .")));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let of_run = absolute
        .ancestors()
        .skip(1)
        .take(2)
        .any(|directory| directory.join("spec.toml").exists());
    let page = absolute
        .file_name()
        .is_some_and(|name| name == "report.html");
    if of_run && !page && absolute.exists() {
        refused("the file is a run's own and must not be overwritten; give another name".into())
    } else {
        Ok(())
    }
}

/// Returns an error's message with the flag or command that resolves it.
pub fn describe(error: &Error) -> String {
    match error {
        Error::OtherProgram { .. } => format!("{error}; --force continues anyway"),
        Error::NoData { kind, .. } => format!("{error}; fetch the data with apfl data get {kind}"),
        _ => error.to_string(),
    }
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("plain JSON");
    print(&format!("{text}\n"))
}
