//! FedProx (Li et al., 2018): FedAvg whose clients are held near the model they received.

use super::{Algorithm, AlgorithmKind, AlgorithmSpec, Properties};
use crate::pack::ModelOnly;
use crate::settings::Kind;
use crate::site::{Predictor, Sgd, Site};

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

impl Algorithm for FedProx {
    one_model!();
    type Memory = ();

    fn join(&self, _w0: &[f32]) {}

    /// ```text
    /// y ← w;   y ← y − η(∇fᵢ(y; ξ) + μ(y − w))   τ times;   w ← mean y
    /// ```
    fn local_round(&self, sent: &ModelOnly, _: &mut (), site: &mut Site<'_>) -> ModelOnly {
        let mut y = sent.model.clone();
        let mut sgd = Sgd::new(site);
        for s in 0..site.steps() {
            site.next_batch();
            let pull = (self.proximal, &sent.model[..]);
            sgd.step_near(&mut y, site.rate(s), pull, site);
        }
        sgd.end(site);
        ModelOnly { model: y }
    }

    fn personal<'a>(&self, _: &'a (), update: &'a ModelOnly, _: &mut Site<'_>) -> Predictor<'a> {
        Predictor::At(&update.model)
    }

    fn problem(&self) -> Option<String> {
        let right = (0.0..=1e6).contains(&self.proximal);
        (!right).then(|| format!("μ is {}, allowed is 0 to 1e6", self.proximal))
    }

    fn properties(&self) -> Properties {
        Properties {
            momentum: true,
            ..Properties::default()
        }
    }

    fn details(&self) -> String {
        format!(" (μ = {})", self.proximal)
    }
}
