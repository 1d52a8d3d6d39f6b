//! LG-FedAvg (Liang et al., 2020): a representation of every client's own under a shared
//! head.

use std::ops::Range;

use super::layers::{Partly, Sharing, start_of_last};
use super::{AlgorithmKind, AlgorithmSpec, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::model::Layout;
use crate::settings::{Kind, Section, Setting, Settings, Whole, at_least};

/// LG-FedAvg: a [`Head`] shared, the first layers kept.
///
/// *Shared* is the averaged head on w⁰'s first layers (the warm-up's, where there was one);
/// *localized* and *personal* are the client's own first layers with the head after its steps.
pub type LgFedAvg = Partly<Head>;

/// LG-FedAvg's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// The last layers, which are averaged.
    pub shared_layers: usize,
    /// Rounds of FedAvg before.
    pub warmup: u64,
}

const SHARED_LAYERS: Setting<Whole> = Setting::number("shared_layers", 1, at_least(0).to(64))
    .help("the last layers, which are averaged, at most all of the model's");

const WARMUP: Setting<Whole> = Setting::number("warmup", 0, at_least(0).to(i64::MAX as u64))
    .help("rounds of FedAvg before, in which all layers are averaged");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "lgfedavg",
    about: "a representation of every client's own, a shared head (Liang et al., 2020)",
    settings: &[&SHARED_LAYERS, &WARMUP],
    examples: &["{ kind = 'lgfedavg' }", "{ kind = 'lgfedavg', warmup = 2 }"],
    value: |s| AlgorithmSpec::LgFedAvg(s.filled(LgFedAvg::last_layers_shared(0, 0))),
};

impl Settings for Head {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&SHARED_LAYERS, &mut self.shared_layers);
        s.field(&WARMUP, &mut self.warmup);
    }
}

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
    fn train(&self, whole: &mut [f32], _: &Range<usize>, client: &mut LocalClient<'_>) {
        Sgd::round(whole, client);
    }

    fn properties(&self) -> Properties {
        Properties {
            models: [
                "the mean head on w⁰'s base",
                "the client's own base, and the head",
                "the same",
            ],
            layers: Some(("algorithm.shared_layers", self.shared_layers)),
            ..Properties::default()
        }
    }
}
