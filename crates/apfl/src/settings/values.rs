//! The values that a setting may have: how they are read, checked and written.

use toml::Value;

use super::nearest;
use super::range::Range;

/// The values that a setting may have.
pub trait Values: Sync {
    /// A value as the program has it.
    type Value;

    /// Returns the value of a spec that does not say, where there is one.
    fn default(&self) -> Option<Self::Value>;

    /// Reads a value; `None` where it is not allowed.
    fn parse(&self, found: &Value) -> Option<Self::Value>;

    /// Returns the value as a resolved spec has it.
    fn write(&self, value: &Self::Value) -> Value;

    /// Returns what is allowed, in words.
    fn allowed(&self) -> String;

    /// Returns what is allowed, to someone who wrote `found`.
    fn instead_of(&self, _found: &Value) -> String {
        self.allowed()
    }

    /// Returns the name of their type.
    fn name(&self) -> &'static str;

    /// Returns what is allowed as a line of a template says it behind the meaning; nothing where
    /// the value that it shows, which may be an `example`, says enough.
    fn hint(&self, example: bool) -> String;
}

/// Returns a float, or a whole number as one.
pub fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|x| x as f64))
}

/// Numbers in a range.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub(super) default: Option<f64>,
    pub(super) range: Range<f64>,
}

impl Values for Number {
    type Value = f64;
    fn default(&self) -> Option<f64> {
        self.default
    }
    fn parse(&self, found: &Value) -> Option<f64> {
        as_number(found).filter(|x| x.is_finite() && self.range.contains(x))
    }
    fn write(&self, value: &f64) -> Value {
        (*value).into()
    }
    fn allowed(&self) -> String {
        self.range.to_string()
    }
    fn name(&self) -> &'static str {
        "number"
    }
    fn hint(&self, _: bool) -> String {
        format!("; {}", self.range)
    }
}

/// Whole numbers in a range.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    pub(super) default: Option<u64>,
    pub(super) range: Range<u64>,
}

impl Values for Whole {
    type Value = u64;
    fn default(&self) -> Option<u64> {
        self.default
    }
    fn parse(&self, found: &Value) -> Option<u64> {
        let number = u64::try_from(found.as_integer()?).ok();
        number.filter(|x| self.range.contains(x))
    }
    /// Numbers that are too large for TOML become floats, which are not allowed.
    fn write(&self, value: &u64) -> Value {
        i64::try_from(*value).map_or(Value::Float(*value as f64), Value::Integer)
    }
    fn allowed(&self) -> String {
        self.range.to_string()
    }
    fn instead_of(&self, found: &Value) -> String {
        if found.is_integer() {
            self.allowed()
        } else {
            format!("a whole number, {}", self.allowed())
        }
    }
    fn name(&self) -> &'static str {
        "whole number"
    }
    fn hint(&self, _: bool) -> String {
        match self.range.to_string() {
            words if words.starts_with("at least") => String::new(),
            words => format!("; {words}"),
        }
    }
}

/// True and false.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub(super) default: bool,
}

impl Values for Flag {
    type Value = bool;
    fn default(&self) -> Option<bool> {
        Some(self.default)
    }
    fn parse(&self, found: &Value) -> Option<bool> {
        found.as_bool()
    }
    fn write(&self, value: &bool) -> Value {
        (*value).into()
    }
    fn allowed(&self) -> String {
        "true or false".into()
    }
    fn name(&self) -> &'static str {
        "true or false"
    }
    fn hint(&self, _: bool) -> String {
        String::new()
    }
}

/// One of several words, each with what it stands for and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Words<T: 'static> {
    pub(super) default: &'static str,
    pub(super) words: &'static [(&'static str, T, &'static str)],
}

impl<T> Words<T> {
    fn find(&self, word: &str) -> Option<&T> {
        let of_word = self.words.iter().find(|(name, ..)| *name == word);
        of_word.map(|(_, value, _)| value)
    }
}

impl<T: Clone + PartialEq + Sync> Values for Words<T> {
    type Value = T;
    fn default(&self) -> Option<T> {
        self.find(self.default).cloned()
    }
    fn parse(&self, found: &Value) -> Option<T> {
        self.find(found.as_str()?).cloned()
    }
    fn write(&self, value: &T) -> Value {
        let named = self.words.iter().find(|(_, of_word, _)| of_word == value);
        named.expect("every value has a word").0.into()
    }
    fn allowed(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|(word, ..)| *word).collect();
        format!("one of {}", words.join(" · "))
    }
    fn instead_of(&self, found: &Value) -> String {
        let words = self.words.iter().map(|(word, ..)| *word);
        let near = found.as_str().and_then(|word| nearest(word, words));
        let near = near.map(|near| format!(" (did you mean \"{near}\"?)"));
        self.allowed() + &near.unwrap_or_default()
    }
    fn name(&self) -> &'static str {
        "word"
    }
    fn hint(&self, _: bool) -> String {
        let word = |(word, _, meaning): &(&str, T, &str)| match *meaning {
            "" => word.to_string(),
            meaning => format!("{word} ({meaning})"),
        };
        let words: Vec<String> = self.words.iter().map(word).collect();
        format!(": {}", words.join(" · "))
    }
}

/// Any text.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    pub(super) default: Option<&'static str>,
}

impl Values for Text {
    type Value = String;
    fn default(&self) -> Option<String> {
        self.default.map(str::to_owned)
    }
    fn parse(&self, found: &Value) -> Option<String> {
        found.as_str().map(str::to_owned)
    }
    fn write(&self, value: &String) -> Value {
        value.clone().into()
    }
    fn allowed(&self) -> String {
        "a text".into()
    }
    fn name(&self) -> &'static str {
        "text"
    }
    fn hint(&self, _: bool) -> String {
        String::new()
    }
}

/// Any list of texts.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    pub(super) default: &'static [&'static str],
}

impl Values for Texts {
    type Value = Vec<String>;
    fn default(&self) -> Option<Vec<String>> {
        Some(self.default.iter().map(|text| (*text).into()).collect())
    }
    fn parse(&self, found: &Value) -> Option<Vec<String>> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        found.as_array()?.iter().map(text).collect()
    }
    fn write(&self, value: &Vec<String>) -> Value {
        value.clone().into()
    }
    fn allowed(&self) -> String {
        "a list of texts".into()
    }
    fn name(&self) -> &'static str {
        "list of texts"
    }
    fn hint(&self, _: bool) -> String {
        String::new()
    }
}

/// Values of a shape of their own.
#[derive(Clone, Copy, Debug)]
pub struct Custom<T> {
    /// The name of their type.
    pub name: &'static str,
    /// The value of a spec that does not say, as TOML; empty where there is none.
    pub default: &'static str,
    /// What is allowed, in words.
    pub allowed: &'static str,
    /// Reads a value; `None` where it is not allowed.
    pub parse: fn(&Value) -> Option<T>,
    /// Writes a value as a resolved spec has it.
    pub write: fn(&T) -> Value,
}

impl<T> Values for Custom<T> {
    type Value = T;
    fn default(&self) -> Option<T> {
        let written = format!("default = {}", self.default);
        let table: toml::Table = written.parse().ok()?;
        (self.parse)(&table["default"])
    }
    fn parse(&self, found: &Value) -> Option<T> {
        (self.parse)(found)
    }
    fn write(&self, value: &T) -> Value {
        (self.write)(value)
    }
    fn allowed(&self) -> String {
        self.allowed.into()
    }
    fn name(&self) -> &'static str {
        self.name
    }
    fn hint(&self, example: bool) -> String {
        if example {
            String::new()
        } else {
            format!("; {}", self.allowed)
        }
    }
}

/// A table with settings of its own, which are declared one by one.
#[derive(Clone, Copy, Debug)]
pub struct Inner {
    pub(super) allowed: &'static str,
}

impl Values for Inner {
    type Value = toml::Table;
    fn default(&self) -> Option<toml::Table> {
        None
    }
    fn parse(&self, found: &Value) -> Option<toml::Table> {
        found.as_table().cloned()
    }
    fn write(&self, value: &toml::Table) -> Value {
        value.clone().into()
    }
    fn allowed(&self) -> String {
        self.allowed.into()
    }
    fn name(&self) -> &'static str {
        "table"
    }
    fn hint(&self, _: bool) -> String {
        String::new()
    }
}
