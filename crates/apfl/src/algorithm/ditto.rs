//! Ditto (Li et al., 2021): FedAvg, and a personal model per client with a proximal term to the
//! shared one.

use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::pack::OwnModel;
use crate::params::Params;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};

/// Ditto's settings. *Shared* and *localized* are FedAvg's, *personal* is vᵢ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ditto {
    /// λ
    pub proximal: f32,
}

const PROXIMAL: Setting<Number> = Setting::number("proximal", 1.0, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("the pull of v to the received model, (λ/2)‖v − w‖² (0: local)");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "ditto",
    about: "FedAvg, and personal models near the shared one (Li et al., 2021)",
    settings: &[&PROXIMAL],
    examples: &["{ kind = 'ditto' }"],
    value: |s| AlgorithmSpec::Ditto(s.filled(Ditto { proximal: 0.0 })),
};

impl Settings for Ditto {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&PROXIMAL, &mut self.proximal);
    }
}

impl OneModel for Ditto {
    type ClientState = OwnModel; // vᵢ

    fn join(&self, w0: &[f32]) -> OwnModel {
        OwnModel { v: w0.to_vec() }
    }

    /// Trains w and v on the same batches, with `sent` for wᵗ:
    ///
    /// ```text
    /// wᵢ ← wᵗ;   τ times:
    ///   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)
    ///   vᵢ ← vᵢ − η(∇fᵢ(vᵢ; ξ) + λ(vᵢ − wᵗ))
    /// ```
    fn local_round(
        &self,
        sent: &[f32],
        own: &mut OwnModel,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let mut w = sent.to_vec();
        let (mut sgd_w, mut sgd_v) = (Sgd::new(client), Sgd::new(client));
        for s in 0..client.steps() {
            let eta = client.rate(s);
            client.next_batch();
            sgd_w.step(&mut w, eta, client);
            sgd_v.step_near(&mut own.v, eta, (self.proximal, sent), client);
        }
        sgd_w.end(client);
        sgd_v.end(client);
        w
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::two(&after.update.model, &after.local.v)
    }

    fn properties(&self) -> Properties {
        Properties {
            details: format!(" (λ = {})", self.proximal),
            models: ["w", "wᵢ after the local steps", "vᵢ"],
            momentum: true,
            gradients: 2,
            ..Properties::default()
        }
    }
}
