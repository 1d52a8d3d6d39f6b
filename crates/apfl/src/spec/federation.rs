//! `[federation]`: which clients take part in a round, and how the server aggregates updates.

use super::{Plan, sites};
use crate::attack::Attack;
use crate::privacy::{NoiseSeed, PrivacySettings};
use crate::settings::{Declaration, Inner, Number, Section, Setting, Settings, Words, above_zero};
use crate::training::Weights;

const PARTICIPATION: Setting<Number> =
    Setting::number("participation", 1.0, above_zero(f64::MIN_POSITIVE).to(1.0))
        .symbol("K/n")
        .help("the share of clients sampled per round; at least one client");

const WEIGHTS: Setting<Words<Weights>> = Setting::words(
    "weights",
    "uniform",
    &[
        ("uniform", Weights::Uniform, "as in the paper"),
        (
            "examples",
            Weights::Examples,
            "by number of training examples",
        ),
    ],
)
.help("how updates are weighted in the mean");

const SERVER: Setting<Inner> = Setting::table("server", "a kind, or a table of one")
    .help("how the server updates its model from the aggregated one")
    .usually("`\"mean\"`")
    .example("\"mean\"");

const ATTACK: Setting<Inner> = Setting::table("attack", "a kind, or a table of one")
    .help("simulated attacks of some clients on the shared model; attackers are not scored")
    .usually("`\"none\"`")
    .example("\"none\"");

const PRIVACY: Setting<Inner> = Setting::table("privacy", "a table")
    .help(
        "differential privacy (docs/PRIVACY.md); level: client · example; noise = σ instead of \
         epsilon, or both; noise_seed = \"system\" outside of simulations",
    )
    .usually("none")
    .example("{ level = \"client\", epsilon = 8.0, delta = 1e-5, clip = 1.0 }")
    .seldom();

/// The settings that do not depend on the kind of `aggregation`, `server` or `attack`.
pub(super) const SETTINGS: &[&dyn Declaration] = &[&PARTICIPATION, &WEIGHTS];
pub(super) const TABLES: &[&dyn Declaration] = &[&SERVER, &ATTACK, &PRIVACY];

/// Binds the table.
pub(super) fn bind(plan: &mut Plan, s: &mut Section<'_>) {
    if s.is_reading() {
        plan.sites = sites::read(s);
    }
    // A federation over sites is not a simulation, so its noise must not follow from the seed.
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
