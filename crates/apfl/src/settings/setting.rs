//! Declarations of settings: name, type, default, range and meaning.

use toml::Value;

use super::Problem;
use super::range::Range;
use super::values::{Custom, Flag, Inner, Numbers, Text, Texts, Values, Words, texts};

/// Declares one setting of a spec.
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
    /// The key in its table.
    pub key: &'static str,
    /// The allowed values.
    pub values: V,
    /// The documentation.
    pub about: About,
}

/// Represents the documentation of a setting; empty parts are not shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// The meaning, in one line.
    pub help: &'static str,
    /// The symbol in the paper.
    pub symbol: &'static str,
    /// The source: a paper, a theorem or code.
    pub source: &'static str,
    /// The default in words, if it depends on something else.
    pub usual: &'static str,
    /// A value, as TOML, that templates show instead of a default.
    pub example: &'static str,
    /// The error message for a spec without it.
    pub missing: &'static str,
    /// The setting that it depends on, as TOML: without that the key is unknown.
    pub with: &'static str,
    /// Whether templates show it commented out, because few people need it.
    pub seldom: bool,
}

impl<V> Setting<V> {
    const fn new(key: &'static str, values: V) -> Self {
        let about = About {
            help: "",
            symbol: "",
            source: "",
            usual: "",
            example: "",
            missing: "",
            with: "",
            seldom: false,
        };
        Self { key, values, about }
    }

    /// Sets [`About::help`].
    pub const fn help(mut self, help: &'static str) -> Self {
        self.about.help = help;
        self
    }

    /// Sets [`About::symbol`].
    pub const fn symbol(mut self, symbol: &'static str) -> Self {
        self.about.symbol = symbol;
        self
    }

    /// Sets [`About::source`].
    pub const fn source(mut self, source: &'static str) -> Self {
        self.about.source = source;
        self
    }

    /// Sets [`About::usual`].
    pub const fn usually(mut self, usual: &'static str) -> Self {
        self.about.usual = usual;
        self
    }

    /// Sets [`About::example`].
    pub const fn example(mut self, example: &'static str) -> Self {
        self.about.example = example;
        self
    }

    /// Sets [`About::missing`]: refuses a spec without it.
    pub const fn required(mut self, missing: &'static str) -> Self {
        self.about.missing = missing;
        self
    }

    /// Sets [`About::with`].
    pub const fn with(mut self, other: &'static str) -> Self {
        self.about.with = other;
        self
    }

    /// Sets [`About::seldom`].
    pub const fn seldom(mut self) -> Self {
        self.about.seldom = true;
        self
    }
}

impl<T: Copy> Setting<Numbers<T>> {
    /// Declares a number.
    pub const fn number(key: &'static str, default: T, range: Range<T>) -> Self {
        let default = Some(default);
        Self::new(key, Numbers { default, range })
    }

    /// Declares a number without a default.
    pub const fn optional(key: &'static str, range: Range<T>) -> Self {
        let default = None;
        Self::new(key, Numbers { default, range })
    }

    /// Returns the setting with another upper bound.
    pub const fn up_to(mut self, most: T) -> Self {
        self.values.range = self.values.range.to(most);
        self
    }
}

impl<T> Setting<Words<T>> {
    /// Declares one of several words, each with its value and meaning.
    pub const fn words(
        key: &'static str,
        default: &'static str,
        words: &'static [(&'static str, T, &'static str)],
    ) -> Self {
        Self::new(key, Words { default, words })
    }
}

impl<T> Setting<Custom<T>> {
    /// Declares values with their own reader and writer.
    pub const fn custom(key: &'static str, values: Custom<T>) -> Self {
        Self::new(key, values)
    }

    const fn simple(
        key: &'static str,
        [name, allowed]: [&'static str; 2],
        default: fn() -> Option<T>,
        parse: fn(&Value) -> Option<T>,
        write: fn(&T) -> Value,
    ) -> Self {
        let values = Custom {
            name,
            allowed,
            default,
            parse,
            write,
        };
        Self::new(key, values)
    }
}

impl Setting<Flag> {
    /// Declares true or false.
    pub const fn flag(key: &'static str, default: bool) -> Self {
        let default: fn() -> Option<bool> = if default {
            || Some(true)
        } else {
            || Some(false)
        };
        let words = ["true or false"; 2];
        Self::simple(key, words, default, Value::as_bool, |flag| (*flag).into())
    }
}

impl Setting<Text> {
    /// Declares a text.
    pub const fn text(key: &'static str, default: fn() -> Option<String>) -> Self {
        let parse = |found: &Value| found.as_str().map(str::to_owned);
        let words = ["text", "a text"];
        Self::simple(key, words, default, parse, |text| text.clone().into())
    }
}

impl Setting<Texts> {
    /// Declares a list of texts.
    pub const fn texts(key: &'static str, default: fn() -> Option<Vec<String>>) -> Self {
        let words = ["list of texts", "a list of texts"];
        Self::simple(key, words, default, texts, |texts| texts.clone().into())
    }
}

impl Setting<Inner> {
    /// Declares a table, whose settings have their own declarations.
    pub const fn table(key: &'static str, allowed: &'static str) -> Self {
        let parse = |found: &Value| found.as_table().cloned();
        let words = ["table", allowed];
        Self::simple(key, words, || None, parse, |table| table.clone().into())
    }
}

impl<V: Values> Setting<V> {
    /// Returns the problem of a value; `None` if it is allowed.
    pub fn problem(&self, value: &V::Value) -> Option<Problem> {
        let written = self.values.write(value);
        self.values.parse(&written).is_none().then(|| Problem {
            key: self.key.into(),
            message: self.refusal(&written),
        })
    }

    /// Returns the message for a value that is not allowed.
    pub fn refusal(&self, found: &Value) -> String {
        let allowed = self.values.allowed_for(found);
        format!("found {}, allowed is {allowed}", super::shown(found))
    }
}
