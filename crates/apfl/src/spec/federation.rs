//! `[federation]`: who takes part in a round, and what the server makes of it.

use super::{Plan, sites};
use crate::attack::Attack;
use crate::privacy::{NoiseSeed, PrivacySettings};
use crate::settings::{Declaration, Inner, Number, Section, Setting, Settings, Words, above_zero};
use crate::training::Weights;

const PARTICIPATION: Setting<Number> =
    Setting::number("participation", 1.0, above_zero(f64::MIN_POSITIVE).to(1.0))
        .symbol("K/n")
        .help("the share of the clients sampled each round, at least one");

const WEIGHTS: Setting<Words<Weights>> = Setting::words(
    "weights",
    "uniform",
    &[
        ("uniform", Weights::Uniform, "the paper's"),
        ("examples", Weights::Examples, "by training examples"),
    ],
)
.help("how updates are weighted in the mean");

const SERVER: Setting<Inner> = Setting::table("server", "a kind, or a table of one")
    .help("how the server moves its model to the cohort's")
    .usually("`\"mean\"`")
    .example("\"mean\"");

const ATTACK: Setting<Inner> = Setting::table("attack", "a kind, or a table of one")
    .help("what some clients do to the shared model; attackers are not scored")
    .usually("`\"none\"`")
    .example("\"none\"");

const PRIVACY: Setting<Inner> = Setting::table("privacy", "a table")
    .help(
        "differential privacy (docs/PRIVACY.md); level: client · example; noise = σ in place of \
         epsilon, or both; noise_seed = \"system\" where it is no simulation",
    )
    .usually("none")
    .example("{ level = \"client\", epsilon = 8.0, delta = 1e-5, clip = 1.0 }")
    .seldom();

/// Its settings beside those of `aggregation`, `server` and `attack`, which are kinds.
pub(super) const SETTINGS: &[&dyn Declaration] = &[&PARTICIPATION, &WEIGHTS];
pub(super) const TABLES: &[&dyn Declaration] = &[&SERVER, &ATTACK, &PRIVACY];

/// Binds the table.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>) {
    if s.is_reading() {
        plan.sites = sites::read(s);
    }
    // Over sites it is no simulation.
    let noise_seed = match plan.sites {
        Some(_) => NoiseSeed::System,
        None => NoiseSeed::Seed,
    };
    PrivacySettings::settings(&mut plan.privacy, s, noise_seed);
    s.field(&PARTICIPATION, &mut plan.participation);
    s.field(&WEIGHTS, &mut plan.weights);
    plan.aggregation.settings(s);
    // `attack = "sign-flip"` is short for `attack = { kind = "sign-flip" }`.
    s.expand_kind("attack");
    s.section("attack", |s| Attack::settings(&mut plan.attack, s));
    s.expand_kind("server");
    s.section("server", |s| plan.server.settings(s));
}
