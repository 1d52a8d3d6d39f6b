//! Spec (what was written) → Plan (what can run).

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::AlgorithmSpec;
use crate::attack::Attack;
use crate::data::Source;
use crate::error::{Error, Result};
use crate::model::{Architecture, Augment, Over};
use crate::privacy::{NoiseSeed, PrivacySettings};
use crate::schedule::{Per, Schedule};
use crate::settings::{Problems, Section, shown};
use crate::site::LocalWork;
use crate::training::{DeliverTo, Weights};

mod authors;
mod checks;
mod differences;
mod fits;
mod kinds;
mod plan;
mod privacy;
mod robust;
mod sites;
mod theory;

pub use differences::{differences, prolonged};
pub(crate) use fits::objections;
pub use kinds::{Registry, registries};
pub use plan::{Plan, PlannedEngine, PlannedPace, PlannedSchedule, Resources};
pub use sites::PlannedSites;

/// How many tables deep a key may be: more than any is.
const DEEPEST: usize = 8;

/// A spec as it was written, with overrides applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    table: Table,
    /// Tables whose kind an override changed, each with the keys that overrides set.
    rekinded: BTreeMap<String, Vec<String>>,
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
            self.rekinded.insert(parent, Vec::new());
        }
        self.set.push(key.to_string());
        Ok(())
    }

    /// The same as if overrides had been written in the file: a kind that is set from now on drops
    /// what it does not have, whoever said it.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.set.clear();
        self
    }

    /// Sets the value of a key such as `training.rounds`.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        let mut path: Vec<&str> = key.split('.').collect();
        let last = path.pop().unwrap_or_default();
        let mut table = &mut self.table;
        for part in path {
            let inner = table
                .entry(part.to_string())
                .or_insert_with(|| Value::Table(Table::new()));
            table = inner
                .as_table_mut()
                .expect("only tables are put in between");
        }
        table.insert(last.into(), value);
    }

    /// Removes a key such as `training.rounds`, where it was set.
    pub(crate) fn take(&mut self, key: &str) {
        let mut path: Vec<&str> = key.split('.').collect();
        let last = path.pop().unwrap_or_default();
        let mut table = Some(&mut self.table);
        for part in path {
            table = table.and_then(|table| table.get_mut(part)?.as_table_mut());
        }
        table.map(|table| table.remove(last));
    }

    /// The table as it was written.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Checks every key and spells out every default. Touches no file.
    pub fn plan(&self) -> Result<Plan> {
        let mut problems = Problems::default();
        let (table, taken) = authors::expanded(&self.with_a_path(), &self.set, &mut problems);
        let mut root = Section::new("", table, &mut problems);
        let mut plan = self.read(&mut root);
        plan.notes.extend(taken);
        plan.resolved = root.finish();
        match problems.0.is_empty() {
            true => Ok(plan),
            false => Err(Error::Spec(problems)),
        }
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

    fn forgive(&self, path: &str, s: &mut Section<'_>) {
        if self.rekinded.contains_key(path) {
            s.forgive_unknown(self.set_within(path));
        }
    }

    /// The keys of a table that overrides set.
    fn set_within(&self, path: &str) -> Vec<String> {
        let inner = |key: &String| key.strip_prefix(&format!("{path}.")).map(str::to_owned);
        self.set.iter().filter_map(inner).collect()
    }

    fn read(&self, s: &mut Section<'_>) -> Plan {
        s.knows(&["preset"]);
        let most = i64::MAX as u64;
        let seed = s.integer("seed", 1, 0..=most, "a whole number ≥ 0");
        let mut augment = Augment::None;
        let data = s.section("data", |s| {
            self.forgive("data", s);
            if self.rekinded.contains_key("data.partition") {
                s.forgive_unknown_within("partition", self.set_within("data.partition"));
            }
            augment = read_augment(s);
            Source::read(s, seed)
        });
        let mut architecture = s.section("model", |s| {
            self.forgive("model", s);
            Architecture::read(s)
        });
        let algorithm = s.section("algorithm", |s| {
            self.forgive("algorithm", s);
            AlgorithmSpec::read(s)
        });
        let (participation, weights, aggregation, attack, server, privacy, sites) =
            s.section("federation", |s| {
                // Another rule drops what the old one had, as another kind does.
                if self.set.iter().any(|key| key == "federation.aggregation") {
                    s.forgive_unknown(self.set_within("federation"));
                }
                let share = f64::MIN_POSITIVE..=1.0;
                let sites = sites::read(s);
                // Over sites it is no simulation.
                let noise_seed = match sites {
                    Some(_) => NoiseSeed::System,
                    None => NoiseSeed::Seed,
                };
                let privacy = PrivacySettings::read(s, noise_seed);
                let weights = [
                    ("uniform", Weights::Uniform),
                    ("examples", Weights::Examples),
                ];
                (
                    s.float("participation", 1.0, share, "more than 0, at most 1"),
                    s.choice("weights", "uniform", &weights),
                    Aggregation::read(s),
                    self.read_attack(s),
                    self.read_server(s),
                    privacy,
                    sites,
                )
            });
        let mut notes = Vec::new();
        let (rounds, pace, skip_nonfinite, class_weights) = s.section("training", |s| {
            let weights = [("none", false), ("balanced", true)];
            let rounds = s.integer("rounds", 100, 1..=most, "at least 1");
            let pace = self.read_pace(s, &algorithm, &mut notes);
            let skip = [("stop", false), ("skip", true)];
            (
                rounds,
                pace,
                s.choice("on_nonfinite", "stop", &skip),
                s.choice("class_weights", "none", &weights),
            )
        });
        let evaluate_every = s.section("evaluation", |s| {
            s.knows(&["batch"]);
            let rows = 1..=1u64 << 40;
            let scored_in = s.optional_integer("batch", rows, "at least 1");
            architecture.extras.scored_in = scored_in.map(|rows| rows as usize);
            s.integer("every", 1, 1..=most, "at least 1")
        });
        architecture.extras.augment = augment;
        if architecture.extras.norm == Some(Over::Batch) {
            notes.push(BATCH_STATISTICS.into());
        }
        let (deliver_to, keep_models) = s.section("delivery", |s| {
            let who = [
                ("all", DeliverTo::All),
                ("drawn", DeliverTo::Drawn),
                ("none", DeliverTo::None),
            ];
            (s.choice("clients", "all", &who), s.boolean("keep", true))
        });
        let checkpoint_every = s.section("checkpoint", |s| {
            s.integer("every", 10, 0..=most, "a whole number ≥ 0")
        });
        let engine = s.section("engine", |s| {
            // Another home drops what the old one had, as another kind does.
            if self
                .set
                .iter()
                .any(|key| key == "engine.memory" || key == "engine")
            {
                s.forgive_unknown(self.set_within("engine"));
            }
            let mpi = s.choice("kind", "threads", &[("threads", false), ("mpi", true)]);
            let threads = s.integer("threads", 0, 0..=4096, "0 (all cores) to 4096") as usize;
            let on_disk = s.choice("memory", "ram", &[("ram", false), ("disk", true)]);
            let megabytes =
                on_disk.then(|| s.integer("budget_mb", 1000, 1..=1 << 30, "at least 1"));
            PlannedEngine {
                mpi,
                threads,
                memory_budget: megabytes.map(|mb| mb as usize * 1_000_000),
            }
        });
        let plan = Plan {
            resolved: Table::new(),
            seed,
            data,
            architecture,
            algorithm,
            participation,
            weights,
            aggregation,
            server,
            attack,
            privacy,
            sites,
            rounds,
            pace,
            class_weights,
            skip_nonfinite,
            evaluate_every,
            deliver_to,
            keep_models,
            checkpoint_every,
            engine,
            notes,
        };
        theory::check(&plan, s);
        robust::check(&plan, s);
        fits::check(&plan, s);
        privacy::check(&plan, &self.table, s);
        sites::check(&plan, s);
        if plan.algorithm.agnostic() && plan.weights == Weights::Examples {
            s.problem(
                "federation.weights",
                "found \"examples\", but algorithm.agnostic weighs the clients by itself",
            );
        }
        plan
    }

    fn read_attack(&self, s: &mut Section<'_>) -> Option<Attack> {
        // `attack = "sign-flip"` is short for `attack = { kind = "sign-flip" }`.
        s.expand_kind("attack");
        let within = "federation.attack";
        if self.rekinded.contains_key(within) {
            s.forgive_unknown_within("attack", self.set_within(within));
        }
        s.section("attack", Attack::read)
    }

    fn read_server(&self, s: &mut Section<'_>) -> ServerOptimizer {
        // `server = "mean"` is short for `server = { kind = "mean" }`.
        s.expand_kind("server");
        let within = "federation.server";
        if self.rekinded.contains_key(within) {
            s.forgive_unknown_within("server", self.set_within(within));
        }
        s.section("server", ServerOptimizer::read)
    }

    /// Reads how clients train. Keys that the algorithm does not use are checked like all
    /// others, named in `notes` where they were written, and left out of the resolved spec.
    fn read_pace(
        &self,
        s: &mut Section<'_>,
        algorithm: &AlgorithmSpec,
        notes: &mut Vec<String>,
    ) -> PlannedPace {
        let unused = fits::unused(algorithm);
        for key in unused.iter().filter(|key| s.has(key)) {
            notes.push(format!(
                "training.{key}{UNUSED}{}, which has {}",
                algorithm.kind(),
                fits::instead(algorithm)
            ));
        }
        let pace = self.read_used_pace(s, algorithm);
        unused.iter().for_each(|key| s.forget(key));
        pace
    }

    fn read_used_pace(&self, s: &mut Section<'_>, algorithm: &AlgorithmSpec) -> PlannedPace {
        let most = 1u64 << 40;
        s.knows(&["local_steps", "local_epochs"]);
        let work = if s.has("local_epochs") {
            if s.has("local_steps") {
                s.problem(
                    "local_epochs",
                    "stands beside local_steps: one of them, please",
                );
                s.take("local_steps");
            }
            LocalWork::Epochs(s.integer("local_epochs", 1, 1..=most, "at least 1"))
        } else {
            LocalWork::Steps(s.integer("local_steps", 10, 1..=most, "at least 1"))
        };
        let batch = read_batch(s);
        let positive = f64::MIN_POSITIVE..;
        let learning_rate = s.float("learning_rate", 0.1, positive, "a number above 0");
        PlannedPace {
            work,
            batch,
            learning_rate,
            schedule: self.read_schedule(s, algorithm.usual_decay()),
            momentum: s.float("momentum", 0.0, 0.0..1.0, "0 to below 1"),
        }
    }

    fn read_schedule(&self, s: &mut Section<'_>, (factor, per): (f64, &str)) -> PlannedSchedule {
        #[derive(Clone, Copy)]
        enum ScheduleKind {
            Constant,
            Geometric,
            Theory,
        }
        // `schedule = "constant"` is short for `schedule = { kind = "constant" }`.
        s.expand_kind("schedule");
        s.section("schedule", |s| {
            self.forgive("training.schedule", s);
            let kinds = [
                ("constant", ScheduleKind::Constant),
                ("geometric", ScheduleKind::Geometric),
                ("theory", ScheduleKind::Theory),
            ];
            let kind = s.choice("kind", "geometric", &kinds);
            match kind {
                ScheduleKind::Theory => PlannedSchedule::Theory(theory::read(s)),
                ScheduleKind::Constant => PlannedSchedule::Known(Schedule::Constant),
                ScheduleKind::Geometric => PlannedSchedule::Known(Schedule::Geometric {
                    factor: s.float(
                        "factor",
                        factor,
                        f64::MIN_POSITIVE..=1.0,
                        "above 0, at most 1",
                    ),
                    per: s.choice(
                        "per",
                        per,
                        &[
                            ("round", Per::Round),
                            ("epoch", Per::Epoch),
                            ("step", Per::Step),
                        ],
                    ),
                }),
            }
        })
    }
}

/// What stands between key and algorithm in the note on a key that is not used.
pub const UNUSED: &str = " is not used by ";

/// What is true of a model whose rows depend on each other.
pub const BATCH_STATISTICS: &str = "model.norm = \"batch\" takes the statistics of the batch in \
    evaluation too, as the authors' code does: a prediction depends on the rows beside it, and of \
    one row alone nothing is left; use \"layer\" for a model that is to be served";

/// `augment = "train"` or `"all"`, where it was written.
fn read_augment(s: &mut Section<'_>) -> Augment {
    s.knows(&["augment"]);
    let choices = [
        ("none", Augment::None),
        ("train", Augment::Train),
        ("all", Augment::All),
    ];
    match s.has("augment") {
        true => s.choice("augment", "none", &choices),
        false => Augment::None,
    }
}

fn read_batch(s: &mut Section<'_>) -> Option<usize> {
    match s.take("batch") {
        None => {
            s.resolve("batch", 50);
            Some(50)
        }
        Some(Value::String(word)) if word == "full" => {
            s.resolve("batch", "full");
            None
        }
        Some(Value::Integer(size)) if size >= 1 => {
            s.resolve("batch", size);
            Some(size as usize)
        }
        Some(found) => {
            let found = shown(&found);
            s.problem(
                "batch",
                format!("found {found}, allowed is at least 1, or \"full\""),
            );
            None
        }
    }
}
