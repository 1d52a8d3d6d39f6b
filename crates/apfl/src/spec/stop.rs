//! `training.stop`: training that ends when it no longer improves.

use crate::settings::{Declaration, Number, Section, Setting, Whole, at_least};

const PATIENCE: Setting<Whole> = Setting::number("patience", 10, at_least(1).to(1 << 20)).help(
    "evaluations whose mean loss is compared with the mean of as many evaluations before them",
);

const MIN_DELTA: Setting<Number> = Setting::number("min_delta", 1e-4, at_least(0.0).below(1.0))
    .help("the least relative improvement of that mean; with less, training ends");

pub(super) const SETTINGS: &[&dyn Declaration] = &[&PATIENCE, &MIN_DELTA];

/// Represents the condition under which training ends before its last round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// Evaluations that a mean is taken over.
    pub patience: u64,
    /// The least relative improvement.
    pub min_delta: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            patience: 10,
            min_delta: 1e-4,
        }
    }
}

impl Stop {
    /// Binds `training.stop`: a table, or "off", which is the default and not written.
    pub(super) fn bind(stop: &mut Option<Self>, s: &mut Section<'_>) {
        s.knows(&["stop"]);
        if s.is_reading() {
            if s.is_text("stop") {
                let found = s.take("stop").unwrap_or("".into());
                if found.as_str() != Some("off") {
                    let allowed = "allowed is \"off\" or a table, such as { patience = 10 }";
                    s.problem("stop", format!("found {found}, {allowed}"));
                }
            }
            *stop = s.has("stop").then(Self::default);
        }
        let Some(stop) = stop else {
            return;
        };
        s.section("stop", |s| {
            s.field(&PATIENCE, &mut stop.patience);
            s.field(&MIN_DELTA, &mut stop.min_delta);
        });
    }
}
