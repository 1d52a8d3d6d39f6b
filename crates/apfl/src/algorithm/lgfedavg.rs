//! LG-FedAvg (Liang et al., 2020): a private representation per client and a shared head.

use std::ops::Range;

use super::layers::{LayerSharing, Sharing, start_of_last};
use super::{AlgorithmKind, AlgorithmSpec, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::model::Layout;
use crate::settings::{Kind, Section, Setting, Settings, Whole, at_least};

/// LG-FedAvg: the [`Head`] is shared, the first layers are private.
///
/// *Shared* is the averaged head on the first layers of w⁰, or of the end of the warm-up;
/// *localized* and *personal* are the client's own first layers with the head after its steps.
pub type LgFedAvg = LayerSharing<Head>;

/// LG-FedAvg's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// The number of last layers that are shared.
    pub shared_layers: usize,
    /// Rounds of FedAvg at the start.
    pub warmup: u64,
}

const SHARED_LAYERS: Setting<Whole> = Setting::number("shared_layers", 1, at_least(0).to(64))
    .help("the number of last layers that are shared, at most all of the model's");

const WARMUP: Setting<Whole> = Setting::number("warmup", 0, at_least(0).to(i64::MAX as u64))
    .help("rounds of FedAvg at the start, in which all layers are shared");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "lgfedavg",
    about: "a private representation per client, a shared head (Liang et al., 2020)",
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
    /// Creates LG-FedAvg whose last `shared_layers` layers are shared; the first ones are private
    /// after the warm-up.
    pub fn last_layers_shared(shared_layers: usize, warmup: u64) -> Self {
        LayerSharing::new(Head {
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
    /// During the warm-up also `own` ← mean.
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
