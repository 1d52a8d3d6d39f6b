//! `[training.schedule]`: how the learning rate changes.

use super::theory;
use crate::algorithm::AlgorithmSpec;
use crate::schedule::{Per, Schedule, Theory};
use crate::settings::{
    Declaration, Number, Range, Section, Setting, Values, Words, above_zero, at_least,
};

/// Kinds of schedules that a spec may name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ScheduleKind {
    Constant,
    Geometric,
    Inverse,
    Theory,
}

const KIND: Setting<Words<ScheduleKind>> = Setting::words(
    "kind",
    "geometric",
    &[
        (
            "constant",
            ScheduleKind::Constant,
            "the rate does not change",
        ),
        ("geometric", ScheduleKind::Geometric, "η·factor^k"),
        ("inverse", ScheduleKind::Inverse, "η/(1 + factor·t)"),
        ("theory", ScheduleKind::Theory, "a theorem's step sizes"),
    ],
)
.help("how the learning rate changes");

const FACTOR: Setting<Number> =
    Setting::number("factor", 0.99, above_zero(f64::MIN_POSITIVE).to(1.0))
        .with("kind = \"geometric\"")
        .help("the ratio of a rate to the previous one")
        .usually("`0.99`; with algorithm.preset = \"authors\" 1/1.01");

const PER: Setting<Words<Per>> = Setting::words(
    "per",
    "round",
    &[
        ("round", Per::Round, "as in the paper"),
        ("epoch", Per::Epoch, "a pass over the client's examples"),
        ("step", Per::Step, ""),
    ],
)
.with("kind = \"geometric\"")
.help("unit of k")
.usually("`\"round\"`; with algorithm.preset = \"authors\" `\"epoch\"`");

const ADDED: Setting<Number> = Setting::number(
    "factor",
    0.01,
    above_zero(f64::MIN_POSITIVE).to(1e15),
)
.symbol("c")
.with("kind = \"inverse\"")
.help(
    "what every local step adds to the divisor of the rate; t counts the local steps before \
             this one, so the first step of a run has the rate η",
)
.source("section 5, after Bottou (2012)");

// Schedules that the builder accepts but no spec can name.
const POSITIVE: Range<f64> = above_zero(f64::MIN_POSITIVE);
const NUMERATOR: Setting<Number> = Setting::optional("numerator", POSITIVE);
const MU: Setting<Number> = Setting::optional("mu", POSITIVE);
const SHIFT: Setting<Number> = Setting::optional("a", at_least(0.0));
const RATE: Setting<Number> = Setting::optional("rate", POSITIVE);

/// The settings that do not belong to a theorem.
pub(super) const SETTINGS: &[&dyn Declaration] = &[&KIND, &FACTOR, &PER, &ADDED];

/// Represents a schedule, or a theorem whose schedule may depend on the data.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedSchedule {
    /// A schedule that does not depend on the data.
    Known(Schedule),
    /// A theorem's schedule, whose constants may be measured on the data.
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

impl PlannedSchedule {
    /// Returns the default schedule of an algorithm.
    pub(crate) fn default_of(algorithm: &AlgorithmSpec) -> Self {
        let (factor, per) = algorithm.default_decay();
        let per = PER.values.parse(&per.into());
        let per = per.expect("a value of `per`");
        Self::Known(Schedule::Geometric { factor, per })
    }

    /// Returns whether the schedule has a shift a.
    pub(super) fn has_shift(&self) -> bool {
        match self {
            Self::Known(schedule) => schedule.shift().is_some(),
            Self::Theory(theory) => theory.convex(),
        }
    }

    pub(super) fn bind(&mut self, s: &mut Section<'_>, default: Self) {
        if s.is_reading() {
            *self = match s.get(&KIND) {
                ScheduleKind::Constant => Self::Known(Schedule::Constant),
                ScheduleKind::Geometric => default,
                ScheduleKind::Inverse => Self::Known(Schedule::Inverse { factor: 0.0 }),
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
            Self::Known(Schedule::Inverse { factor }) => {
                kind(s, "inverse");
                s.field(&ADDED, factor);
            }
            Self::Known(Schedule::Theorem { numerator, mu, a }) => {
                kind(s, "theorem");
                s.field(&NUMERATOR, numerator);
                s.field(&MU, mu);
                s.field(&SHIFT, a);
            }
            Self::Known(Schedule::Flat { rate }) => {
                kind(s, "flat");
                s.field(&RATE, rate);
            }
            Self::Theory(theory) => {
                kind(s, "theory");
                theory::bind(theory, s);
            }
        }
    }
}
