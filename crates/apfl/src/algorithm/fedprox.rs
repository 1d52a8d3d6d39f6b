//! FedProx (Li et al., 2018): FedAvg whose clients are held near the model they received.

use super::{Algorithm, AlgorithmKind, AlgorithmSpec, Properties};
use crate::pack::ModelOnly;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};
use crate::site::{Predictor, Sgd, Site};

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
