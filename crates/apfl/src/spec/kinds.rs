//! Every table of kinds that a spec chooses from, for those who show or test them all.

use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::AlgorithmSpec;
use crate::attack::{AttackKind, NONE};
use crate::data::Source;
use crate::data::partition::Partition;
use crate::model::Shape;
use crate::settings::Kind;

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

/// All of them, in the order of a spec.
pub fn registries() -> Vec<Registry> {
    fn of<T>(table: &'static str, key: &'static str, kinds: &[Kind<T>]) -> Registry {
        Registry {
            table,
            key,
            kinds: kinds.iter().map(Kind::shown).collect(),
        }
    }
    let mut attacks = of("federation.attack", "kind", AttackKind::KINDS);
    attacks.kinds.insert(0, NONE);
    vec![
        of("data", "kind", Source::KINDS),
        of("data.partition", "kind", Partition::KINDS),
        of("model", "kind", Shape::KINDS),
        of("algorithm", "kind", AlgorithmSpec::KINDS),
        of("federation", "aggregation", Aggregation::KINDS),
        of("federation.server", "kind", ServerOptimizer::KINDS),
        attacks,
    ]
}
