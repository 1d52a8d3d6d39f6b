//! The meaning of a table's cells.

use std::borrow::Cow;

use crate::data::rows::{Cell, shortest_decimal};

/// The default texts that mean "not known".
pub const MISSING: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "?"];

/// Recognizes cells that mean "not known". A text that is a number stands for that number in any
/// notation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missing {
    texts: Vec<String>,
    numbers: Vec<f64>,
    /// One bit for each first byte of the texts.
    firsts: [u64; 4],
}

impl Missing {
    /// Creates a matcher of these texts.
    pub fn new<T: AsRef<str>>(texts: &[T]) -> Self {
        let texts = texts.iter().map(|text| text.as_ref().trim().to_owned());
        let texts: Vec<String> = texts.collect();
        let number = |text: &String| text.parse::<f64>().ok().filter(|x| x.is_finite());
        let mut firsts = [0; 4];
        for byte in texts.iter().filter_map(|text| text.bytes().next()) {
            firsts[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        Self {
            numbers: texts.iter().filter_map(number).collect(),
            texts,
            firsts,
        }
    }

    /// Returns whether a text means "not known".
    pub fn contains(&self, text: &str) -> bool {
        let Some(first) = text.bytes().next() else {
            return true;
        };
        let likely = self.firsts[usize::from(first / 64)] >> (first % 64) & 1 == 1;
        likely && self.texts.iter().any(|missing| missing == text)
    }
}

/// Represents the meaning of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Missing,
    Number(f64),
    Boolean(bool),
    Text(Cow<'a, str>),
    /// A number that single precision cannot hold.
    Huge,
    /// Neither text nor number; its type.
    Other(&'a str),
}

/// Returns the meaning of a cell.
pub(super) fn value_of<'a>(cell: &Cell<'a>, missing: &Missing) -> Value<'a> {
    let number = |x: f64| match x {
        x if x.is_nan() || missing.numbers.contains(&x) => Value::Missing,
        x if (x as f32).is_finite() => Value::Number(x),
        _ => Value::Huge,
    };
    match *cell {
        Cell::Missing => Value::Missing,
        Cell::Integer(x) => number(x as f64),
        Cell::Double(x) => number(x),
        Cell::Float(x) => number(shortest_decimal(x)),
        Cell::Boolean(x) => Value::Boolean(x),
        Cell::Other(kind) => Value::Other(kind),
        Cell::Text(text) => {
            let text = trimmed(text);
            if missing.contains(text) {
                return Value::Missing;
            }
            // `nan` is a text: numbers have a digit or are infinite.
            let digits = || text.bytes().any(|b| b.is_ascii_digit());
            match number_in(text) {
                Some(x) if x.is_infinite() || digits() => number(x),
                _ if text.eq_ignore_ascii_case("true") => Value::Boolean(true),
                _ if text.eq_ignore_ascii_case("false") => Value::Boolean(false),
                _ => Value::Text(Cow::Borrowed(text)),
            }
        }
    }
}

/// Trims a text; the first case is a shortcut for most texts.
fn trimmed(text: &str) -> &str {
    match text.as_bytes() {
        [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic() => text,
        _ => text.trim(),
    }
}

/// Parses a number. Only texts that begin like a number, `inf` or `nan` are tried.
fn number_in(text: &str) -> Option<f64> {
    match text.bytes().next()? {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N' => text.parse().ok(),
        _ => None,
    }
}

/// Returns a number as the name of a class or category: `1` for 1.0, 1 and 1e0.
pub(super) fn name_of(x: f64) -> String {
    // −0 is 0 too.
    if x == 0.0 { "0".into() } else { x.to_string() }
}

/// Returns the name of a cell as a category or label.
pub(super) fn category_name<'a>(value: Value<'a>, cell: &Cell<'a>) -> Option<Cow<'a, str>> {
    match value {
        Value::Missing | Value::Other(_) => None,
        Value::Number(x) => Some(Cow::Owned(name_of(x))),
        Value::Boolean(x) => Some(Cow::Borrowed(if x { "true" } else { "false" })),
        Value::Text(text) => Some(text),
        Value::Huge => match *cell {
            Cell::Text(text) => Some(Cow::Borrowed(text.trim())),
            Cell::Double(x) => Some(Cow::Owned(x.to_string())),
            _ => None,
        },
    }
}

/// Sorts names: numbers by value, then texts.
pub(super) fn sort_names<T: AsRef<str> + Ord>(names: &mut [T]) {
    let number = |name: &T| name.as_ref().parse::<f64>().ok();
    names.sort_by(|a, b| match (number(a), number(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    });
}

/// Returns whether a text is a date or a time of day: 2024-03-01, 1.3.24, 03/01/2024 10:30, 10:30.
pub(super) fn is_date(text: &str) -> bool {
    // A shortcut for the many texts that are neither.
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let date = |part: &str| {
        ['-', '/', '.'].into_iter().any(|separator| {
            let fields: Vec<&str> = part.split(separator).collect();
            let digits = |field: &&str| {
                (1..=4).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit())
            };
            fields.len() == 3 && fields.iter().all(digits)
        })
    };
    let time = |part: &str| {
        let part = part.trim_end_matches('Z');
        let part = part.split(['+', '-']).next().unwrap_or(part);
        let fields: Vec<&str> = part.split(':').collect();
        let digits = |field: &&str| {
            !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        };
        (2..=3).contains(&fields.len()) && fields.iter().all(digits) && fields[0].len() <= 2
    };
    match text.split_once(['T', ' ']) {
        Some((day, hour)) => date(day) && (time(hour.trim()) || hour.trim().is_empty()),
        None => date(text) || time(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_mean_the_same_in_any_file() {
        let missing = Missing::new(&["", "?", "-9", "NaN"]);
        let of = |cell: Cell<'static>| value_of(&cell, &missing);
        for same in [
            [Cell::Text(" 1.0 "), Cell::Integer(1)],
            [Cell::Text("TRUE"), Cell::Boolean(true)],
            [Cell::Text("?"), Cell::Missing],
            [Cell::Text("-9.0"), Cell::Integer(-9)],
            [Cell::Text("NaN"), Cell::Double(f64::NAN)],
            [Cell::Text("1e400"), Cell::Double(f64::INFINITY)],
            [Cell::Text("0.25"), Cell::Float(0.25)],
        ] {
            assert_eq!(of(same[0]), of(same[1]), "{same:?}");
        }
        assert_eq!(of(Cell::Text("-inf")), Value::Huge);
        assert_eq!(of(Cell::Text("nanny")), Value::Text("nanny".into()));
        let named = Missing::new(&["1e400", "inf"]);
        assert_eq!(value_of(&Cell::Text("1e400"), &named), Value::Missing);
        assert_eq!(value_of(&Cell::Text("inf"), &named), Value::Missing);
        assert_eq!(name_of(-0.0), "0");
        assert_eq!(name_of(1e0), "1");
    }

    #[test]
    fn dates_and_what_is_none() {
        for text in [
            "2024-03-01",
            "1.3.24",
            "03/01/2024 10:30",
            "10:30:05",
            "2024-03-01T10:30:05Z",
        ] {
            assert!(is_date(text), "{text}");
        }
        for text in [
            "1.5",
            "a-b-c",
            "12-34",
            "192.168.0.1",
            "north",
            "1-2-3-4",
            "x 10:30",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn numbers_come_before_words() {
        let mut names = vec!["b", "10", "9", "a"];
        sort_names(&mut names);
        assert_eq!(names, ["9", "10", "a", "b"]);
    }
}
