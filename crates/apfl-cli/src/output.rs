//! What goes to stdout.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use apfl::error::{Error, Result};
use apfl::model::Normalization;
use apfl::spec::{BATCH_STATISTICS, Plan};

pub use apfl_report::table::columns;
pub use apfl_report::words::{bytes, counted, duration, privacy_in_words};

/// Prints to stdout. A reader that has gone away (`apfl … | head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() {
        harmless(text)
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

/// Tells something on stderr. That nobody listens is no error.
pub fn tell(line: impl std::fmt::Display) {
    let text = line.to_string();
    let _ = writeln!(
        std::io::stderr().lock(),
        "{}",
        on_a_screen(&harmless(&text))
    );
}

/// Tells what a run's models are no good for, where a row's answer depends on the rows beside it.
pub fn note_batches(plan: &Plan) {
    if plan.architecture.extras.norm == Some(Normalization::Batch) {
        tell(BATCH_STATISTICS);
    }
}

/// Text without characters that would steer a terminal: names come from outside. New lines
/// and tabs stay.
fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| {
        if steers(c) {
            c.escape_default().collect()
        } else {
            c.to_string()
        }
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Lines and characters of a line that a message may have.
const LINES: usize = 40;
const LINE: usize = 1000;

/// A message that fits a screen: long lines are cut, and many of them are counted.
fn on_a_screen(text: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().take(LINES).map(cut).collect();
    let more = text.lines().count().saturating_sub(LINES);
    if more > 0 {
        lines.push(format!("… and {}", counted(more, "more line")));
    }
    lines.join("\n")
}

/// An error where a file that is about to be written is one of a run's own, or has not the ending
/// that it should have: what was typed by mistake is not written over.
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
        refused("the file is a run's own; give another name".into())
    } else {
        Ok(())
    }
}

/// What a user is told of an error: the library's words, and this program's way out.
pub fn told(error: &Error) -> String {
    match error {
        Error::OtherProgram { .. } => format!("{error}; --force goes on all the same"),
        Error::NoData { kind, .. } => format!("{error}; apfl data get {kind} fetches the data"),
        _ => error.to_string(),
    }
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("plain JSON");
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_steer_a_terminal_and_messages_fit_a_screen() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\tc\n"), "a\\u{1b}[2Jb\\r\tc\n");
        assert_eq!(on_a_screen("one\ntwo"), "one\ntwo");
        let long = on_a_screen(&format!("{}\n{}", "ä".repeat(5000), "x\n".repeat(99)));
        assert_eq!(long.lines().count(), LINES + 1);
        assert!(long.ends_with("… and 60 more lines"), "{long}");
        assert!(long.lines().all(|line| line.chars().count() <= LINE + 1));
    }
}
