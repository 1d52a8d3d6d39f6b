//! The types of settings: how their values are read, checked and written.

use std::fmt::Debug;

use toml::Value;

use super::nearest;
use super::range::{Range, RangeNumber};

/// Represents the values that a setting may have.
pub trait Values: Sync {
    /// The type of the value in the program.
    type Value;

    /// Returns the default, if any.
    fn default(&self) -> Option<Self::Value>;

    /// Reads a value; `None` if it is not allowed.
    fn parse(&self, found: &Value) -> Option<Self::Value>;

    /// Returns the value as in a resolved spec.
    fn write(&self, value: &Self::Value) -> Value;

    /// Returns the name of the type.
    fn name(&self) -> &'static str;

    /// Describes the allowed values.
    fn allowed(&self) -> String;

    /// Describes the allowed values for an error about `found`.
    fn allowed_for(&self, found: &Value) -> String;

    /// Describes the allowed values for a template, behind the meaning; empty if the shown value,
    /// which may be an `example`, suffices.
    fn hint(&self, example: bool) -> String;
}

/// Returns a float or integer as a float.
pub fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|x| x as f64))
}

/// Represents a type of numbers.
pub trait Numeric: RangeNumber + PartialOrd + Debug + Sync {
    /// The name of the type.
    const NAME: &'static str;
    /// The text before the range in an error about another type.
    const INSTEAD: &'static str;
    /// Returns whether a value is of the type, whatever its size.
    fn is_type_of(found: &Value) -> bool;
    /// Reads a number.
    fn read(found: &Value) -> Option<Self>;
    /// Writes a number; one that is too large for TOML becomes a float, which is not allowed.
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

/// Represents numbers in a range.
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
    fn allowed_for(&self, found: &Value) -> String {
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

/// Lists the allowed words and suggests the one most similar to `found`.
pub(super) fn one_of<'w>(words: impl Iterator<Item = &'w str> + Clone, found: &Value) -> String {
    let near = found.as_str().and_then(|word| nearest(word, words.clone()));
    let near = near.map(|near| format!(" (did you mean \"{near}\"?)"));
    let words: Vec<&str> = words.collect();
    format!("one of {}{}", words.join(" · "), near.unwrap_or_default())
}

/// Represents one of several words, each with its value and meaning.
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
        self.allowed_for(&false.into())
    }
    fn allowed_for(&self, found: &Value) -> String {
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

/// Represents values with their own reader and writer.
#[derive(Clone, Copy, Debug)]
pub struct Custom<T> {
    /// The name of the type.
    pub name: &'static str,
    /// The allowed values.
    pub allowed: &'static str,
    /// Returns the default, if any.
    pub default: fn() -> Option<T>,
    /// Reads a value; `None` if it is not allowed.
    pub parse: fn(&Value) -> Option<T>,
    /// Writes a value as in a resolved spec.
    pub write: fn(&T) -> Value,
}

/// True and false.
pub type Flag = Custom<bool>;
/// Any text.
pub type Text = Custom<String>;
/// Any list of texts.
pub type Texts = Custom<Vec<String>>;
/// A table whose settings have their own declarations.
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
    fn allowed_for(&self, _: &Value) -> String {
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
