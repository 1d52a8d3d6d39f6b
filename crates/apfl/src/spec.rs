//! Spec (what was written) → Plan (what can run).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use crate::aggregation::Aggregation;
use crate::algorithm::AlgorithmSpec;
use crate::attack::{Attack, Attackers};
use crate::clients::{MemoryHome, World};
use crate::data::{Dataset, Source};
use crate::engine::EngineKind;
use crate::error::{Error, Result};
use crate::model::{Architecture, Model};
use crate::params::Params;
use crate::rng::{Purpose, stream};
use crate::schedule::{Per, Schedule, Theory};
use crate::settings::{Problems, Section, shown};
use crate::site::{LocalWork, Pace};
use crate::store::tensors;
use crate::training::{DeliverTo, Setup, Weights};

mod kinds;
mod robust;
mod theory;

pub use kinds::{Registry, registries};

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
                "--set {assignment}: expected key=value, such as training.rounds=5"
            ))
        })?;
        let (key, text) = (key.trim(), text.trim());
        let value = match format!("x = {text}").parse::<Table>() {
            Ok(mut table) if table.len() == 1 => table.remove("x").unwrap_or(Value::from(text)),
            _ => Value::from(text),
        };
        let path: Vec<&str> = key.split('.').collect();
        if path.iter().any(|part| part.is_empty()) {
            return Err(Error::Request(format!(
                "--set {assignment}: the key is empty"
            )));
        }
        let (last, parents) = path.split_last().expect("a split is never empty");
        let mut table = &mut self.table;
        for (depth, part) in parents.iter().enumerate() {
            let inner = table
                .entry((*part).to_string())
                .or_insert_with(|| Value::Table(Table::new()));
            // { fixed = … } and { adaptive = … } exclude each other: the new one replaces.
            let replaces = *part == "mixing" && depth + 1 == parents.len();
            let short = matches!(*part, "schedule" | "attack");
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

    /// Checks every key and spells out every default. Touches no file.
    pub fn plan(&self) -> Result<Plan> {
        let mut problems = Problems::default();
        let mut root = Section::new("", self.table.clone(), &mut problems);
        let mut plan = self.read(&mut root);
        plan.resolved = root.finish();
        match problems.0.is_empty() {
            true => Ok(plan),
            false => Err(Error::Spec(problems)),
        }
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
        let most = i64::MAX as u64;
        let seed = s.integer("seed", 1, 0..=most, "a whole number ≥ 0");
        let data = s.section("data", |s| {
            self.forgive("data", s);
            if self.rekinded.contains_key("data.partition") {
                s.forgive_unknown_within("partition", self.set_within("data.partition"));
            }
            Source::read(s, seed)
        });
        let architecture = s.section("model", |s| {
            self.forgive("model", s);
            Architecture::read(s)
        });
        let algorithm = s.section("algorithm", |s| {
            self.forgive("algorithm", s);
            AlgorithmSpec::read(s)
        });
        let (participation, weights, aggregation, attack) = s.section("federation", |s| {
            // Another rule drops what the old one had, as another kind does.
            if self.set.iter().any(|key| key == "federation.aggregation") {
                s.forgive_unknown(self.set_within("federation"));
            }
            let share = f64::MIN_POSITIVE..=1.0;
            let weights = [
                ("uniform", Weights::Uniform),
                ("examples", Weights::Examples),
            ];
            (
                s.float("participation", 1.0, share, "more than 0, at most 1"),
                s.choice("weights", "uniform", &weights),
                Aggregation::read(s),
                self.read_attack(s),
            )
        });
        let (rounds, (pace, theory), skip_nonfinite) = s.section("training", |s| {
            let rounds = s.integer("rounds", 100, 1..=most, "at least 1");
            let pace = self.read_pace(s, &algorithm);
            let skip = [("stop", false), ("skip", true)];
            (rounds, pace, s.choice("on_nonfinite", "stop", &skip))
        });
        let evaluate_every = s.section("evaluation", |s| {
            s.integer("every", 1, 1..=most, "at least 1")
        });
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
        let (mpi, threads, memory_budget) = s.section("engine", |s| {
            let mpi = s.choice("kind", "threads", &[("threads", false), ("mpi", true)]);
            let threads = s.integer("threads", 0, 0..=4096, "0 (all cores) to 4096") as usize;
            let on_disk = s.choice("memory", "ram", &[("ram", false), ("disk", true)]);
            let megabytes =
                on_disk.then(|| s.integer("budget_mb", 1000, 1..=1 << 30, "at least 1"));
            (mpi, threads, megabytes.map(|mb| mb as usize * 1_000_000))
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
            attack,
            rounds,
            pace,
            theory,
            skip_nonfinite,
            evaluate_every,
            deliver_to,
            keep_models,
            checkpoint_every,
            mpi,
            threads,
            memory_budget,
        };
        theory::check(&plan, s);
        robust::check(&plan, s);
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

    fn read_pace(&self, s: &mut Section<'_>, algorithm: &AlgorithmSpec) -> (Pace, Option<Theory>) {
        let most = 1u64 << 40;
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
        let (schedule, theory) = self.read_schedule(s, algorithm.usual_decay());
        let pace = Pace {
            work,
            batch,
            learning_rate,
            schedule,
        };
        (pace, theory)
    }

    fn read_schedule(
        &self,
        s: &mut Section<'_>,
        (factor, per): (f64, &str),
    ) -> (Schedule, Option<Theory>) {
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
            let theory = matches!(kind, ScheduleKind::Theory).then(|| theory::read(s));
            let schedule = match kind {
                ScheduleKind::Constant | ScheduleKind::Theory => Schedule::Constant,
                ScheduleKind::Geometric => Schedule::Geometric {
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
                },
            };
            (schedule, theory)
        })
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

/// A spec that was checked: everything a run needs but the data itself.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The spec with every default spelled out; it runs again to the same result.
    pub resolved: Table,
    /// Everything random.
    pub seed: u64,
    /// Where the data comes from.
    pub data: Source,
    /// The model, before the data's width is known.
    pub architecture: Architecture,
    /// The algorithm.
    pub algorithm: AlgorithmSpec,
    /// K/n
    pub participation: f64,
    /// How updates are weighted.
    pub weights: Weights,
    /// How updates become one model.
    pub aggregation: Aggregation,
    /// What some clients do to the shared model.
    pub attack: Option<Attack>,
    /// Rounds to train.
    pub rounds: u64,
    /// How clients train.
    pub pace: Pace,
    /// A theorem's schedule, which takes the place of the pace's once the data is there.
    pub theory: Option<Theory>,
    /// Whether a client whose loss is not finite is left out of the round instead of
    /// ending the run.
    pub skip_nonfinite: bool,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Who gets a model at the end.
    pub deliver_to: DeliverTo,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Rounds between checkpoints; 0: only at the end and on a signal.
    pub checkpoint_every: u64,
    /// Whether clients are to live on the ranks of an MPI job.
    pub mpi: bool,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// Bytes of client memories that stay in RAM while the others live on disk; `None`:
    /// all in RAM.
    pub memory_budget: Option<usize>,
}

impl Plan {
    /// Loads the data and builds the model.
    pub fn setup(&self) -> Result<Setup> {
        self.setup_with(self.data.load()?)
    }

    /// The same with data of the caller's own, whatever `[data]` says.
    pub fn setup_with(&self, dataset: Arc<dyn Dataset>) -> Result<Setup> {
        let attackers = Attackers::draw(self.attack, dataset.clients(), self.seed);
        let dataset = attackers.poison(dataset)?;
        let model = self.architecture.build(dataset.schema())?;
        let w0 = self.initial(&*model)?;
        let mut pace = self.pace;
        let mut notes = dataset.notes();
        notes.extend(attackers.note(dataset.clients()));
        if let Some(theory) = &self.theory {
            let (schedule, said) = theory::resolve(self, theory, &*dataset, &*model, &w0)?;
            pace.schedule = schedule;
            notes.push(said);
        }
        let mut setup = Setup {
            world: World {
                seed: self.seed,
                model: Arc::from(model),
                w0: Arc::new(w0),
                pace,
                skip_nonfinite: self.skip_nonfinite,
                dataset,
            },
            rounds: self.rounds,
            participation: self.participation,
            weights: self.weights,
            aggregation: self.aggregation,
            attackers,
            evaluate_every: self.evaluate_every,
            deliver_to: self.deliver_to,
            keep_models: self.keep_models,
            engine: EngineKind::Threads,
            threads: self.threads,
            notes,
            home: MemoryHome::Ram,
        };
        let k = setup.cohort_size();
        setup.aggregation.check(k)?;
        setup.notes.extend(setup.aggregation.note(k));
        Ok(setup)
    }

    /// w⁰
    fn initial(&self, model: &dyn Model) -> Result<Params> {
        Ok(match self.architecture.init.as_str() {
            "zeros" => model.layout().zeros(),
            "uniform" => model
                .layout()
                .uniform(&mut stream(self.seed, Purpose::Init, 0, 0)),
            path => {
                let params = tensors::read_one(path.as_ref(), model.layout(), "")?;
                if let Some(x) = params.iter().find(|x| !x.is_finite()) {
                    return Err(Error::Data(format!(
                        "{path}: holds {x}; no start for a model"
                    )));
                }
                params
            }
        })
    }

    /// Where the clients' memories live in a run whose directory is `run`.
    pub fn home(&self, run: &Path) -> MemoryHome {
        match self.memory_budget {
            None => MemoryHome::Ram,
            Some(budget) => MemoryHome::Disk {
                file: run.join("memories.scratch"),
                budget,
            },
        }
    }

    /// The resolved spec as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved).expect("a table of plain values is TOML")
    }
}
