//! A setting as text: for templates, the help and the reference page.

use std::fmt;

use toml::Value;

use super::setting::{About, Setting};
use super::values::Values;

/// A setting of any type.
pub trait Declaration: Sync {
    /// Returns all that is declared, as text.
    fn describe(&self) -> Description;

    /// Whether the default, where there is one, is a value that is allowed.
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

/// A value as a person would write it: `1e-4` and not `0.0001`.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Float(x) if *x != 0.0 && x.abs() < 1e-3 => format!("{x:e}"),
        value => value.to_string(),
    }
}

/// All that is declared of a setting, as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its key in its table.
    pub key: &'static str,
    /// The name of its type.
    pub values: &'static str,
    /// What is allowed.
    pub allowed: String,
    /// What it is where a spec does not say, in Markdown; `None`: nothing.
    pub default: Option<String>,
    /// A value for a template to show: the default, or an example.
    pub shown: String,
    /// What is allowed as a line of a template says it behind the meaning.
    pub hint: String,
    /// What is said of it.
    pub about: About,
}

impl Description {
    /// Returns its line in a template.
    pub fn line(&self) -> String {
        format!("{} = {}", self.key, self.shown)
    }

    /// Whether a template shows it commented out.
    pub fn is_commented(&self) -> bool {
        self.about.seldom || !self.about.with.is_empty()
    }

    /// Returns what it goes with, what it means and what is allowed, for a comment behind its
    /// line.
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
