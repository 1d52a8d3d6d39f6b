//! One declaration per setting: name, type, default, range and meaning.

use std::fmt;

use super::Problem;
use super::range::Range;
use super::values::{Custom, Flag, Inner, Number, Text, Texts, Values, Whole, Words};

/// One setting of a spec, declared once.
///
/// ```
/// use apfl::settings::{Declaration, Number, Setting, at_least};
///
/// const PROXIMAL: Setting<Number> = Setting::number("proximal", 0.01, at_least(0.0).to(1e6))
///     .symbol("μ")
///     .help("the pull to the model that was received");
///
/// let described = PROXIMAL.describe();
/// assert_eq!(described.line(), "proximal = 0.01");
/// assert_eq!(described.comment(), "μ, the pull to the model that was received; 0 to 1e6");
/// assert_eq!(PROXIMAL.problem(&7.0), None);
/// let problem = PROXIMAL.problem(&f64::NAN).expect("it is no number");
/// assert_eq!(problem.message, "found nan, allowed is 0 to 1e6");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Setting<V> {
    /// Its key in its table.
    pub key: &'static str,
    /// The values that it may have.
    pub values: V,
    help: &'static str,
    symbol: &'static str,
    source: &'static str,
    usual: &'static str,
    example: &'static str,
    pub(super) missing: &'static str,
    with: &'static str,
    seldom: bool,
}

impl<V> Setting<V> {
    const fn new(key: &'static str, values: V) -> Self {
        Self {
            key,
            values,
            help: "",
            symbol: "",
            source: "",
            usual: "",
            example: "",
            missing: "",
            with: "",
            seldom: false,
        }
    }

    /// Says what it means, in one line.
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Gives its symbol in the paper.
    pub const fn symbol(mut self, symbol: &'static str) -> Self {
        self.symbol = symbol;
        self
    }

    /// Says where it comes from: a paper, a theorem, somebody's code.
    pub const fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// Says what it is where a spec does not say, if that depends on something else.
    pub const fn usually(mut self, usual: &'static str) -> Self {
        self.usual = usual;
        self
    }

    /// Gives a value, as TOML, for a template to show in place of a default.
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// Refuses a spec without it, with that message.
    pub const fn required(mut self, missing: &'static str) -> Self {
        self.missing = missing;
        self
    }

    /// Says what must stand beside it, as TOML: without that it is no key of the table.
    pub const fn with(mut self, other: &'static str) -> Self {
        self.with = other;
        self
    }

    /// Shows it commented out in templates, for most people do not need it.
    pub const fn seldom(mut self) -> Self {
        self.seldom = true;
        self
    }
}

impl Setting<Number> {
    /// Declares a number.
    pub const fn number(key: &'static str, default: f64, range: Range<f64>) -> Self {
        let default = Some(default);
        Self::new(key, Number { default, range })
    }

    /// Declares a number that has no default.
    pub const fn optional_number(key: &'static str, range: Range<f64>) -> Self {
        let default = None;
        Self::new(key, Number { default, range })
    }
}

impl Setting<Whole> {
    /// Declares a whole number.
    pub const fn whole(key: &'static str, default: u64, range: Range<u64>) -> Self {
        let default = Some(default);
        Self::new(key, Whole { default, range })
    }

    /// Declares a whole number that has no default.
    pub const fn optional_whole(key: &'static str, range: Range<u64>) -> Self {
        let default = None;
        Self::new(key, Whole { default, range })
    }

    /// Returns the same with a largest number that was found out.
    pub const fn up_to(mut self, most: u64) -> Self {
        self.values.range = self.values.range.to(most);
        self
    }
}

impl Setting<Flag> {
    /// Declares true or false.
    pub const fn flag(key: &'static str, default: bool) -> Self {
        Self::new(key, Flag { default })
    }
}

impl<T> Setting<Words<T>> {
    /// Declares one of several words, each with what it stands for and what it means.
    pub const fn words(
        key: &'static str,
        default: &'static str,
        words: &'static [(&'static str, T, &'static str)],
    ) -> Self {
        Self::new(key, Words { default, words })
    }
}

impl Setting<Text> {
    /// Declares a text.
    pub const fn text(key: &'static str, default: &'static str) -> Self {
        let default = Some(default);
        Self::new(key, Text { default })
    }

    /// Declares a text that has no default.
    pub const fn optional_text(key: &'static str) -> Self {
        Self::new(key, Text { default: None })
    }
}

impl Setting<Texts> {
    /// Declares a list of texts.
    pub const fn texts(key: &'static str, default: &'static [&'static str]) -> Self {
        Self::new(key, Texts { default })
    }
}

impl<T> Setting<Custom<T>> {
    /// Declares values of a shape of their own.
    pub const fn custom(key: &'static str, values: Custom<T>) -> Self {
        Self::new(key, values)
    }
}

impl Setting<Inner> {
    /// Declares a table, whose settings are declared by themselves.
    pub const fn table(key: &'static str, allowed: &'static str) -> Self {
        Self::new(key, Inner { allowed })
    }
}

impl<V: Values> Setting<V> {
    /// Returns what is wrong with a value; `None` where it is allowed.
    pub fn problem(&self, value: &V::Value) -> Option<Problem> {
        let written = self.values.write(value);
        self.values.parse(&written).is_none().then(|| Problem {
            key: self.key.into(),
            message: self.refusal(&written),
        })
    }

    /// Returns why a value that was found is refused.
    pub fn refusal(&self, found: &toml::Value) -> String {
        let allowed = self.values.instead_of(found);
        format!("found {}, allowed is {allowed}", super::shown(found))
    }
}

/// A setting of any type.
pub trait Declaration: Sync {
    /// Returns all that is declared, as text.
    fn describe(&self) -> Description;

    /// Whether the default, where there is one, is a value that is allowed.
    fn allows_its_default(&self) -> bool;
}

impl<V: Values> Declaration for Setting<V> {
    fn describe(&self) -> Description {
        let default = self.values.default();
        let default = default.map(|default| toml_of(&self.values.write(&default)));
        let shown = match self.example {
            "" => default.clone().unwrap_or_default(),
            example => example.into(),
        };
        let default = match (self.usual, default) {
            ("", Some(default)) => Some(format!("`{default}`")),
            ("", None) => None,
            (usual, _) => Some(usual.into()),
        };
        let hint = match (self.seldom, self.example, self.usual) {
            (true, example, usual) if !example.is_empty() && !usual.is_empty() => {
                format!("{}; without it {usual}", self.values.hint(true))
            }
            (_, example, _) => self.values.hint(!example.is_empty()),
        };
        Description {
            key: self.key,
            values: self.values.name(),
            default,
            required: !self.missing.is_empty(),
            shown,
            allowed: self.values.allowed(),
            hint,
            help: self.help,
            symbol: self.symbol,
            source: self.source,
            with: self.with,
            seldom: self.seldom,
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
fn toml_of(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(x) if *x != 0.0 && x.abs() < 1e-3 => format!("{x:e}"),
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
    /// What it is where a spec does not say, in Markdown; `None`: nothing.
    pub default: Option<String>,
    /// Whether a spec must say it.
    pub required: bool,
    /// A value for a template to show: the default, or an example.
    pub shown: String,
    /// What is allowed.
    pub allowed: String,
    /// The same as a line of a template says it behind the meaning.
    pub hint: String,
    /// What it means.
    pub help: &'static str,
    /// Its symbol in the paper; empty where it has none.
    pub symbol: &'static str,
    /// Where it comes from; empty where nothing is said.
    pub source: &'static str,
    /// What must stand beside it, as TOML; empty where nothing must.
    pub with: &'static str,
    /// Whether templates show it commented out.
    pub seldom: bool,
}

impl Description {
    /// Returns its line in a template.
    pub fn line(&self) -> String {
        format!("{} = {}", self.key, self.shown)
    }

    /// Returns what it means and what is allowed, for a comment behind that line.
    pub fn comment(&self) -> String {
        self.meaning() + &self.hint
    }

    /// Returns its symbol, what it means, and what it goes with.
    pub fn meaning(&self) -> String {
        let parts = [self.symbol, self.help].into_iter();
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        match self.with {
            "" => parts.join(", "),
            with => format!("with {with}: {}", parts.join(", ")),
        }
    }
}
