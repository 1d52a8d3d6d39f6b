//! Reading one table of a spec: every key asked for once, every problem kept.
//!
//! A [`Section`] is asked for its keys by name, with a default and what is allowed.
//! It notes every problem instead of stopping at the first, remembers each value it
//! handed out (that is the resolved spec), and at the end names the keys that
//! nobody asked for.

use std::fmt;
use std::ops::RangeBounds;

use toml::{Table, Value};

mod kind;

pub use kind::Kind;
pub(crate) use kind::registry;

/// One thing wrong with a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The key's whole path, such as `training.rounds`.
    pub key: String,
    /// What is wrong: the value found and what is allowed.
    pub message: String,
}

/// Everything wrong with a spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Notes one more.
    pub fn note(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            key: key.into(),
            message: message.into(),
        });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "the spec has {} problem{plural}:", self.0.len())?;
        for Problem { key, message } in &self.0 {
            write!(f, "\n  {key}: {message}")?;
        }
        Ok(())
    }
}

/// One table of a spec while it is being read.
#[derive(Debug)]
pub struct Section<'a> {
    path: String,
    given: Table,
    resolved: Table,
    asked: Vec<String>,
    forgiving: Option<Vec<String>>,
    forgiving_within: Vec<(String, Vec<String>)>,
    problems: &'a mut Problems,
}

impl<'a> Section<'a> {
    /// Starts reading the table `given`, which stands at `path` (empty at the root).
    pub fn new(path: &str, given: Table, problems: &'a mut Problems) -> Self {
        Self {
            path: path.into(),
            given,
            resolved: Table::new(),
            asked: Vec::new(),
            forgiving: None,
            forgiving_within: Vec::new(),
            problems,
        }
    }

    /// Drops keys that nobody asks for instead of calling them problems, but for those
    /// named, or with a named key inside (`mixing.fixed` names `mixing`): for a table
    /// whose `kind` was changed by an override.
    pub fn forgive_unknown(&mut self, but: Vec<String>) {
        self.forgiving = Some(but);
    }

    /// The same for a table within this one.
    pub fn forgive_unknown_within(&mut self, key: &str, but: Vec<String>) {
        self.forgiving_within.push((key.into(), but));
    }

    fn full(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.into(),
            path => format!("{path}.{key}"),
        }
    }

    /// Notes a problem with a key.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let key = self.full(key);
        self.problems.note(key, message);
    }

    /// Remembers a key that this table may have, once.
    fn know(&mut self, key: &str) {
        if !self.asked.iter().any(|known| known == key) {
            self.asked.push(key.into());
        }
    }

    /// Names keys that may be written here and are asked for only where they are: who mistypes
    /// one is told of it.
    pub fn knows(&mut self, keys: &[&str]) {
        keys.iter().for_each(|key| self.know(key));
    }

    /// Whether the key was written.
    pub fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// Whether the key was written as a table that has that key.
    pub fn holds(&self, key: &str, inner: &str) -> bool {
        let table = self.given.get(key).and_then(Value::as_table);
        table.is_some_and(|table| table.contains_key(inner))
    }

    /// Whether the key was written as a text.
    pub fn is_text(&self, key: &str) -> bool {
        self.given.get(key).is_some_and(Value::is_str)
    }

    /// Takes a raw value; the caller resolves it with [`Section::resolve`].
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.know(key);
        self.given.remove(key)
    }

    /// Writes a value into the resolved table.
    pub fn resolve(&mut self, key: &str, value: impl Into<Value>) {
        self.resolved.insert(key.into(), value.into());
    }

    /// Leaves a key out of the resolved table: one that is not used.
    pub fn forget(&mut self, key: &str) {
        self.resolved.remove(key);
    }

    fn wrong(&mut self, key: &str, found: &Value, allowed: &str) {
        self.problem(key, format!("found {}, allowed is {allowed}", shown(found)));
    }

    /// A number in a range; `allowed` says the range in words.
    pub fn float(
        &mut self,
        key: &str,
        default: f64,
        range: impl RangeBounds<f64>,
        allowed: &str,
    ) -> f64 {
        let value = match self.take(key) {
            None => default,
            Some(found) => match as_float(&found) {
                Some(x) if x.is_finite() && range.contains(&x) => x,
                _ => {
                    self.wrong(key, &found, allowed);
                    default
                }
            },
        };
        self.resolve(key, value);
        value
    }

    /// A number that may be left out.
    pub fn optional_float(
        &mut self,
        key: &str,
        range: impl RangeBounds<f64>,
        allowed: &str,
    ) -> Option<f64> {
        let found = self.take(key)?;
        match as_float(&found) {
            Some(x) if x.is_finite() && range.contains(&x) => {
                self.resolve(key, x);
                Some(x)
            }
            _ => {
                self.wrong(key, &found, allowed);
                None
            }
        }
    }

    /// A whole number in a range.
    pub fn integer(
        &mut self,
        key: &str,
        default: u64,
        range: impl RangeBounds<u64>,
        allowed: &str,
    ) -> u64 {
        let value = self
            .optional_integer(key, range, allowed)
            .unwrap_or(default);
        self.resolve(key, value as i64);
        value
    }

    /// A whole number that may be left out.
    pub fn optional_integer(
        &mut self,
        key: &str,
        range: impl RangeBounds<u64>,
        allowed: &str,
    ) -> Option<u64> {
        let found = self.take(key)?;
        let value = found.as_integer().and_then(|x| u64::try_from(x).ok());
        match value {
            Some(x) if range.contains(&x) => {
                self.resolve(key, x as i64);
                Some(x)
            }
            _ if found.is_integer() => {
                self.wrong(key, &found, allowed);
                None
            }
            _ => {
                self.wrong(key, &found, &format!("a whole number, {allowed}"));
                None
            }
        }
    }

    /// true or false.
    pub fn boolean(&mut self, key: &str, default: bool) -> bool {
        let value = match self.take(key) {
            None => default,
            Some(Value::Boolean(b)) => b,
            Some(found) => {
                self.wrong(key, &found, "true or false");
                default
            }
        };
        self.resolve(key, value);
        value
    }

    /// A text that may be left out.
    pub fn optional_text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => {
                self.resolve(key, text.clone());
                Some(text)
            }
            found => {
                self.wrong(key, &found, "a text");
                None
            }
        }
    }

    /// A text.
    pub fn text(&mut self, key: &str, default: &str) -> String {
        let text = self.optional_text(key).unwrap_or_else(|| default.into());
        self.resolve(key, text.clone());
        text
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str, default: &[&str]) -> Vec<String> {
        let default = || default.iter().map(|text| (*text).to_owned()).collect();
        let texts: Vec<String> = match self.take(key) {
            None => default(),
            Some(found) => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let texts = found.as_array().map(|all| all.iter().map(text).collect());
                match texts.flatten() {
                    Some(texts) => texts,
                    None => {
                        self.wrong(key, &found, "a list of texts");
                        default()
                    }
                }
            }
        };
        let all = texts.iter().cloned().map(Value::String).collect();
        self.resolve(key, Value::Array(all));
        texts
    }

    /// One of several words.
    pub fn choice<T: Copy>(&mut self, key: &str, default: &str, choices: &[(&str, T)]) -> T {
        let pick = |word: &str| choices.iter().find(|(name, _)| *name == word);
        let (word, value) = *pick(default).expect("the default is one of the choices");
        let mut chosen = (word, value);
        if let Some(found) = self.take(key) {
            match found.as_str().and_then(pick) {
                Some(choice) => chosen = *choice,
                None => {
                    let words: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                    let hint = found
                        .as_str()
                        .and_then(|word| nearest(word, words.iter().copied()))
                        .map(|near| format!(" (did you mean \"{near}\"?)"))
                        .unwrap_or_default();
                    let allowed = format!("one of {}{hint}", words.join(" · "));
                    self.wrong(key, &found, &allowed);
                }
            }
        }
        self.resolve(key, chosen.0);
        chosen.1
    }

    /// Reads an old word of a key as the one that took its place.
    pub fn renamed(&mut self, key: &str, old: &str, new: &str) {
        if self.given.get(key).and_then(Value::as_str) == Some(old) {
            self.given.insert(key.into(), new.into());
        }
    }

    /// Turns `key = "word"` into `key = { kind = "word" }`.
    pub fn expand_kind(&mut self, key: &str) {
        if let Some(word @ Value::String(_)) = self.given.get(key).cloned() {
            let table = Table::from_iter([("kind".to_string(), word)]);
            self.given.insert(key.into(), Value::Table(table));
        }
    }

    /// Reads a table within this one; an absent table is an empty one.
    pub fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let given = match self.take(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(found) => {
                self.wrong(key, &found, "a table");
                Table::new()
            }
        };
        let path = self.full(key);
        let mut inner = Section::new(&path, given, self.problems);
        let within = |set: &String| set.strip_prefix(&format!("{key}.")).map(str::to_owned);
        let but = |set: &Vec<String>| set.iter().filter_map(within).collect();
        inner.forgiving = match self.forgiving_within.iter().find(|(table, _)| table == key) {
            Some((_, but)) => Some(but.clone()),
            None => self.forgiving.as_ref().map(but),
        };
        let value = read(&mut inner);
        let resolved = inner.finish();
        self.resolve(key, resolved);
        value
    }

    /// Names the keys nobody asked for and returns the resolved table.
    pub fn finish(self) -> Table {
        let Section {
            given,
            resolved,
            asked,
            forgiving,
            problems,
            path,
            ..
        } = self;
        let reported = |key: &&String| {
            let names = |set: &String| set.split('.').next() == Some(key.as_str());
            forgiving.as_ref().is_none_or(|but| but.iter().any(names))
        };
        for key in given.keys().filter(reported) {
            let full = match path.as_str() {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            let hint = match nearest(key, asked.iter().map(String::as_str)) {
                Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                None => format!("unknown key; known here: {}", asked.join(", ")),
            };
            problems.note(full, hint);
        }
        resolved
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Integer(x) => Some(*x as f64),
        _ => None,
    }
}

/// A value as the user wrote it, shortened where it is long.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// The candidate that a mistyped word most likely meant.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.82)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_kept_and_every_default_spelled_out() {
        let given: Table = toml::from_str("rate = -1\nruonds = 3\nkind = 'b'").unwrap();
        let mut problems = Problems::default();
        let mut section = Section::new("training", given, &mut problems);
        assert_eq!(section.float("rate", 0.5, 0.0.., "a number ≥ 0"), 0.5);
        assert_eq!(section.integer("rounds", 7, 1.., "at least 1"), 7);
        assert_eq!(section.choice("kind", "a", &[("a", 1), ("b", 2)]), 2);
        let resolved = section.finish();
        assert_eq!(resolved["rounds"].as_integer(), Some(7));
        assert_eq!(
            problems.to_string(),
            "the spec has 2 problems:\n  training.rate: found -1, allowed is a number ≥ 0\n  \
             training.ruonds: unknown key; did you mean \"rounds\"?"
        );
    }

    #[test]
    fn a_known_key_is_named_once() {
        let given: Table = toml::from_str("strange = 1\nrate = 2").unwrap();
        let mut problems = Problems::default();
        let mut section = Section::new("training", given, &mut problems);
        section.knows(&["rate", "rounds"]);
        section.integer("rate", 1, 1.., "at least 1");
        section.finish();
        let said = problems.to_string();
        assert!(said.ends_with("known here: rate, rounds"), "{said}");
    }
}
