//! The values that a setting may have: how they are read, checked and written.

use std::fmt::Debug;

use toml::Value;

use super::nearest;
use super::range::{Range, Worded};

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

    /// Returns the name of their type.
    fn name(&self) -> &'static str;

    /// Returns what is allowed, in words.
    fn allowed(&self) -> String;

    /// Returns what is allowed, to someone who wrote `found`.
    fn instead_of(&self, found: &Value) -> String;

    /// Returns what is allowed as a line of a template says it behind the meaning; nothing where
    /// the value that it shows, which may be an `example`, says enough.
    fn hint(&self, example: bool) -> String;
}

/// Returns a float, or a whole number as one.
pub fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|x| x as f64))
}

/// A type of numbers.
pub trait Numeric: Worded + PartialOrd + Debug + Sync {
    /// The name of the type.
    const NAME: &'static str;
    /// What is said before the range, to someone who wrote no such number.
    const INSTEAD: &'static str;
    /// Whether a value is of the type, however large.
    fn is_type_of(found: &Value) -> bool;
    /// Reads a number.
    fn read(found: &Value) -> Option<Self>;
    /// Writes a number; one that is too large for TOML as a number that is not allowed.
    fn write(self) -> Value;
}

impl Numeric for f64 {
    const NAME: &'static str = "number";
    const INSTEAD: &'static str = "a number, ";
    fn is_type_of(found: &Value) -> bool {
        as_number(found).is_some()
    }
    fn read(found: &Value) -> Option<Self> {
        as_number(found).filter(|x| x.is_finite())
    }
    fn write(self) -> Value {
        self.into()
    }
}

impl Numeric for u64 {
    const NAME: &'static str = "whole number";
    const INSTEAD: &'static str = "a whole number, ";
    fn is_type_of(found: &Value) -> bool {
        found.is_integer()
    }
    fn read(found: &Value) -> Option<Self> {
        found.as_integer()?.try_into().ok()
    }
    fn write(self) -> Value {
        i64::try_from(self).map_or(Value::Float(self as f64), Value::Integer)
    }
}

/// Numbers in a range.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<T> {
    pub(super) default: Option<T>,
    pub(super) range: Range<T>,
}

/// Numbers in a range.
pub type Number = Numbers<f64>;
/// Whole numbers in a range.
pub type Whole = Numbers<u64>;

impl<T: Numeric> Values for Numbers<T> {
    type Value = T;
    fn default(&self) -> Option<T> {
        self.default
    }
    fn parse(&self, found: &Value) -> Option<T> {
        T::read(found).filter(|x| self.range.contains(x))
    }
    fn write(&self, value: &T) -> Value {
        value.write()
    }
    fn name(&self) -> &'static str {
        T::NAME
    }
    fn allowed(&self) -> String {
        self.range.to_string()
    }
    fn instead_of(&self, found: &Value) -> String {
        let misfit = !T::is_type_of(found);
        format!("{}{}", if misfit { T::INSTEAD } else { "" }, self.range)
    }
    fn hint(&self, _: bool) -> String {
        match self.range.to_string() {
            words if words.starts_with("at least") => String::new(),
            words => format!("; {words}"),
        }
    }
}

/// Says that one of several words is allowed, and which of them `found` may have meant.
pub(super) fn one_of<'w>(words: impl Iterator<Item = &'w str> + Clone, found: &Value) -> String {
    let near = found.as_str().and_then(|word| nearest(word, words.clone()));
    let near = near.map(|near| format!(" (did you mean \"{near}\"?)"));
    let words: Vec<&str> = words.collect();
    format!("one of {}{}", words.join(" · "), near.unwrap_or_default())
}

/// One of several words, each with what it stands for and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Words<T: 'static> {
    pub(super) default: &'static str,
    pub(super) words: &'static [(&'static str, T, &'static str)],
}

impl<T: Clone + PartialEq + Sync> Values for Words<T> {
    type Value = T;
    fn default(&self) -> Option<T> {
        self.parse(&self.default.into())
    }
    fn parse(&self, found: &Value) -> Option<T> {
        let word = found.as_str()?;
        let of_word = self.words.iter().find(|(name, ..)| *name == word);
        of_word.map(|(_, value, _)| value.clone())
    }
    fn write(&self, value: &T) -> Value {
        let named = self.words.iter().find(|(_, of_word, _)| of_word == value);
        named.expect("every value has a word").0.into()
    }
    fn name(&self) -> &'static str {
        "word"
    }
    fn allowed(&self) -> String {
        self.instead_of(&false.into())
    }
    fn instead_of(&self, found: &Value) -> String {
        one_of(self.words.iter().map(|(word, ..)| *word), found)
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

/// Values of a shape of their own.
#[derive(Clone, Copy, Debug)]
pub struct Custom<T> {
    /// The name of their type.
    pub name: &'static str,
    /// What is allowed, in words.
    pub allowed: &'static str,
    /// Returns the value of a spec that does not say, where there is one.
    pub default: fn() -> Option<T>,
    /// Reads a value; `None` where it is not allowed.
    pub parse: fn(&Value) -> Option<T>,
    /// Writes a value as a resolved spec has it.
    pub write: fn(&T) -> Value,
}

/// True and false.
pub type Flag = Custom<bool>;
/// Any text.
pub type Text = Custom<String>;
/// Any list of texts.
pub type Texts = Custom<Vec<String>>;
/// A table, whose settings are declared one by one.
pub type Inner = Custom<toml::Table>;

impl<T> Values for Custom<T> {
    type Value = T;
    fn default(&self) -> Option<T> {
        (self.default)()
    }
    fn parse(&self, found: &Value) -> Option<T> {
        (self.parse)(found)
    }
    fn write(&self, value: &T) -> Value {
        (self.write)(value)
    }
    fn name(&self) -> &'static str {
        self.name
    }
    fn allowed(&self) -> String {
        self.allowed.into()
    }
    fn instead_of(&self, _: &Value) -> String {
        self.allowed.into()
    }
    fn hint(&self, example: bool) -> String {
        if example || self.allowed.ends_with(self.name) {
            String::new()
        } else {
            format!("; {}", self.allowed)
        }
    }
}

/// Reads a list of texts.
pub(super) fn texts(found: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    found.as_array()?.iter().map(text).collect()
}
