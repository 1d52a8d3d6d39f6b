//! LG-FedAvg (Liang et al., 2020): a representation of every client's own under a shared
//! head.

use std::ops::Range;

use super::layers::{Partly, Sharing, start_of_last};
use super::{AlgorithmKind, AlgorithmSpec, Properties};
use crate::model::Layout;
use crate::settings::Kind;
use crate::site::{Sgd, Site};

/// LG-FedAvg: a [`Head`] shared, the first layers kept.
///
/// *Shared* is the averaged head on w⁰'s first layers (the warm-up's, where there was one);
/// *localized* and *personal* are the client's own first layers with the head after its steps.
pub type LgFedAvg = Partly<Head>;

/// LG-FedAvg's settings.
///
/// | key | symbol | default | allowed |
/// |---|---|---|---|
/// | `shared_layers` | the last layers, which are averaged | 1 | 0 to all |
/// | `warmup` | rounds of FedAvg before | 0 | 0 or more |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// The last layers, which are averaged.
    pub shared_layers: usize,
    /// Rounds of FedAvg before.
    pub warmup: u64,
}

pub(super) const KIND: AlgorithmKind = Kind {
    name: "lgfedavg",
    about: "a representation of every client's own, a shared head (Liang et al., 2020)",
    keys: &[
        (
            "shared_layers = 1",
            "the last layers, which are averaged: 0 to all of the model's",
        ),
        (
            "warmup = 0",
            "rounds of FedAvg before, all layers averaged: 0 or more",
        ),
    ],
    examples: &["{ kind = 'lgfedavg' }", "{ kind = 'lgfedavg', warmup = 2 }"],
    read: |s| {
        let shared_layers = s.integer("shared_layers", 1, 0..=64, "0 to 64") as usize;
        let most = i64::MAX as u64;
        let warmup = s.integer("warmup", 0, 0..=most, "a whole number ≥ 0");
        AlgorithmSpec::LgFedAvg(LgFedAvg::last_layers_shared(shared_layers, warmup))
    },
};

impl LgFedAvg {
    /// The last layers are averaged, the first stay at their client after the warm-up.
    pub fn last_layers_shared(shared_layers: usize, warmup: u64) -> Self {
        Partly::new(Head {
            shared_layers,
            warmup,
        })
    }
}

impl Sharing for Head {
    fn shared(&self, layout: &Layout) -> Result<Range<usize>, String> {
        Ok(start_of_last(layout, self.shared_layers)?..layout.len())
    }

    fn warmup(&self) -> u64 {
        self.warmup
    }

    /// ```text
    /// (own, head) ← (own, head) − η∇fᵢ(own, head; ξ)   τ times;   head ← mean
    /// ```
    ///
    /// and `own` ← mean too while the warm-up lasts.
    fn train(&self, whole: &mut [f32], _: &Range<usize>, site: &mut Site<'_>) {
        Sgd::round(whole, site);
    }

    fn properties(&self) -> Properties {
        Properties {
            models: [
                "the mean head on w⁰'s base",
                "base of one's own and head",
                "the same",
            ],
            layers: Some(("algorithm.shared_layers", self.shared_layers)),
            ..Properties::default()
        }
    }
}
