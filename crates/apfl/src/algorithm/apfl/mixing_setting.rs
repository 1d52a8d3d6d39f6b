//! The setting `mixing` of APFL: α fixed, learned, or chosen on held-out rows.

use toml::{Table, Value};

use super::Mixing;
use crate::choice::Choosing;
use crate::settings::{
    Custom, Declaration, Flag, Number, Section, Setting, SettingField, Whole, above_zero,
    as_number, at_least,
};

/// α as in a spec.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Alpha {
    /// One α per client, fixed or learned.
    One(Mixing),
    /// Chosen by each client.
    Chosen(Choosing),
}

pub(super) const MIXING: Setting<Custom<Mixing>> = Setting::custom(
    "mixing",
    Custom {
        name: "table",
        default: || Some(Mixing::Adaptive(0.01)),
        allowed: "{ fixed = α }, { adaptive = α⁰ } or { chosen = [α, …] } with 0 ≤ α ≤ 1",
        parse: one_alpha,
        write: |mixing| {
            let (key, alpha) = match mixing {
                Mixing::Fixed(alpha) => ("fixed", alpha),
                Mixing::Adaptive(alpha) => ("adaptive", alpha),
            };
            Table::from_iter([(key.to_string(), Value::Float(alpha.to_setting()))]).into()
        },
    },
)
.symbol("α")
.help(
    "the share of the client's own v in its mixture: learned from this start; or { fixed = 0.5 }; or \
         { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1], folds = 5, prior = 50 }: the best on held-out rows",
)
.example("{ adaptive = 0.01 }")
.source("Algorithm 1, section 4.2");

/// Reads a table with one entry, a fixed or a learned α.
fn one_alpha(found: &Value) -> Option<Mixing> {
    let table = found.as_table()?;
    let (key, value) = table.iter().next().filter(|_| table.len() == 1)?;
    let alpha = share(value)?;
    match key.as_str() {
        "fixed" => Some(Mixing::Fixed(alpha)),
        "adaptive" => Some(Mixing::Adaptive(alpha)),
        _ => None,
    }
}

/// Reads a number from 0 to 1.
fn share(value: &Value) -> Option<f32> {
    let number = as_number(value)?;
    // −0 + 0 is 0.
    (0.0..=1.0).contains(&number).then_some(number as f32 + 0.0)
}

const UNIT: crate::settings::Range<f64> = at_least(0.0).to(1.0);
const FIXED: Setting<Number> = Setting::optional("fixed", UNIT)
    .symbol("α")
    .help("one fixed α for every client");
const ADAPTIVE: Setting<Number> = Setting::optional("adaptive", UNIT)
    .symbol("α⁰")
    .help("the α from which every client learns its own")
    .source("section 4.2");
const CHOSEN: Setting<Custom<Vec<f32>>> = Setting::custom(
    "chosen",
    Custom {
        name: "list of numbers",
        default: || None,
        allowed: "a list of 1 to 32 different α from 0 to 1, such as [0, 0.25, 0.5, 1]",
        parse: |found| {
            let alphas: Option<Vec<f32>> = found.as_array()?.iter().map(share).collect();
            let mut alphas = alphas?;
            alphas.sort_by(f32::total_cmp);
            let different = alphas.windows(2).all(|pair| pair[0] < pair[1]);
            (different && (1..=32).contains(&alphas.len())).then_some(alphas)
        },
        write: |alphas| {
            let alphas: Vec<f64> = alphas.iter().map(SettingField::to_setting).collect();
            alphas.into()
        },
    },
)
.symbol("A")
.help("the α of each client is the best on its held-out rows (docs/CHOICE.md)");
const FOLDS: Setting<Whole> = Setting::number("folds", 5, at_least(1).to(100))
    .help("passes with a part of the rows held out; a last pass uses all rows");
const PRIOR: Setting<Number> = Setting::number("prior", 50.0, at_least(0.0).to(1e15))
    .symbol("κ")
    .help("the weight of the federation's losses, in rows of a client");
const HELD_OUT: Setting<Number> =
    Setting::number("aside", 0.2, above_zero(f64::MIN_POSITIVE).to(0.9))
        .help("the share of held-out rows")
        .with("folds = 1");
const REFIT: Setting<Flag> = Setting::flag("refit", true)
    .help("whether a last pass trains on all rows; else the models of the only pass are final")
    .with("folds = 1");
const PASS: Setting<Whole> = Setting::optional("pass", at_least(1).up_to_setting("folds"))
    .help("runs this pass only, as in choice/1, … of a run directory");

/// The settings in the table.
pub(crate) const SETTINGS: &[&dyn Declaration] = &[
    &FIXED, &ADAPTIVE, &CHOSEN, &FOLDS, &PRIOR, &HELD_OUT, &REFIT, &PASS,
];

impl Alpha {
    pub(super) fn settings(&mut self, s: &mut Section<'_>) {
        if s.has_nested("mixing", "chosen") {
            *self = Alpha::Chosen(Choosing::from([0.0, 1.0]));
        }
        match self {
            Alpha::One(mixing) => s.field(&MIXING, mixing),
            Alpha::Chosen(choosing) => s.section("mixing", |s| bind(choosing, s)),
        }
    }
}

/// Binds `chosen` and the keys beside it.
fn bind(choosing: &mut Choosing, s: &mut Section<'_>) {
    s.field_or(&CHOSEN, vec![0.0, 1.0], &mut choosing.candidates);
    if !choosing.candidates.is_sorted() {
        let found = &choosing.candidates;
        s.problem(
            "chosen",
            format!("found {found:?}, allowed is an ascending list"),
        );
    }
    s.field(&FOLDS, &mut choosing.folds);
    s.field(&PRIOR, &mut choosing.prior);
    if choosing.folds == 1 {
        s.field(&HELD_OUT, &mut choosing.aside);
        s.field(&REFIT, &mut choosing.refit);
    } else {
        let share = s.take("aside").is_some();
        // A resolved spec has refit = true.
        let refit = s
            .take("refit")
            .map_or(choosing.refit, |refit| refit.as_bool() == Some(true));
        for (key, wrong) in [("aside", share), ("refit", !refit)] {
            if wrong {
                let problem =
                    "applies to folds = 1 only; with more folds every row is held out once";
                s.problem(key, problem);
            }
        }
    }
    s.optional_field(&PASS.up_to(choosing.folds), &mut choosing.pass);
}
