//! FedProx (Li et al., 2018): FedAvg whose clients are held near the model they received.

use super::properties::out_of_range;
use super::{AlgorithmKind, AlgorithmSpec, OneModel, Properties};
use crate::params::Params;
use crate::settings::Kind;
use crate::site::{Sgd, Site};

/// FedProx's settings. The three models are FedAvg's.
///
/// | key | symbol | default | allowed |
/// |---|---|---|---|
/// | `proximal` | μ of (μ/2)‖y − w‖² | 0.01 | 0 to 1e6 |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedProx {
    /// μ
    pub proximal: f32,
}

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedprox",
    about: "FedAvg, held near the model that was received (Li et al., 2018)",
    keys: &[(
        "proximal = 0.01",
        "μ, the pull to the model that was received: 0 (FedAvg) to 1e6",
    )],
    examples: &["{ kind = 'fedprox', proximal = 0.5 }"],
    read: |s| {
        let proximal = s.float("proximal", 0.01, 0.0..=1e6, "0 to 1e6") as f32;
        AlgorithmSpec::FedProx(FedProx { proximal })
    },
};

impl OneModel for FedProx {
    type Memory = ();

    fn join(&self, _w0: &[f32]) {}

    /// ```text
    /// y ← w;   y ← y − η(∇fᵢ(y; ξ) + μ(y − w))   τ times;   w ← mean y
    /// ```
    fn local_round(&self, w: &[f32], _: &mut (), site: &mut Site<'_>) -> Params {
        let mut y = w.to_vec();
        let mut sgd = Sgd::new(site);
        for s in 0..site.steps() {
            site.next_batch();
            sgd.step_near(&mut y, site.rate(s), (self.proximal, w), site);
        }
        sgd.end(site);
        y
    }

    fn properties(&self) -> Properties {
        Properties {
            problem: out_of_range("μ", self.proximal, 0.0..=1e6, "0 to 1e6"),
            details: format!(" (μ = {})", self.proximal),
            momentum: true,
            ..Properties::default()
        }
    }
}
