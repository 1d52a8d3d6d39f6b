//! Ditto (Li et al., 2021): beside FedAvg, a model of every client's own that is held near
//! the shared one.

use super::properties::out_of_range;
use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::pack::OwnModel;
use crate::params::Params;
use crate::settings::Kind;
use crate::site::{Sgd, Site};

/// Ditto's settings. *Shared* and *localized* are FedAvg's, *personal* is vᵢ.
///
/// | key | symbol | default | allowed |
/// |---|---|---|---|
/// | `proximal` | λ of (λ/2)‖v − w‖² | 1 | 0 to 1e6 |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ditto {
    /// λ
    pub proximal: f32,
}

pub(super) const KIND: AlgorithmKind = Kind {
    name: "ditto",
    about: "beside FedAvg, a model of one's own held near the shared one (Li et al., 2021)",
    keys: &[(
        "proximal = 1.0",
        "λ, the pull of v to the model that was received: 0 (local) to 1e6",
    )],
    examples: &["{ kind = 'ditto' }"],
    read: |s| {
        let proximal = s.float("proximal", 1.0, 0.0..=1e6, "0 to 1e6") as f32;
        AlgorithmSpec::Ditto(Ditto { proximal })
    },
};

impl OneModel for Ditto {
    type Memory = OwnModel; // vᵢ

    fn join(&self, w0: &[f32]) -> OwnModel {
        OwnModel { v: w0.to_vec() }
    }

    /// On the same batches, with `sent` for wᵗ:
    ///
    /// ```text
    /// wᵢ ← wᵗ;   τ times:
    ///   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)
    ///   vᵢ ← vᵢ − η(∇fᵢ(vᵢ; ξ) + λ(vᵢ − wᵗ))
    /// ```
    fn local_round(&self, sent: &[f32], own: &mut OwnModel, site: &mut Site<'_>) -> Params {
        let mut w = sent.to_vec();
        let (mut of_w, mut of_v) = (Sgd::new(site), Sgd::new(site));
        for s in 0..site.steps() {
            let eta = site.rate(s);
            site.next_batch();
            of_w.step(&mut w, eta, site);
            of_v.step_near(&mut own.v, eta, (self.proximal, sent), site);
        }
        of_w.end(site);
        of_v.end(site);
        w
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut Site<'_>) -> Models<'a> {
        Models::two(&after.update.model, &after.local.v)
    }

    fn properties(&self) -> Properties {
        Properties {
            problem: out_of_range("λ", self.proximal, 0.0..=1e6, "0 to 1e6"),
            details: format!(" (λ = {})", self.proximal),
            models: ["w", "wᵢ after the local steps", "vᵢ"],
            momentum: true,
            gradients: 2,
            ..Properties::default()
        }
    }
}
