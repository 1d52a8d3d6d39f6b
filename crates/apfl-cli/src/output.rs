//! What goes to stdout.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use apfl::error::{Error, Result};
use apfl::model::Over;
use apfl::privacy::Spent;
use apfl::spec::{BATCH_STATISTICS, Plan};

/// Prints to stdout. A reader that has gone away (`apfl … | head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let text = match out.is_terminal() {
        true => harmless(text),
        false => Cow::Borrowed(text),
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
    if plan.architecture.extras.norm == Some(Over::Batch) {
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
    let shown = |c: char| match steers(c) {
        true => c.escape_default().collect(),
        false => c.to_string(),
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
    match of_run && !page && absolute.exists() {
        true => refused("the file is a run's own; give another name".into()),
        false => Ok(()),
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

/// What privacy cost, in a line.
pub fn privacy_in_words(spent: &Spent) -> String {
    let epsilon = spent.epsilon.map_or("∞".into(), |e| format!("{e:.4}"));
    let whence = match spent.simulation {
        true => "; the noise follows from the seed: a simulation",
        false => "; the noise is the operating system's: the fingerprint is another in every run",
    };
    let lost = match spent.lost as usize {
        0 => String::new(),
        n => format!("; {} begun, lost and paid for", counted(n, "round")),
    };
    format!(
        "privacy by {}: ε = {epsilon} at δ = {:e} (noise {:.4} × clip {}, {} steps){whence}{lost}",
        spent.level, spent.delta, spent.noise, spent.clip, spent.steps
    )
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("plain JSON");
    print(&format!("{text}\n"))
}

/// Columns of text: the first to the left, the others to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| {
        let cells = rows.iter().filter_map(|row| row.get(k));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(k, cell): (usize, &String)| match k {
            0 => format!("{cell:<width$}", width = widths[0]),
            k => format!("{cell:>width$}", width = widths[k]),
        };
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A count with its noun: `1 client`, `3 clients`.
pub fn counted(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// Bytes for people.
pub fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut n = n;
    let mut unit = 0;
    while n >= 1000.0 && unit + 1 < UNITS.len() {
        n /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n:.0} B"),
        _ => format!("{n:.1} {}", UNITS[unit]),
    }
}

/// A duration for people.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", 1000.0 * s),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_string(), "1".into()],
            vec!["bcd".into(), "23".into()],
        ];
        assert_eq!(columns(&rows), "a     1\nbcd  23\n");
    }

    #[test]
    fn names_do_not_steer_a_terminal_and_messages_fit_a_screen() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\tc\n"), "a\\u{1b}[2Jb\\r\tc\n");
        assert_eq!(on_a_screen("one\ntwo"), "one\ntwo");
        let long = on_a_screen(&format!("{}\n{}", "ä".repeat(5000), "x\n".repeat(99)));
        assert_eq!(long.lines().count(), LINES + 1);
        assert!(long.ends_with("… and 60 more lines"), "{long}");
        assert!(long.lines().all(|line| line.chars().count() <= LINE + 1));
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(bytes(31_400.0), "31.4 kB");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(duration(0.0123), "12 ms");
        assert_eq!(duration(600.0), "10 min");
        assert_eq!(counted(1, "client"), "1 client");
    }
}
