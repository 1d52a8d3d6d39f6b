//! FedPer (Arivazhagan et al., 2019): a shared base and a private head per client.

use std::ops::Range;

use super::layers::{LayerSharing, Sharing, start_of_last};
use super::{AlgorithmKind, AlgorithmSpec, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::model::Layout;
use crate::settings::{Kind, Section, Setting, Settings, Whole, at_least};

/// FedPer: the [`Base`] is shared, the head is private.
///
/// *Shared* is the averaged base with w⁰'s head; *localized* and *personal* are the client's
/// base after its steps with its own head.
pub type FedPer = LayerSharing<Base>;

/// FedPer's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// K_P
    pub private_layers: usize,
}

pub(super) const PRIVATE_LAYERS: Setting<Whole> =
    Setting::number("private_layers", 1, at_least(0).to(64))
        .symbol("K_P")
        .help("the number of last layers that are private, at most all of the model's");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedper",
    about: "a shared base, a private head per client (Arivazhagan et al., 2019)",
    settings: &[&PRIVATE_LAYERS],
    examples: &["{ kind = 'fedper' }"],
    value: |s| AlgorithmSpec::FedPer(s.filled(FedPer::last_layers_private(0))),
};

impl Settings for Base {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&PRIVATE_LAYERS, &mut self.private_layers);
    }
}

impl FedPer {
    /// Creates FedPer whose last `private_layers` layers are private.
    pub fn last_layers_private(private_layers: usize) -> Self {
        LayerSharing::new(Base { private_layers })
    }
}

impl Sharing for Base {
    fn shared(&self, layout: &Layout) -> Result<Range<usize>, String> {
        Ok(0..start_of_last(layout, self.private_layers)?)
    }

    /// ```text
    /// (base, head) ← (base, head) − η∇fᵢ(base, head; ξ)   τ times;   base ← mean
    /// ```
    fn train(&self, whole: &mut [f32], _: &Range<usize>, client: &mut LocalClient<'_>) {
        Sgd::round(whole, client);
    }

    fn properties(&self) -> Properties {
        Properties {
            models: [
                "the mean base with w⁰'s head",
                "the client's own base and head",
                "the same",
            ],
            layers: Some(("algorithm.private_layers", self.private_layers)),
            ..Properties::default()
        }
    }
}
