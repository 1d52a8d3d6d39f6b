//! Text from other parties, made fit for logs, terminals and error messages.
//!
//! A server, a site, a bundle or a table chooses its strings. Shown as they are, they could move a
//! cursor, forge a line or fill a disk. Code that interpolates such a string calls [`quoted`] or
//! [`listed`]. Code that writes a whole message to a log or a terminal calls [`shown`].

use std::borrow::Cow;

/// The most characters of a quoted string, and names of a list.
const MAX_QUOTED: usize = 120;
const MAX_LISTED: usize = 12;

/// The most lines of a message, and characters of a line.
const MAX_LINES: usize = 40;
const MAX_WIDTH: usize = 1000;

/// Returns whether a character changes how the text around it is shown: control characters, and
/// those that break lines or reverse the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Escapes control characters of a text of several lines; keeps new lines and tabs.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

/// Returns a string from another party for a message: on one line, without control characters, of
/// at most 120 characters. A longer one ends in its length.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => escaped(text, is_unsafe).into_owned(),
        Some((end, _)) => {
            let start = escaped(&text[..end], is_unsafe);
            format!("{start}… ({} bytes)", text.len())
        }
    }
}

/// Returns a string from another party in quotes, [`quoted`].
pub fn in_quotes(text: &str) -> String {
    format!("'{}'", quoted(text))
}

/// Returns names from another party for a message: the first 12, each [`quoted`], and how many
/// there are.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let first = names.iter().take(MAX_LISTED);
    let first: Vec<String> = first.map(|name| quoted(name.as_ref())).collect();
    let first = first.join(", ");
    match names.len() {
        ..=MAX_LISTED => first,
        n => format!("{first}, … ({n} in all)"),
    }
}

/// Returns a message as a log or a terminal may show it: without control characters, at most 40
/// lines of 1,000 characters. Further lines are replaced by their number.
pub fn shown(message: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(MAX_WIDTH) {
        Some((at, _)) => format!("{}…", escape_controls(&line[..at])),
        None => escape_controls(line).into_owned(),
    };
    let mut all = message.lines();
    let mut lines: Vec<String> = all.by_ref().take(MAX_LINES).map(cut).collect();
    match all.count() {
        0 => {}
        1 => lines.push("… and 1 more line".into()),
        more => lines.push(format!("… and {more} more lines")),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ESC and BEL, CSI in one byte of Latin-1, a new line, the override of the direction of
    /// writing.
    const HOSTILE: &str = "a\u{1b}]0;x\u{7}\u{9b}2J\nb\u{202e}c";

    #[test]
    fn control_characters_are_escaped() {
        let plain = "a\\u{1b}]0;x\\u{7}\\u{9b}2J\\nb\\u{202e}c";
        assert_eq!(quoted(HOSTILE), plain);
        assert_eq!(listed(&[HOSTILE, "d"]), format!("{plain}, d"));
        let lines = plain.replace("\\n", "\n");
        assert_eq!(shown(HOSTILE), lines);
        assert_eq!(
            escape_controls("a\u{1b}[2Jb\r\tc\n"),
            "a\\u{1b}[2Jb\\r\tc\n"
        );
        assert_eq!(quoted("Ärzte 'α'"), "Ärzte 'α'");
    }

    #[test]
    fn long_strings_and_lists_are_capped() {
        let long = "ä".repeat(20_000_000);
        let found = quoted(&long);
        assert_eq!(found, format!("{}… (40000000 bytes)", "ä".repeat(120)));
        assert_eq!(quoted(&long[..240]), long[..240]);
        let names = vec!["\n".repeat(500); 1_000_000];
        let found = listed(&names);
        // 12 names of 120 escaped new lines.
        assert!(found.starts_with(&"\\n".repeat(120)));
        assert!(found.ends_with("… (1000000 in all)"), "{found}");
        assert!(found.len() < 12 * (2 * 120 + 30) + 30);
        assert_eq!(listed(&names[..12]).matches(", ").count(), 11);
    }

    #[test]
    fn a_message_fits_a_screen() {
        assert_eq!(shown("one\ntwo"), "one\ntwo");
        let long = shown(&format!("{}\n{}", "ä".repeat(5000), "x\n".repeat(99)));
        assert_eq!(long.lines().count(), MAX_LINES + 1);
        assert!(long.ends_with("… and 60 more lines"), "{long}");
        let fits = |line: &str| line.chars().count() <= MAX_WIDTH + 1;
        assert!(long.lines().all(fits));
        assert!(shown(&"x\n".repeat(41)).ends_with("… and 1 more line"));
    }
}
