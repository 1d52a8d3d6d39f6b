//! `[training]`: how clients train.

use toml::Value;

use super::{Plan, theory};
use crate::algorithm::AlgorithmSpec;
use crate::schedule::{Per, Schedule, Theory};
use crate::settings::{
    Custom, Declaration, Inner, Number, Section, Setting, Values, Whole, Words, above_zero,
    at_least,
};
use crate::site::{LocalWork, Pace};

const ROUNDS: Setting<Whole> =
    Setting::number("rounds", 100, at_least(1).to(i64::MAX as u64)).help("rounds to train");

const LOCAL_STEPS: Setting<Whole> = Setting::number("local_steps", 10, at_least(1).to(1 << 40))
    .symbol("τ")
    .help("local steps of every client in a round");

const LOCAL_EPOCHS: Setting<Whole> = Setting::number("local_epochs", 1, at_least(1).to(1 << 40))
    .symbol("E")
    .help("whole passes over the client's examples, in place of local_steps")
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
.help("examples of a step; full: all of the client's");

const LEARNING_RATE: Setting<Number> =
    Setting::number("learning_rate", 0.1, above_zero(f64::MIN_POSITIVE))
        .symbol("η")
        .help("the learning rate, before its schedule");

const MOMENTUM: Setting<Number> = Setting::number("momentum", 0.0, at_least(0.0).below(1.0))
    .symbol("β")
    .help("the clients' momentum, anew in every round");

const ON_NONFINITE: Setting<Words<bool>> = Setting::words(
    "on_nonfinite",
    "stop",
    &[
        ("stop", false, "the run ends"),
        ("skip", true, "its client is left out of the round"),
    ],
)
.help("what a loss that is not finite does");

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
        "how the learning rate changes; or \"constant\", or { kind = \"theory\", theorem = 2 }; \
         per round · epoch · step",
    )
    .usually("geometric, as the algorithm has it")
    .example("{ kind = \"geometric\", factor = 0.99, per = \"round\" }");

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
];

/// The kinds of schedules that a spec may name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ScheduleKind {
    Constant,
    Geometric,
    Theory,
}

const KIND: Setting<Words<ScheduleKind>> = Setting::words(
    "kind",
    "geometric",
    &[
        ("constant", ScheduleKind::Constant, "the rate stays"),
        ("geometric", ScheduleKind::Geometric, "η·factor^k"),
        ("theory", ScheduleKind::Theory, "a theorem's step sizes"),
    ],
)
.help("how the rate changes");

const FACTOR: Setting<Number> =
    Setting::number("factor", 0.99, above_zero(f64::MIN_POSITIVE).to(1.0))
        .with("kind = \"geometric\"")
        .help("the ratio of one rate to the one before")
        .usually("`0.99`; with algorithm.preset = \"fedtorch\" 1/1.01");

const PER: Setting<Words<Per>> = Setting::words(
    "per",
    "round",
    &[
        ("round", Per::Round, "the paper's"),
        ("epoch", Per::Epoch, "a pass over the client's examples"),
        ("step", Per::Step, ""),
    ],
)
.with("kind = \"geometric\"")
.help("what k counts")
.usually("`\"round\"`; with algorithm.preset = \"fedtorch\" `\"epoch\"`");

// What a caller may give and no spec can say.
const POSITIVE: crate::settings::Range<f64> = above_zero(f64::MIN_POSITIVE);
const NUMERATOR: Setting<Number> = Setting::optional("numerator", POSITIVE);
const MU: Setting<Number> = Setting::optional("mu", POSITIVE);
const SHIFT: Setting<Number> = Setting::optional("a", at_least(0.0));
const RATE: Setting<Number> = Setting::optional("rate", POSITIVE);

pub(super) const SCHEDULE_SETTINGS: &[&dyn Declaration] = &[
    &KIND,
    &FACTOR,
    &PER,
    theory::SETTINGS[0],
    theory::SETTINGS[1],
    theory::SETTINGS[2],
    theory::SETTINGS[3],
];

/// How clients train, before the data is there.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPace {
    /// Steps or epochs a round.
    pub work: LocalWork,
    /// Examples a step; `None`: all of the client's.
    pub batch: Option<usize>,
    /// `training.learning_rate`.
    pub learning_rate: f64,
    /// How it changes.
    pub schedule: PlannedSchedule,
    /// β of local momentum.
    pub momentum: f64,
}

/// A schedule, or a theorem that makes one of the data.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedSchedule {
    /// Known before the data is.
    Known(Schedule),
    /// A theorem's, whose constants may be taken from the data.
    Theory(Theory),
}

impl From<Schedule> for PlannedSchedule {
    fn from(schedule: Schedule) -> Self {
        Self::Known(schedule)
    }
}

impl From<Theory> for PlannedSchedule {
    fn from(theory: Theory) -> Self {
        Self::Theory(theory)
    }
}

impl PlannedPace {
    pub(super) fn with(&self, schedule: Schedule) -> Pace {
        Pace {
            work: self.work,
            batch: self.batch,
            learning_rate: self.learning_rate,
            schedule,
            momentum: self.momentum,
        }
    }

    /// Returns how a client trains that comes after the run: a theorem's schedule is for the
    /// run's own steps, so a newcomer keeps the rate; its steps are plain ones.
    pub fn of_newcomer(&self) -> Pace {
        let plain = Self {
            momentum: 0.0,
            ..self.clone()
        };
        match self.schedule {
            PlannedSchedule::Known(schedule) => plain.with(schedule),
            PlannedSchedule::Theory(_) => plain.with(Schedule::Constant),
        }
    }

    fn bind(&mut self, s: &mut Section<'_>, algorithm: &AlgorithmSpec) {
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
        s.field(&LEARNING_RATE, &mut self.learning_rate);
        // `schedule = "constant"` is short for `schedule = { kind = "constant" }`.
        s.expand_kind("schedule");
        let usual = PlannedSchedule::usual(algorithm);
        s.section("schedule", |s| self.schedule.bind(s, usual));
        s.field(&MOMENTUM, &mut self.momentum);
    }
}

impl PlannedSchedule {
    /// Returns the schedule of an algorithm where a spec does not say.
    pub fn usual(algorithm: &AlgorithmSpec) -> Self {
        let (factor, per) = algorithm.usual_decay();
        let per = PER.values.parse(&per.into());
        let per = per.expect("a word of `per`");
        Self::Known(Schedule::Geometric { factor, per })
    }

    /// Returns a, where the schedule has one.
    pub(super) fn has_shift(&self) -> bool {
        match self {
            Self::Known(schedule) => schedule.shift().is_some(),
            Self::Theory(theory) => theory.convex(),
        }
    }

    fn bind(&mut self, s: &mut Section<'_>, usual: Self) {
        if s.reads() {
            *self = match s.get(&KIND) {
                ScheduleKind::Constant => Self::Known(Schedule::Constant),
                ScheduleKind::Geometric => usual,
                ScheduleKind::Theory => Self::Theory(theory::BLANK),
            };
        }
        let kind = |s: &mut Section<'_>, word: &str| s.resolve("kind", word);
        match self {
            Self::Known(Schedule::Constant) => kind(s, "constant"),
            Self::Known(Schedule::Geometric { factor, per }) => {
                kind(s, "geometric");
                s.field_or(&FACTOR, *factor, factor);
                s.field_or(&PER, *per, per);
            }
            Self::Known(Schedule::Inverse { numerator, mu, a }) => {
                kind(s, "inverse");
                s.field(&NUMERATOR, numerator);
                s.field(&MU, mu);
                s.field(&SHIFT, a);
            }
            Self::Known(Schedule::Flat { rate }) => {
                kind(s, "flat");
                s.field(&RATE, rate);
            }
            Self::Theory(of) => {
                kind(s, "theory");
                theory::bind(of, s);
            }
        }
    }
}

/// What stands between key and algorithm in the note on a key that is not used.
pub const UNUSED: &str = " is not used by ";

/// Binds the table. Keys that the algorithm does not use are checked like all others, named in
/// the notes where they were written, and left out of the resolved spec.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>) {
    s.field(&ROUNDS, &mut plan.rounds);
    let properties = plan.algorithm.properties();
    let mut unused = Vec::new();
    if properties.own_rates {
        unused.extend(["learning_rate", "schedule"]);
    }
    if properties.own_steps {
        unused.extend(["local_steps", "local_epochs"]);
    }
    let instead = if properties.own_steps {
        "a number of local steps of its own for every round".into()
    } else {
        format!("rates of its own, such as {}", properties.rate_key)
    };
    for key in unused.iter().filter(|key| s.has(key)) {
        let kind = plan.algorithm.kind();
        let note = format!("training.{key}{UNUSED}{kind}, which has {instead}");
        plan.notes.push(note);
    }
    plan.pace.bind(s, &plan.algorithm);
    unused.iter().for_each(|key| s.forget(key));
    s.field(&ON_NONFINITE, &mut plan.skip_nonfinite);
    s.field(&CLASS_WEIGHTS, &mut plan.class_weights);
}
