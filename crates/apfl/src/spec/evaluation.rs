//! `[evaluation]` and `[delivery]`: how models are scored, and which clients are finalized.

use super::Plan;
use crate::settings::{Declaration, Flag, Section, Setting, Whole, Words, at_least};
use crate::training::FinalizedClients;

const EVERY: Setting<Whole> = Setting::number("every", 1, at_least(1).to(i64::MAX as u64))
    .help("rounds between evaluations; the last round is always evaluated");

const BATCH: Setting<Whole> = Setting::optional("batch", at_least(1).to(1 << 40))
    .help("shuffled rows scored at a time; changes scores only with model.norm = \"batch\"")
    .usually("chosen by the program")
    .example("20")
    .seldom();

const CLIENTS: Setting<Words<FinalizedClients>> = Setting::words(
    "clients",
    "all",
    &[
        ("all", FinalizedClients::All, ""),
        (
            "drawn",
            FinalizedClients::Sampled,
            "clients that were sampled at least once",
        ),
        ("none", FinalizedClients::None, ""),
    ],
)
.help("clients that get a last local round, scores and a model at the end");

const KEEP: Setting<Flag> = Setting::flag("keep", true).help("keep the clients' models");

pub(super) const EVALUATION: &[&dyn Declaration] = &[&EVERY, &BATCH];
pub(super) const DELIVERY: &[&dyn Declaration] = &[&CLIENTS, &KEEP];

/// Binds both tables.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>) {
    s.section("evaluation", |s| {
        s.knows(&["batch"]);
        s.optional_field(&BATCH, &mut plan.architecture.extras.evaluation_batch);
        s.field(&EVERY, &mut plan.evaluate_every);
    });
    s.section("delivery", |s| {
        s.field(&CLIENTS, &mut plan.finalized_clients);
        s.field(&KEEP, &mut plan.keep_models);
    });
}
