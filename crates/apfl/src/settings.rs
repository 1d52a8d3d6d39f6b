//! Settings of a spec: their declarations, and reading and writing of tables by them.
//!
//! A [`Setting`] declares a key once: name, type, default, range and meaning. A [`Section`] reads a
//! table by such declarations or, in the other direction, checks typed values and writes their
//! table. The template of `apfl init`, its help and the reference page show the same declarations.

use std::fmt;

use toml::Value;

mod description;
mod kind;
mod range;
mod section;
mod setting;
mod values;

pub use description::{Declaration, Description};
pub use kind::Kind;
pub(crate) use kind::registry;
pub use range::{Range, above_zero, at_least};
pub use section::{Section, SettingField, Settings};
pub use setting::{About, Setting};
pub use values::{
    Custom, Flag, Inner, Number, Numbers, Text, Texts, Values, Whole, Words, as_number,
};

/// Represents a problem of a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The full path of the key, such as `training.rounds`.
    pub key: String,
    /// The value found and what is allowed.
    pub message: String,
}

/// Represents all problems of a spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds a problem.
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

/// Returns a value as the user wrote it, shortened if it is long.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// Returns the candidate most similar to a mistyped word, if one is similar.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.82)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
