//! Descriptions of settings for templates, the help and the reference page.

use std::fmt;

use toml::Value;

use super::setting::{About, Setting};
use super::values::Values;

/// Represents the declaration of a setting of any type.
pub trait Declaration: Sync {
    /// Returns the declaration as text.
    fn describe(&self) -> Description;

    /// Returns whether the default, if any, is allowed.
    fn allows_its_default(&self) -> bool;
}

impl<V: Values> Declaration for Setting<V> {
    fn describe(&self) -> Description {
        let about = self.about;
        let default = self.values.default();
        let default = default.map(|default| toml_of(&self.values.write(&default)));
        let shown = match about.example {
            "" => default.clone().unwrap_or_default(),
            example => example.into(),
        };
        let mut hint = self.values.hint(!about.example.is_empty());
        if about.seldom && !about.example.is_empty() && !about.usual.is_empty() {
            hint += &format!("; without it {}", about.usual);
        }
        let default = match about.usual {
            "" => default.map(|default| format!("`{default}`")),
            usual => Some(usual.into()),
        };
        Description {
            key: self.key,
            values: self.values.name(),
            allowed: self.values.allowed(),
            default,
            shown,
            hint,
            about,
        }
    }

    fn allows_its_default(&self) -> bool {
        let default = self.values.default();
        default.is_none_or(|default| self.problem(&default).is_none())
    }
}

impl fmt::Debug for dyn Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe().key)
    }
}

/// Formats a value as a person would write it: `1e-4` and not `0.0001`.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Float(x) if *x != 0.0 && x.abs() < 1e-3 => format!("{x:e}"),
        value => value.to_string(),
    }
}

/// Represents the declaration of a setting as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The key in its table.
    pub key: &'static str,
    /// The name of the type.
    pub values: &'static str,
    /// The allowed values.
    pub allowed: String,
    /// The default in Markdown, if any.
    pub default: Option<String>,
    /// The value in a template: the default or an example.
    pub shown: String,
    /// The allowed values as a template appends them to the meaning.
    pub hint: String,
    /// The documentation of the setting.
    pub about: About,
}

impl Description {
    /// Returns its line in a template.
    pub fn line(&self) -> String {
        format!("{} = {}", self.key, self.shown)
    }

    /// Returns whether a template shows it commented out.
    pub fn is_commented(&self) -> bool {
        self.about.seldom || !self.about.with.is_empty()
    }

    /// Returns the comment behind its line: dependencies, meaning and allowed values.
    pub fn comment(&self) -> String {
        let About {
            symbol, help, with, ..
        } = self.about;
        let meaning = match symbol {
            "" => help.into(),
            symbol => format!("{symbol}, {help}"),
        };
        match with {
            "" => meaning + &self.hint,
            with => format!("with {with}: {meaning}{}", self.hint),
        }
    }
}
