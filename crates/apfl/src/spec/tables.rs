//! All tables of a spec with their settings and kinds, for documentation and tests.

use super::{engine, evaluation, federation, plan, schedule, sites, stop, theory, training};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::AlgorithmSpec;
use crate::algorithm::apfl::mixing;
use crate::attack::ATTACKS;
use crate::data::Source;
use crate::data::partition::Partition;
use crate::model::{AUGMENT, Architecture, Shape};
use crate::privacy::PrivacySettings;
use crate::settings::{Declaration, Kind};

/// Represents the kinds that one key of a spec may name.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The table of the key, such as `data.partition`.
    pub table: &'static str,
    /// The key, such as `kind`.
    pub key: &'static str,
    /// The kinds; the first is the default.
    pub kinds: Vec<Kind<()>>,
}

/// Returns all registries, in the order of a spec.
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

/// Represents one table of a spec.
#[derive(Clone, Debug)]
pub struct SpecTable {
    /// The path, such as `training.schedule`; empty for the top level.
    pub path: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The settings that do not depend on a kind.
    pub settings: Vec<&'static dyn Declaration>,
}

/// Returns all tables, in the order of a spec.
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
        of("", "settings outside of any table", &[plan::ROOT]),
        of(
            "data",
            "where the data comes from",
            &[Source::SETTINGS, &[&AUGMENT]],
        ),
        of(
            "data.partition",
            "how examples are assigned to clients if the data does not name clients",
            &[],
        ),
        of(
            "model",
            "the model that is trained",
            &[Architecture::SETTINGS],
        ),
        of("algorithm", "the algorithm that trains it", &[]),
        of(
            "algorithm.mixing",
            "APFL's α: one of `fixed`, `adaptive` and `chosen`; the other keys apply to `chosen`",
            &[mixing::SETTINGS],
        ),
        of(
            "federation",
            "which clients take part, and how the server aggregates their updates",
            federation,
        ),
        of("federation.server", "how the server updates its model", &[]),
        of(
            "federation.attack",
            "simulated attacks of some clients on the shared model",
            &[],
        ),
        of(
            "federation.privacy",
            "differential privacy; without this table there is none",
            &[PrivacySettings::SETTINGS],
        ),
        of("training", "how clients train", &[training::SETTINGS]),
        of(
            "training.schedule",
            "how the learning rate changes",
            &[schedule::SETTINGS, &theory::SETTINGS],
        ),
        of(
            "training.stop",
            "when training ends before its last round; without this table it does not",
            &[stop::SETTINGS],
        ),
        of(
            "evaluation",
            "how models are scored",
            &[evaluation::EVALUATION],
        ),
        of(
            "delivery",
            "finalization: which clients get a model at the end",
            &[evaluation::DELIVERY],
        ),
        of(
            "checkpoint",
            "how often a run is saved",
            &[engine::CHECKPOINT],
        ),
        of("engine", "where clients live and train", &[engine::ENGINE]),
    ]
}
