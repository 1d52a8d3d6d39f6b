//! FedRep (Collins et al., 2021): every client trains its head on the shared representation, then
//! the representation.

use std::ops::Range;

use super::fedper::PRIVATE_LAYERS;
use super::layers::{LayerSharing, Sharing, start_of_last};
use super::{AlgorithmKind, AlgorithmSpec, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::model::Layout;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};

/// FedRep: a [`Representation`] is shared, the head is private. The models are as in FedPer.
pub type FedRep = LayerSharing<Representation>;

/// FedRep's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Representation {
    /// The number of last layers that are private.
    pub private_layers: usize,
    /// τ_h/τ
    pub head_share: f64,
}

const HEAD_SHARE: Setting<Number> = Setting::number("head_share", 0.9, at_least(0.0).to(1.0))
    .symbol("τ_h/τ")
    .help("the share of a round's steps that the head takes");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedrep",
    about: "trains private heads first, then the shared base (Collins et al., 2021)",
    settings: &[&PRIVATE_LAYERS, &HEAD_SHARE],
    examples: &[
        "{ kind = 'fedrep' }",
        "{ kind = 'fedrep', head_share = 0.5 }",
    ],
    value: |s| AlgorithmSpec::FedRep(s.filled(FedRep::last_layers_first(0, 0.0))),
};

impl Settings for Representation {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&PRIVATE_LAYERS, &mut self.private_layers);
        s.field(&HEAD_SHARE, &mut self.head_share);
    }
}

impl FedRep {
    /// Creates FedRep whose last `private_layers` layers are private and take the share `head_share`
    /// of the steps, first.
    pub fn last_layers_first(private_layers: usize, head_share: f64) -> Self {
        LayerSharing::new(Representation {
            private_layers,
            head_share,
        })
    }
}

impl Representation {
    /// Returns τ_h and τ − τ_h, the steps of head and base, each at least one.
    pub fn steps(&self, steps: u64) -> (u64, u64) {
        let head = (self.head_share * steps as f64).round() as u64;
        let head = head.clamp(1, steps.saturating_sub(1).max(1));
        (head, steps.saturating_sub(head).max(1))
    }
}

impl Sharing for Representation {
    fn shared(&self, layout: &Layout) -> Result<Range<usize>, String> {
        Ok(0..start_of_last(layout, self.private_layers)?)
    }

    /// ```text
    /// head ← head − η∇_head fᵢ(base, head; ξ)   τ_h times
    /// base ← base − η∇_base fᵢ(base, head; ξ)   τ − τ_h times;   base ← mean
    /// ```
    ///
    /// If one of them has no layers, the other takes all steps.
    fn train(&self, whole: &mut [f32], shared: &Range<usize>, client: &mut LocalClient<'_>) {
        let (base, head) = (0..shared.end, shared.end..whole.len());
        let (head_steps, base_steps) = match (head.is_empty(), base.is_empty()) {
            (true, _) => (0, client.steps()),
            (_, true) => (client.steps(), 0),
            _ => self.steps(client.steps()),
        };
        let mut sgd = Sgd::new(client);
        for s in 0..head_steps + base_steps {
            let part = if s < head_steps { &head } else { &base };
            client.next_batch();
            sgd.step_part(whole, part.clone(), client.rate(s), client);
        }
        sgd.end(client);
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
