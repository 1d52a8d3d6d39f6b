//! `[training]`: how clients train.

use toml::Value;

use super::fits::LEAST_RATE;
use super::{Plan, PlannedSchedule, Stop};
use crate::algorithm::AlgorithmSpec;
use crate::data::Source;
use crate::local_client::{LocalTraining, LocalWork};
use crate::schedule::Schedule;
use crate::settings::{
    Custom, Declaration, Inner, Number, Section, Setting, Whole, Words, at_least,
};

const ROUNDS: Setting<Whole> =
    Setting::number("rounds", 100, at_least(1).to(i64::MAX as u64)).help("rounds to train");

const LOCAL_STEPS: Setting<Whole> = Setting::number("local_steps", 10, at_least(1).to(1 << 40))
    .symbol("τ")
    .help("local steps of every client per round");

const LOCAL_EPOCHS: Setting<Whole> = Setting::number("local_epochs", 1, at_least(1).to(1 << 40))
    .symbol("E")
    .help("passes over the client's examples per round, instead of local_steps")
    .usually("`local_steps` is used")
    .seldom();

const BATCH: Setting<Custom<Option<usize>>> = Setting::custom(
    "batch",
    Custom {
        name: "whole number or word",
        default: || Some(Some(50)),
        allowed: "at least 1, or \"full\"",
        parse: |found| match (found.as_str(), found.as_integer()) {
            (Some("full"), _) => Some(None),
            (_, Some(size)) => usize::try_from(size)
                .ok()
                .filter(|size| *size > 0)
                .map(Some),
            _ => None,
        },
        write: |batch| batch.map_or(Value::from("full"), |size| Value::from(size as i64)),
    },
)
.help("examples per step; full: all of the client's");

/// A number, or `None` for "auto".
const LEARNING_RATE: Setting<Custom<Option<f64>>> = Setting::custom(
    "learning_rate",
    Custom {
        name: "number or word",
        default: || Some(Some(DEFAULT_RATE)),
        allowed: "above 0, or \"auto\"",
        parse: |found| {
            if found.as_str() == Some("auto") {
                return Some(None);
            }
            let number = found.as_float().or(found.as_integer().map(|n| n as f64))?;
            (number.is_finite() && number >= f64::MIN_POSITIVE).then_some(Some(number))
        },
        write: |rate| rate.map_or(Value::from("auto"), Value::from),
    },
)
.symbol("η")
.help(
    "the initial learning rate, before the schedule; auto: the largest of 1, 0.3, … 0.001 that is \
     as good as the best one after five rounds on held-out rows; default for tables: auto",
);

const DEFAULT_RATE: f64 = 0.1;

const MOMENTUM: Setting<Number> = Setting::number("momentum", 0.0, at_least(0.0).below(1.0))
    .symbol("β")
    .help("momentum of the clients' steps; it starts anew in every round");

const ON_NONFINITE: Setting<Words<bool>> = Setting::words(
    "on_nonfinite",
    "stop",
    &[
        ("stop", false, "the run ends"),
        ("skip", true, "the client is left out of the round"),
    ],
)
.help("what happens when a loss is not finite");

const CLASS_WEIGHTS: Setting<Words<bool>> = Setting::words(
    "class_weights",
    "none",
    &[
        ("none", false, ""),
        ("balanced", true, "rare classes count for more"),
    ],
)
.help("how classes are weighted in training");

const SCHEDULE: Setting<Inner> = Setting::table("schedule", "a kind, or a table of one")
    .symbol("η_t")
    .help(
        "how the learning rate changes: \"constant\", { kind = \"theory\", theorem = 2 }, or \
         geometric per round · epoch · step",
    )
    .usually("geometric, with the algorithm's factor")
    .example("{ kind = \"geometric\", factor = 0.99, per = \"round\" }");

const STOP: Setting<Inner> = Setting::table("stop", "\"off\" or a table")
    .help(
        "ends training when the validation loss of the personal models no longer improves; models \
         are those of the best evaluation, and `rounds` is a maximum",
    )
    .usually("off")
    .example("{ patience = 10, min_delta = 1e-4 }")
    .seldom();

pub(super) const SETTINGS: &[&dyn Declaration] = &[
    &ROUNDS,
    &LOCAL_STEPS,
    &LOCAL_EPOCHS,
    &BATCH,
    &LEARNING_RATE,
    &CLASS_WEIGHTS,
    &MOMENTUM,
    &ON_NONFINITE,
    &SCHEDULE,
    &STOP,
];

/// Represents the local training of clients before the data is known.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLocalTraining {
    /// Steps or epochs per round.
    pub work: LocalWork,
    /// Examples per step; `None`: all of the client's.
    pub batch: Option<usize>,
    /// `training.learning_rate`.
    pub learning_rate: f64,
    /// Schedule of the learning rate.
    pub schedule: PlannedSchedule,
    /// Local momentum β.
    pub momentum: f64,
}

impl PlannedLocalTraining {
    /// Returns the local training with a resolved schedule.
    pub(super) fn with_schedule(&self, schedule: Schedule) -> LocalTraining {
        LocalTraining {
            work: self.work,
            batch: self.batch,
            learning_rate: self.learning_rate,
            schedule,
            momentum: self.momentum,
        }
    }

    /// Returns the local training of a new client after the run: without momentum, and with a
    /// constant rate in place of a theorem's schedule, which holds for the run's own steps only.
    pub fn for_new_client(&self) -> LocalTraining {
        let plain = Self {
            momentum: 0.0,
            ..self.clone()
        };
        match self.schedule {
            PlannedSchedule::Known(schedule) => plain.with_schedule(schedule),
            PlannedSchedule::Theory(_) => plain.with_schedule(Schedule::Constant),
        }
    }

    /// Binds the keys of local training. `rate` is `None` for a rate that is found by a probe.
    fn bind(
        &mut self,
        s: &mut Section<'_>,
        algorithm: &AlgorithmSpec,
        auto: &mut bool,
        may_probe: bool,
    ) {
        s.knows(&["local_steps", "local_epochs"]);
        if s.has("local_epochs") {
            self.work = LocalWork::Epochs(0);
            if s.take("local_steps").is_some() {
                s.problem(
                    "local_epochs",
                    "`local_steps` and `local_epochs` are mutually exclusive; remove one",
                );
            }
        }
        match &mut self.work {
            LocalWork::Steps(steps) => s.field(&LOCAL_STEPS, steps),
            LocalWork::Epochs(epochs) => s.field(&LOCAL_EPOCHS, epochs),
        }
        s.field(&BATCH, &mut self.batch);
        // `schedule = "constant"` is short for `schedule = { kind = "constant" }`.
        s.expand_kind("schedule");
        let default = PlannedSchedule::default_of(algorithm);
        s.section("schedule", |s| self.schedule.bind(s, default));
        let known = matches!(self.schedule, PlannedSchedule::Known(_));
        let default = (!(may_probe && known)).then_some(DEFAULT_RATE);
        let mut rate = (!*auto).then_some(self.learning_rate);
        s.field_or(&LEARNING_RATE, default, &mut rate);
        *auto = rate.is_none();
        self.learning_rate = rate.unwrap_or(DEFAULT_RATE);
        s.field(&MOMENTUM, &mut self.momentum);
    }
}

/// The text between key and algorithm in the note about an unused key.
#[doc(hidden)]
pub const UNUSED: &str = " is not used by ";

/// The settings of algorithms that are learning rates of their own.
const OWN_RATES: [&str; 2] = ["outer_rate", "rate"];

/// Returns the algorithm's own learning rates that the table `algorithm` has.
pub(super) fn written_rates(s: &Section<'_>) -> Vec<&'static str> {
    let written = OWN_RATES
        .iter()
        .filter(|key| s.has_nested("algorithm", key));
    written.copied().collect()
}

/// Binds the table. `written_rates` are those of the table `algorithm`. Keys that the algorithm does not use are checked, reported in the notes if
/// they were written, and left out of the resolved spec.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>, written_rates: &[&str]) {
    s.field(&ROUNDS, &mut plan.rounds);
    let properties = plan.algorithm.properties();
    let own_rate = properties.rate_key.strip_prefix("algorithm.");
    let own_rate = own_rate.filter(|_| properties.own_rates);
    let has_rate = own_rate.is_some_and(|key| written_rates.contains(&key));
    let auto = s.is_reading() && s.is_word("learning_rate", "auto");
    if let (true, true, Some(key)) = (auto, has_rate, own_rate) {
        let problem = format!("found \"auto\", but algorithm.{key} is given; remove one of them");
        s.problem("learning_rate", problem);
    }
    let mut unused = Vec::new();
    if properties.own_rates {
        if !(auto || plan.auto_rate) {
            unused.push("learning_rate");
        }
        unused.push("schedule");
    }
    if properties.own_steps {
        unused.extend(["local_steps", "local_epochs"]);
    }
    let instead = if properties.own_steps {
        "its own number of local steps in every round".into()
    } else {
        format!("its own rates, such as {}", properties.rate_key)
    };
    for key in unused.iter().filter(|key| s.has(key)) {
        let kind = plan.algorithm.kind();
        let note = format!("training.{key}{UNUSED}{kind}, which has {instead}");
        plan.notes.push(note);
    }
    // A probe is the default for tables, unless it could not be made.
    let may_probe = matches!(plan.data, Source::Table(_))
        && plan.privacy.is_none()
        && !has_rate
        && properties
            .max_learning_rate
            .is_none_or(|most| most >= LEAST_RATE);
    (plan.local_training).bind(s, &plan.algorithm, &mut plan.auto_rate, may_probe);
    if plan.auto_rate {
        unused.retain(|key| *key != "learning_rate");
    }
    unused.iter().for_each(|key| s.omit(key));
    Stop::bind(&mut plan.stop, s);
    s.field(&ON_NONFINITE, &mut plan.skip_nonfinite);
    s.field(&CLASS_WEIGHTS, &mut plan.class_weights);
}
