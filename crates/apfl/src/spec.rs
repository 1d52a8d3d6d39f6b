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
mod tables;
mod theory;
mod training;

pub use differences::{decisive, differences, prolonged};
pub use engine::PlannedEngine;
pub use initial::Initial;
pub use plan::{BATCH_STATISTICS, Plan, Resources};
pub use schedule::PlannedSchedule;
pub use sites::PlannedSites;
pub use tables::{Registry, SpecTable, registries, tables};
pub use training::{PlannedLocalTraining, UNUSED};

/// How many tables deep a key may be: more than any is.
const DEEPEST: usize = 8;

/// Tables in which another `kind` drops what the old one had.
const KINDED: [&str; 7] = [
    "data",
    "data.partition",
    "model",
    "algorithm",
    "federation.attack",
    "federation.server",
    "training.schedule",
];

/// Tables in which other keys do the same: another aggregation rule, another home of memories.
const CHOSEN_BY: [(&str, &[&str]); 2] = [
    ("federation", &["federation.aggregation"]),
    ("engine", &["engine.memory", "engine"]),
];

/// A spec as it was written, with overrides applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    table: Table,
    /// Tables whose kind an override changed.
    rekinded: BTreeSet<String>,
    /// The keys that overrides set.
    set: Vec<String>,
}

impl Spec {
    /// Reads TOML. An empty text is the default: adaptive APFL on synthetic(1, 1).
    pub fn parse(text: &str) -> Result<Self> {
        let table = text
            .parse()
            .map_err(|e| Error::Request(format!("the spec is not TOML: {e}")))?;
        Ok(Self {
            table,
            ..Self::default()
        })
    }

    /// Applies `key=value`. The value is TOML; what does not parse as TOML is a string.
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
        if path.len() > DEEPEST {
            return Err(Error::Request(format!(
                "{}…: no key is more than {DEEPEST} tables deep",
                key.chars().take(40).collect::<String>()
            )));
        }
        if path.iter().any(|part| part.is_empty()) {
            return Err(Error::Request(format!("{assignment}: the key is empty")));
        }
        let (last, parents) = path.split_last().expect("a split is never empty");
        let mut table = &mut self.table;
        for (depth, part) in parents.iter().enumerate() {
            let inner = table
                .entry((*part).to_string())
                .or_insert_with(|| Value::Table(Table::new()));
            // { fixed = … }, { adaptive = … } and { chosen = … } exclude each other: a new one
            // replaces, but for settings of a choice that is there.
            let chosen = inner.as_table().is_some_and(|t| t.contains_key("chosen"));
            let of_choice = chosen && !matches!(*last, "fixed" | "adaptive");
            let replaces = *part == "mixing" && depth + 1 == parents.len() && !of_choice;
            let short = matches!(*part, "schedule" | "attack" | "server");
            if let (true, Value::String(kind)) = (short, &*inner) {
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
            // The number of classes is one thing to a generator and another to a reader.
            if parent == "data" && !self.set.iter().any(|set| set == "data.classes") {
                table.remove("classes");
            }
            self.rekinded.insert(parent);
        }
        self.note_set(key.to_string(), &value);
        Ok(())
    }

    /// Notes that an override set a key, and every key of a table that it gave.
    fn note_set(&mut self, key: String, value: &Value) {
        for (inner, value) in value.as_table().into_iter().flatten() {
            self.note_set(format!("{key}.{inner}"), value);
        }
        self.set.push(key);
    }

    /// The same as if overrides had been written in the file: a kind that is set from now on drops
    /// what it does not have, whoever said it.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.set.clear();
        self
    }

    /// The table as it was written.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Checks every key and spells out every default. Touches no file.
    pub fn plan(&self) -> Result<Plan> {
        let mut problems = Problems::default();
        let (table, taken) = authors::expanded(&self.with_a_path(), &self.set, &mut problems);
        let mut root = Section::new("", table, &mut problems).ignoring_unknown(self.dropping());
        root.knows(&["preset"]);
        let mut plan = Plan::blank();
        plan.settings(&mut root);
        plan.notes.extend(taken);
        fits::check(&plan, root.problems());
        plan.resolved = root.finish();
        if problems.0.is_empty() {
            Ok(plan)
        } else {
            Err(Error::Spec(problems))
        }
    }

    /// The tables that drop what another choice in them left behind, each with the keys that
    /// overrides set, which are never dropped.
    fn dropping(&self) -> BTreeMap<String, Vec<String>> {
        let rekinded = KINDED.iter().filter(|path| self.rekinded.contains(**path));
        let chosen_by = CHOSEN_BY
            .iter()
            .filter(|(_, keys)| self.set.iter().any(|set| keys.contains(&set.as_str())));
        let paths = rekinded.chain(chosen_by.map(|(path, _)| path));
        let within = |path: &str, set: &String| {
            let key = set.strip_prefix(path)?.strip_prefix('.')?;
            Some(key.to_owned())
        };
        let but = |path: &&str| {
            self.set
                .iter()
                .filter_map(|set| within(path, set))
                .collect()
        };
        paths.map(|path| (path.to_string(), but(path))).collect()
    }

    /// The table as it was written; over sites a table needs no path, for each has its own.
    fn with_a_path(&self) -> Table {
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
