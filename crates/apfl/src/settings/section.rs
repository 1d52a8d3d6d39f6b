//! Reads one table of a spec, or writes the table of typed values.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::setting::Setting;
use super::values::Values;
use super::{Problems, nearest, shown};

/// Reads one table of a spec, or writes the table of typed values.
///
/// Every key is read once, by its declaration. All problems are collected, all values that were
/// read form the resolved spec, and keys that were not read are reported as unknown at the end.
///
/// In the other direction ([`Section::writer`]) the values of fields are checked by the same
/// declarations and written into the resolved table.
#[derive(Debug)]
pub struct Section<'a> {
    path: String,
    /// The keys that are not read yet; `None` if the section writes.
    given: Option<Table>,
    resolved: Table,
    known_keys: Vec<String>,
    /// Tables that ignore unknown keys, by path, with the keys that are not ignored.
    ignoring_unknown: BTreeMap<String, Vec<String>>,
    /// The keys that are not ignored, if this table ignores unknown keys.
    still_reported: Option<Vec<String>>,
    problems: &'a mut Problems,
}

/// Represents a value whose settings are in one table of a spec.
pub trait Settings {
    /// Binds every field to its declaration: reads it, or checks and writes it.
    fn settings(&mut self, s: &mut Section<'_>);
}

/// Represents a field that holds the value of a setting.
pub trait SettingField<T> {
    /// Returns the value in a spec.
    fn to_setting(&self) -> T;
    /// Sets the field from the value in a spec.
    fn set(&mut self, value: T);
}

impl<T: Clone> SettingField<T> for T {
    fn to_setting(&self) -> T {
        self.clone()
    }
    fn set(&mut self, value: T) {
        *self = value;
    }
}

impl SettingField<f64> for f32 {
    /// Returns the shortest decimal, so that 0.1 is written as 0.1.
    fn to_setting(&self) -> f64 {
        self.to_string().parse().expect("a displayed number parses")
    }
    fn set(&mut self, value: f64) {
        *self = value as f32;
    }
}

impl SettingField<u64> for usize {
    fn to_setting(&self) -> u64 {
        *self as u64
    }
    fn set(&mut self, value: u64) {
        *self = value as usize;
    }
}

impl<'a> Section<'a> {
    /// Creates a reader of the table `given` at `path` (empty at the root).
    pub fn new(path: &str, given: Table, problems: &'a mut Problems) -> Self {
        Self {
            path: path.into(),
            given: Some(given),
            resolved: Table::new(),
            known_keys: Vec::new(),
            ignoring_unknown: BTreeMap::new(),
            still_reported: None,
            problems,
        }
    }

    /// Creates a writer: fields are checked and written, not read.
    pub fn writer(problems: &'a mut Problems) -> Self {
        Self {
            given: None,
            ..Self::new("", Table::new(), problems)
        }
    }

    /// Ignores unknown keys of these tables and of tables within them, for tables whose kind was
    /// changed by an override. The keys listed for each table, and tables with a listed key
    /// (`mixing.fixed` lists `mixing`), are still reported.
    pub fn ignoring_unknown(mut self, tables: BTreeMap<String, Vec<String>>) -> Self {
        self.ignoring_unknown = tables;
        self
    }

    /// Returns whether the section reads; otherwise it writes.
    pub fn is_reading(&self) -> bool {
        self.given.is_some()
    }

    fn full(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.into(),
            path => format!("{path}.{key}"),
        }
    }

    /// Adds a problem of a key.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let key = self.full(key);
        self.problems.note(key, message);
    }

    /// Returns the problems, to which others can be added by full path.
    pub fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Declares keys that this table may have even if they are not read, so that errors about a
    /// mistyped key can suggest them.
    pub fn knows(&mut self, keys: &[&str]) {
        for key in keys {
            if !self.known_keys.iter().any(|known| known == key) {
                self.known_keys.push((*key).into());
            }
        }
    }

    fn look(&self, key: &str) -> Option<&Value> {
        self.given.as_ref()?.get(key)
    }

    /// Returns whether the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.look(key).is_some()
    }

    /// Returns whether the key is present as a table that has the key `inner`.
    pub fn has_nested(&self, key: &str, inner: &str) -> bool {
        let table = self.look(key).and_then(Value::as_table);
        table.is_some_and(|table| table.contains_key(inner))
    }

    /// Returns whether the key is present as text.
    pub fn is_text(&self, key: &str) -> bool {
        self.look(key).is_some_and(Value::is_str)
    }

    /// Returns whether the key is present as this word.
    pub fn is_word(&self, key: &str, word: &str) -> bool {
        self.look(key).and_then(Value::as_str) == Some(word)
    }

    /// Removes a key from a resolved table within this one.
    pub fn omit_within(&mut self, table: &str, key: &str) {
        if let Some(table) = self.resolved.get_mut(table).and_then(Value::as_table_mut) {
            table.remove(key);
        }
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

    /// Removes an unused key from the resolved table.
    pub fn omit(&mut self, key: &str) {
        self.resolved.remove(key);
    }

    /// Returns the value of a setting if it is present and allowed.
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
        field: &mut impl SettingField<V::Value>,
    ) {
        if self.is_reading() {
            field.set(self.get_or(setting, default));
        } else {
            self.write(setting, &field.to_setting());
        }
    }

    /// Binds a field to a setting.
    pub fn field<V: Values>(
        &mut self,
        setting: &Setting<V>,
        field: &mut impl SettingField<V::Value>,
    ) {
        if self.is_reading() {
            field.set(self.get(setting));
        } else {
            self.write(setting, &field.to_setting());
        }
    }

    /// Binds a field that may be absent to a setting.
    pub fn optional_field<V: Values, F: SettingField<V::Value> + Default>(
        &mut self,
        setting: &Setting<V>,
        field: &mut Option<F>,
    ) {
        if self.is_reading() {
            *field = self.optional(setting).map(|value| {
                let mut present = F::default();
                present.set(value);
                present
            });
        } else if let Some(present) = field {
            self.write(setting, &present.to_setting());
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

    /// Reads the old value `old` of a key as `new`.
    pub fn accept_alias(&mut self, key: &str, old: &str, new: &str) {
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
            still_reported: match self.ignoring_unknown.get(&path) {
                Some(but) => Some(but.clone()),
                None => self.still_reported.as_ref().map(inherited),
            },
            ignoring_unknown: self.ignoring_unknown.clone(),
            ..Section::new(&path, Table::new(), self.problems)
        };
        let value = bind(&mut inner);
        let resolved = inner.finish();
        self.resolve(key, resolved);
        value
    }

    /// Reports unknown keys and returns the resolved table.
    pub fn finish(self) -> Table {
        let reported = |key: &&String| {
            let names = |set: &String| set.split('.').next() == Some(key.as_str());
            let but = self.still_reported.as_ref();
            but.is_none_or(|but| but.iter().any(names))
        };
        let given = self.given.iter().flat_map(|given| given.keys());
        for key in given.filter(reported) {
            let hint = match nearest(key, self.known_keys.iter().map(String::as_str)) {
                Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                None => format!("unknown key; known here: {}", self.known_keys.join(", ")),
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
        let message = problems.to_string();
        assert!(message.ends_with("known here: rate, rounds"), "{message}");
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
        let mut section = Section::writer(&mut problems);
        bind(&mut section, &mut read);
        assert_eq!(section.finish(), given);
        assert_eq!(problems, Problems::default());
        // Both directions have the same checks.
        let mut section = Section::writer(&mut problems);
        bind(&mut section, &mut (f32::NAN, 0, 1));
        section.finish();
        assert_eq!(
            problems.to_string(),
            "the spec has 2 problems:\n  rate: found nan, allowed is above 0\n  \
             rounds: found 0, allowed is at least 1"
        );
    }
}
