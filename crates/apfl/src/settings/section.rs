//! Reading one table of a spec, or writing the table that typed values have.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::setting::Setting;
use super::values::Values;
use super::{Problems, nearest, shown};

/// One table of a spec while it is being read, or written for typed values.
///
/// Every key is asked for once, by its declaration. Every problem is noted instead of stopping
/// at the first, every value that was handed out is remembered (that is the resolved spec), and
/// at the end keys that nobody asked for are named.
///
/// In the other direction ([`Section::written`]) nothing is read: the values that fields have
/// are checked by the same declarations and written into the resolved table.
#[derive(Debug)]
pub struct Section<'a> {
    path: String,
    /// What was written; `None` in the other direction.
    given: Option<Table>,
    resolved: Table,
    asked: Vec<String>,
    /// Tables that drop unknown keys, by path, with the keys that are not dropped.
    dropping: BTreeMap<String, Vec<String>>,
    /// The same of this table.
    dropped_but: Option<Vec<String>>,
    problems: &'a mut Problems,
}

/// Something whose settings stand in one table of a spec.
pub trait Settings {
    /// Binds every field to its declaration: reads it, or checks and writes it.
    fn settings(&mut self, s: &mut Section<'_>);
}

/// A field that a value of a setting is kept in.
pub trait Field<T> {
    /// Returns what a spec would say.
    fn to_setting(&self) -> T;
    /// Takes what a spec says.
    fn set(&mut self, value: T);
}

impl<T: Clone> Field<T> for T {
    fn to_setting(&self) -> T {
        self.clone()
    }
    fn set(&mut self, value: T) {
        *self = value;
    }
}

impl Field<f64> for f32 {
    /// Returns the shortest decimal, so that 0.1 is written as 0.1.
    fn to_setting(&self) -> f64 {
        self.to_string().parse().expect("a number's own digits")
    }
    fn set(&mut self, value: f64) {
        *self = value as f32;
    }
}

impl Field<u64> for usize {
    fn to_setting(&self) -> u64 {
        *self as u64
    }
    fn set(&mut self, value: u64) {
        *self = value as usize;
    }
}

impl<'a> Section<'a> {
    /// Starts reading the table `given`, which stands at `path` (empty at the root).
    pub fn new(path: &str, given: Table, problems: &'a mut Problems) -> Self {
        Self {
            path: path.into(),
            given: Some(given),
            resolved: Table::new(),
            asked: Vec::new(),
            dropping: BTreeMap::new(),
            dropped_but: None,
            problems,
        }
    }

    /// Starts the other direction: fields are checked and written, not read.
    pub fn written(problems: &'a mut Problems) -> Self {
        Self {
            given: None,
            ..Self::new("", Table::new(), problems)
        }
    }

    /// Drops unknown keys of those tables, and of those within them, instead of calling them
    /// problems, but for the keys named beside each, or with a named key inside (`mixing.fixed`
    /// names `mixing`): for tables whose kind was changed by an override.
    pub fn dropping(mut self, tables: BTreeMap<String, Vec<String>>) -> Self {
        self.dropping = tables;
        self
    }

    /// Whether it reads; else it writes.
    pub fn reads(&self) -> bool {
        self.given.is_some()
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

    /// Returns the problems so far, for more to be noted by their whole paths.
    pub fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Remembers keys that this table may have, each once, even where they are not asked for,
    /// so that errors about a mistyped key can suggest them.
    pub fn knows(&mut self, keys: &[&str]) {
        for key in keys {
            if !self.asked.iter().any(|known| known == key) {
                self.asked.push((*key).into());
            }
        }
    }

    fn look(&self, key: &str) -> Option<&Value> {
        self.given.as_ref()?.get(key)
    }

    /// Whether the key was written.
    pub fn has(&self, key: &str) -> bool {
        self.look(key).is_some()
    }

    /// Whether the key was written as a table that has that key.
    pub fn holds(&self, key: &str, inner: &str) -> bool {
        let table = self.look(key).and_then(Value::as_table);
        table.is_some_and(|table| table.contains_key(inner))
    }

    /// Whether the key was written as a text.
    pub fn is_text(&self, key: &str) -> bool {
        self.look(key).is_some_and(Value::is_str)
    }

    /// Takes a raw value; the caller resolves it with [`Section::resolve`].
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.knows(&[key]);
        self.given.as_mut()?.remove(key)
    }

    /// Writes a value into the resolved table.
    pub fn resolve(&mut self, key: &str, value: impl Into<Value>) {
        self.resolved.insert(key.into(), value.into());
    }

    /// Leaves a key out of the resolved table: one that is not used.
    pub fn forget(&mut self, key: &str) {
        self.resolved.remove(key);
    }

    /// Returns the value of a setting where it was written and is allowed.
    pub fn optional<V: Values>(&mut self, setting: &Setting<V>) -> Option<V::Value> {
        let found = self.take(setting.key)?;
        match setting.values.parse(&found) {
            Some(value) => {
                self.resolve(setting.key, setting.values.write(&value));
                Some(value)
            }
            None => {
                self.problem(setting.key, setting.refusal(&found));
                None
            }
        }
    }

    /// Returns the value of a setting, or `default`.
    pub fn get_or<V: Values>(&mut self, setting: &Setting<V>, default: V::Value) -> V::Value {
        let missing = setting.about.missing;
        if !missing.is_empty() && !self.has(setting.key) {
            self.problem(setting.key, missing);
        }
        let value = self.optional(setting).unwrap_or(default);
        self.resolve(setting.key, setting.values.write(&value));
        value
    }

    /// Returns the value of a setting, or its own default.
    pub fn get<V: Values>(&mut self, setting: &Setting<V>) -> V::Value {
        let default = setting.values.default();
        self.get_or(setting, default.expect("the setting has a default"))
    }

    /// Binds a field to a setting with another default than its own.
    pub fn field_or<V: Values>(
        &mut self,
        setting: &Setting<V>,
        default: V::Value,
        field: &mut impl Field<V::Value>,
    ) {
        if self.reads() {
            field.set(self.get_or(setting, default));
        } else {
            self.write(setting, &field.to_setting());
        }
    }

    /// Binds a field to a setting.
    pub fn field<V: Values>(&mut self, setting: &Setting<V>, field: &mut impl Field<V::Value>) {
        if self.reads() {
            field.set(self.get(setting));
        } else {
            self.write(setting, &field.to_setting());
        }
    }

    /// Binds a field that may be absent to a setting.
    pub fn optional_field<V: Values, F: Field<V::Value> + Default>(
        &mut self,
        setting: &Setting<V>,
        field: &mut Option<F>,
    ) {
        if self.reads() {
            *field = self.optional(setting).map(|value| {
                let mut there = F::default();
                there.set(value);
                there
            });
        } else if let Some(there) = field {
            self.write(setting, &there.to_setting());
        }
    }

    fn write<V: Values>(&mut self, setting: &Setting<V>, value: &V::Value) {
        if let Some(problem) = setting.problem(value) {
            self.problem(setting.key, problem.message);
        }
        self.resolve(setting.key, setting.values.write(value));
    }

    /// Reads the fields of something and returns it.
    pub fn filled<T: Settings>(&mut self, mut blank: T) -> T {
        blank.settings(self);
        blank
    }

    /// Reads an old word of a key as the one that took its place.
    pub fn renamed(&mut self, key: &str, old: &str, new: &str) {
        if self.look(key).and_then(Value::as_str) == Some(old)
            && let Some(given) = &mut self.given
        {
            given.insert(key.into(), new.into());
        }
    }

    /// Turns `key = "word"` into `key = { kind = "word" }`.
    pub fn expand_kind(&mut self, key: &str) {
        if let Some(given) = &mut self.given
            && let Some(word @ Value::String(_)) = given.get(key).cloned()
        {
            let table = Table::from_iter([("kind".to_string(), word)]);
            given.insert(key.into(), Value::Table(table));
        }
    }

    /// Reads or writes a table within this one; an absent table is an empty one.
    pub fn section<T>(&mut self, key: &str, bind: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let given = match self.take(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(found) => {
                let message = format!("found {}, allowed is a table", shown(&found));
                self.problem(key, message);
                Table::new()
            }
        };
        let path = self.full(key);
        let within = |set: &String| set.strip_prefix(&format!("{key}.")).map(str::to_owned);
        let inherited = |but: &Vec<String>| but.iter().filter_map(within).collect();
        let mut inner = Section {
            given: self.given.is_some().then_some(given),
            dropped_but: match self.dropping.get(&path) {
                Some(but) => Some(but.clone()),
                None => self.dropped_but.as_ref().map(inherited),
            },
            dropping: self.dropping.clone(),
            ..Section::new(&path, Table::new(), self.problems)
        };
        let value = bind(&mut inner);
        let resolved = inner.finish();
        self.resolve(key, resolved);
        value
    }

    /// Names the keys nobody asked for and returns the resolved table.
    pub fn finish(self) -> Table {
        let reported = |key: &&String| {
            let names = |set: &String| set.split('.').next() == Some(key.as_str());
            let but = self.dropped_but.as_ref();
            but.is_none_or(|but| but.iter().any(names))
        };
        let given = self.given.iter().flat_map(|given| given.keys());
        for key in given.filter(reported) {
            let hint = match nearest(key, self.asked.iter().map(String::as_str)) {
                Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                None => format!("unknown key; known here: {}", self.asked.join(", ")),
            };
            self.problems.note(self.full(key), hint);
        }
        self.resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Number, Whole, Words, above_zero, at_least};

    const RATE: Setting<Number> = Setting::number("rate", 0.5, above_zero(1e-30));
    const ROUNDS: Setting<Whole> = Setting::number("rounds", 7, at_least(1));
    const WORD: Setting<Words<u8>> = Setting::words("word", "a", &[("a", 1, ""), ("b", 2, "two")]);

    #[test]
    fn every_problem_is_kept_and_every_default_spelled_out() {
        let given: Table = toml::from_str("rate = -1\nruonds = 3\nword = 'b'").unwrap();
        let mut problems = Problems::default();
        let mut section = Section::new("training", given, &mut problems);
        assert_eq!(section.get(&RATE), 0.5);
        assert_eq!(section.get(&ROUNDS), 7);
        assert_eq!(section.get(&WORD), 2);
        let resolved = section.finish();
        assert_eq!(resolved["rounds"].as_integer(), Some(7));
        assert_eq!(
            problems.to_string(),
            "the spec has 2 problems:\n  training.rate: found -1, allowed is above 0\n  \
             training.ruonds: unknown key; did you mean \"rounds\"?"
        );
    }

    #[test]
    fn a_known_key_is_named_once() {
        let given: Table = toml::from_str("strange = 1\nrate = 2").unwrap();
        let mut problems = Problems::default();
        let mut section = Section::new("training", given, &mut problems);
        section.knows(&["rate", "rounds"]);
        section.get(&RATE);
        section.finish();
        let said = problems.to_string();
        assert!(said.ends_with("known here: rate, rounds"), "{said}");
    }

    #[test]
    fn fields_are_read_and_written_by_one_binding() {
        fn bind(s: &mut Section<'_>, (rate, rounds, word): &mut (f32, usize, u8)) {
            s.field(&RATE, rate);
            s.field(&ROUNDS, rounds);
            s.field(&WORD, word);
        }
        let mut problems = Problems::default();
        let given: Table = toml::from_str("rate = 0.1\nrounds = 9\nword = 'b'").unwrap();
        let mut read = (0.0, 0, 0);
        let mut section = Section::new("", given.clone(), &mut problems);
        bind(&mut section, &mut read);
        assert_eq!((section.finish(), read), (given.clone(), (0.1, 9, 2)));
        let mut section = Section::written(&mut problems);
        bind(&mut section, &mut read);
        assert_eq!(section.finish(), given);
        assert_eq!(problems, Problems::default());
        // What a spec would be refused for is refused in both directions.
        let mut section = Section::written(&mut problems);
        bind(&mut section, &mut (f32::NAN, 0, 1));
        section.finish();
        assert_eq!(
            problems.to_string(),
            "the spec has 2 problems:\n  rate: found nan, allowed is above 0\n  \
             rounds: found 0, allowed is at least 1"
        );
    }
}
