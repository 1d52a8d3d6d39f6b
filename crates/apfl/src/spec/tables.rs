//! Every table of a spec with its settings and kinds, for those who show or test them all.

use super::{engine, evaluation, federation, plan, schedule, sites, theory, training};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::AlgorithmSpec;
use crate::algorithm::apfl::mixing;
use crate::attack::ATTACKS;
use crate::data::Source;
use crate::data::partition::Partition;
use crate::model::{AUGMENT, Architecture, Shape};
use crate::privacy::PrivacySettings;
use crate::settings::{Declaration, Kind};

/// The kinds that one key of a spec may name.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The table that the key stands in, such as `data.partition`.
    pub table: &'static str,
    /// The key, such as `kind`.
    pub key: &'static str,
    /// The kinds; the first is the one that a spec has where it does not say.
    pub kinds: Vec<Kind<()>>,
}

/// Returns all of them, in the order of a spec.
pub fn registries() -> Vec<Registry> {
    fn of<T>(table: &'static str, key: &'static str, kinds: &[Kind<T>]) -> Registry {
        Registry {
            table,
            key,
            kinds: kinds.iter().map(Kind::shown).collect(),
        }
    }
    vec![
        of("data", "kind", Source::KINDS),
        of("data.partition", "kind", Partition::KINDS),
        of("model", "kind", Shape::KINDS),
        of("algorithm", "kind", AlgorithmSpec::KINDS),
        of("federation", "aggregation", Aggregation::KINDS),
        of("federation.server", "kind", ServerOptimizer::KINDS),
        of("federation.attack", "kind", ATTACKS),
    ]
}

/// One table of a spec.
#[derive(Clone, Debug)]
pub struct SpecTable {
    /// Where it stands, such as `training.schedule`; empty for the spec itself.
    pub path: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// Its settings, but for those of a kind alone.
    pub settings: Vec<&'static dyn Declaration>,
}

/// Returns all of them, in the order of a spec.
pub fn tables() -> Vec<SpecTable> {
    fn of(
        path: &'static str,
        about: &'static str,
        settings: &[&[&'static dyn Declaration]],
    ) -> SpecTable {
        SpecTable {
            path,
            about,
            settings: settings.concat(),
        }
    }
    let federation: &[&[_]] = &[federation::SETTINGS, &sites::SETTINGS, federation::TABLES];
    vec![
        of("", "what stands in no table", &[plan::ROOT]),
        of(
            "data",
            "where the data comes from",
            &[Source::SETTINGS, &[&AUGMENT]],
        ),
        of(
            "data.partition",
            "how examples are assigned to clients, where the data does not say whose they are",
            &[],
        ),
        of("model", "what is trained", &[Architecture::SETTINGS]),
        of("algorithm", "how it is trained", &[]),
        of(
            "algorithm.mixing",
            "APFL's α: one of `fixed`, `adaptive` and `chosen`; the others go with `chosen`",
            &[mixing::SETTINGS],
        ),
        of(
            "federation",
            "who takes part, and what the server makes of it",
            federation,
        ),
        of("federation.server", "how the server moves its model", &[]),
        of(
            "federation.attack",
            "what some clients do to the shared model",
            &[],
        ),
        of(
            "federation.privacy",
            "differential privacy, where the table is written",
            &[PrivacySettings::SETTINGS],
        ),
        of("training", "how clients train", &[training::SETTINGS]),
        of(
            "training.schedule",
            "how the learning rate changes",
            &[schedule::SETTINGS, &theory::SETTINGS],
        ),
        of("evaluation", "what is scored", &[evaluation::EVALUATION]),
        of(
            "delivery",
            "who gets a model at the end",
            &[evaluation::DELIVERY],
        ),
        of(
            "checkpoint",
            "how often a run is saved",
            &[engine::CHECKPOINT],
        ),
        of("engine", "where a run is carried out", &[engine::ENGINE]),
    ]
}
