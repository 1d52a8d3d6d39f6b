//! FedProx (Li et al., 2018): FedAvg whose clients are held near the model they received.

use super::{AlgorithmKind, AlgorithmSpec, OneModel, Properties};
use crate::params::Params;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};
use crate::site::{Sgd, Site};

/// FedProx's settings. The three models are FedAvg's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedProx {
    /// μ
    pub proximal: f32,
}

const PROXIMAL: Setting<Number> = Setting::number("proximal", 0.01, at_least(0.0).to(1e6))
    .symbol("μ")
    .help("the pull to the model that was received, (μ/2)‖y − w‖² (0: FedAvg)");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedprox",
    about: "FedAvg, held near the model that was received (Li et al., 2018)",
    settings: &[&PROXIMAL],
    examples: &["{ kind = 'fedprox', proximal = 0.5 }"],
    value: |s| AlgorithmSpec::FedProx(s.filled(FedProx { proximal: 0.0 })),
};

impl Settings for FedProx {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&PROXIMAL, &mut self.proximal);
    }
}

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
            details: format!(" (μ = {})", self.proximal),
            momentum: true,
            ..Properties::default()
        }
    }
}
