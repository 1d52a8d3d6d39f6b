//! Spec (what was written) → Plan (what can run).

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::settings::{Problems, Section, Settings};

mod authors;
mod checks;
mod differences;
mod engine;
mod evaluation;
mod federation;
mod fits;
mod initial;
mod plan;
mod privacy;
mod robust;
mod schedule;
mod sites;
mod stop;
mod tables;
mod theory;
mod training;

pub(crate) use differences::identifying_keys;
#[doc(hidden)]
pub use differences::{changed_rounds, differences};
pub use engine::PlannedEngine;
pub(crate) use fits::LEAST_RATE;
pub use initial::Initial;
#[doc(hidden)]
pub use plan::BATCH_STATISTICS;
pub use plan::{Plan, Resources};
pub use schedule::PlannedSchedule;
pub use sites::PlannedSites;
pub use stop::Stop;
#[doc(hidden)]
pub use tables::{Registry, SpecTable, registries, tables};
pub use training::PlannedLocalTraining;
#[doc(hidden)]
pub use training::UNUSED;

/// Limit on the depth of a key; no key is as deep.
const MAX_KEY_DEPTH: usize = 8;

/// Tables that drop the settings of the old `kind` when an override changes it.
const KIND_TABLES: [&str; 7] = [
    "data",
    "data.partition",
    "model",
    "algorithm",
    "federation.attack",
    "federation.server",
    "training.schedule",
];

/// Tables in which other keys act like `kind`: the aggregator, the home of client states.
const TABLES_WITH_OTHER_KIND_KEYS: [(&str, &[&str]); 2] = [
    ("federation", &["federation.aggregation"]),
    ("engine", &["engine.memory", "engine"]),
];

/// Represents a spec as it was written, with overrides applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    table: Table,
    /// Tables whose kind an override changed.
    changed_kinds: BTreeSet<String>,
    /// Keys that overrides set.
    overridden: Vec<String>,
}

impl Spec {
    /// Reads TOML. An empty text is the default: adaptive APFL on synthetic(1, 1).
    ///
    /// # Errors
    /// Text that is not TOML.
    pub fn parse(text: &str) -> Result<Self> {
        let table = text
            .parse()
            .map_err(|e| Error::Request(format!("the spec is not TOML: {e}")))?;
        Ok(Self {
            table,
            ..Self::default()
        })
    }

    /// Applies the override `key=value`. A value that does not parse as TOML is a string.
    ///
    /// # Errors
    /// An assignment without a key or `=`, or a key that is too deep.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let (key, text) = assignment.split_once('=').ok_or_else(|| {
            Error::Request(format!(
                "{assignment}: expected key=value, such as training.rounds=5"
            ))
        })?;
        let (key, text) = (key.trim(), text.trim());
        let value = match format!("x = {text}").parse::<Table>() {
            Ok(mut table) if table.len() == 1 => table.remove("x").unwrap_or(Value::from(text)),
            _ => Value::from(text),
        };
        let path: Vec<&str> = key.split('.').collect();
        if path.len() > MAX_KEY_DEPTH {
            return Err(Error::Request(format!(
                "{}…: the key has more than {MAX_KEY_DEPTH} parts; no setting is that deep",
                key.chars().take(40).collect::<String>()
            )));
        }
        if path.iter().any(|part| part.is_empty()) {
            return Err(Error::Request(format!(
                "{assignment}: the key has an empty part; expected key=value, such as training.rounds=5"
            )));
        }
        let (last, parents) = path.split_last().expect("a split is never empty");
        let mut table = &mut self.table;
        for (depth, part) in parents.iter().enumerate() {
            let inner = table
                .entry((*part).to_string())
                .or_insert_with(|| Value::Table(Table::new()));
            // { fixed = … }, { adaptive = … } and { chosen = … } exclude each other, so a new one
            // replaces the table. The other settings of an existing choice are added to it.
            let chosen = inner.as_table().is_some_and(|t| t.contains_key("chosen"));
            let extends_choice = chosen && !matches!(*last, "fixed" | "adaptive");
            let replaces = *part == "mixing" && depth + 1 == parents.len() && !extends_choice;
            let has_short_form = matches!(*part, "schedule" | "attack" | "server");
            if let (true, Value::String(kind)) = (has_short_form, &*inner) {
                *inner = Table::from_iter([("kind".to_string(), kind.clone().into())]).into();
            }
            if !inner.is_table() || replaces {
                *inner = Value::Table(Table::new());
            }
            table = inner.as_table_mut().expect("made a table above");
        }
        let before = table.insert((*last).to_string(), value.clone());
        let parent = parents.join(".");
        if *last == "kind" && before.as_ref() != Some(&value) {
            // `data.classes` means different things to a generator and to a reader.
            if parent == "data" && !self.overridden.iter().any(|key| key == "data.classes") {
                table.remove("classes");
            }
            self.changed_kinds.insert(parent);
        }
        self.record_override(key.to_string(), &value);
        Ok(())
    }

    /// Writes "auto" in place of the learning rate at `key`.
    pub(crate) fn make_rate_auto(&mut self, key: &str) {
        let algorithm = self
            .table
            .get_mut("algorithm")
            .and_then(Value::as_table_mut);
        if let (Some(own), Some(algorithm)) = (key.strip_prefix("algorithm."), algorithm) {
            algorithm.remove(own);
        }
        if let Some(training) = self.table.get_mut("training").and_then(Value::as_table_mut) {
            training.insert("learning_rate".into(), "auto".into());
        }
    }

    /// Records that an override set a key and, if its value is a table, every key in it.
    fn record_override(&mut self, key: String, value: &Value) {
        for (inner, value) in value.as_table().into_iter().flatten() {
            self.record_override(format!("{key}.{inner}"), value);
        }
        self.overridden.push(key);
    }

    /// Makes the overrides part of the file, so that a later change of a kind also drops the
    /// settings that they gave.
    #[must_use]
    #[doc(hidden)]
    pub fn with_overrides_as_written(mut self) -> Self {
        self.overridden.clear();
        self
    }

    /// Returns the table as it was written, with overrides applied.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Checks every key and spells out every default. Reads no file.
    ///
    /// # Errors
    /// All problems of the spec together.
    pub fn plan(&self) -> Result<Plan> {
        let mut problems = Problems::default();
        let table = self.with_table_path();
        let (table, note) = authors::expand(&table, &self.overridden, &mut problems);
        let mut root = Section::new("", table, &mut problems).ignoring_unknown(self.dropping());
        root.knows(&["preset"]);
        let mut plan = Plan::blank();
        plan.settings(&mut root);
        plan.notes.extend(note);
        fits::check(&plan, root.problems());
        plan.resolved = root.finish();
        if problems.0.is_empty() {
            Ok(plan)
        } else {
            Err(Error::Spec(problems))
        }
    }

    /// Returns the tables that drop settings of their old kind, each with the keys that overrides
    /// set, which are never dropped.
    fn dropping(&self) -> BTreeMap<String, Vec<String>> {
        let changed_kinds = KIND_TABLES
            .iter()
            .filter(|path| self.changed_kinds.contains(**path));
        let changed_others = TABLES_WITH_OTHER_KIND_KEYS.iter().filter(|(_, keys)| {
            keys.iter()
                .any(|key| self.overridden.iter().any(|k| k == key))
        });
        let paths = changed_kinds.chain(changed_others.map(|(path, _)| path));
        let key_within = |path: &str, key: &String| {
            let key = key.strip_prefix(path)?.strip_prefix('.')?;
            Some(key.to_owned())
        };
        let kept = |path: &&str| {
            let keys = self.overridden.iter();
            keys.filter_map(|key| key_within(path, key)).collect()
        };
        paths.map(|path| (path.to_string(), kept(path))).collect()
    }

    /// Returns the written table. Over sites it adds an empty `data.path`, since every site has a
    /// path of its own.
    fn with_table_path(&self) -> Table {
        let mut table = self.table.clone();
        let federation = table.get("federation").and_then(Value::as_table);
        let sites = federation.is_some_and(|federation| federation.contains_key("sites"));
        let data = table.get_mut("data").and_then(Value::as_table_mut);
        if let Some(data) = data.filter(|_| sites)
            && data.get("kind").and_then(Value::as_str) == Some("table")
        {
            let none = || Value::Array(Vec::new());
            data.entry("path").or_insert_with(none);
        }
        table
    }
}
