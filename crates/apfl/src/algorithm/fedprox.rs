//! FedProx (Li et al., 2018): FedAvg with a proximal term to the received model.

use super::{AlgorithmKind, AlgorithmSpec, OneModel, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::params::Params;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};

/// FedProx's settings. The three models are FedAvg's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedProx {
    /// μ
    pub proximal: f32,
}

const PROXIMAL: Setting<Number> = Setting::number("proximal", 0.01, at_least(0.0).to(1e6))
    .symbol("μ")
    .help("the pull to the received model, (μ/2)‖y − w‖² (0: FedAvg)");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedprox",
    about: "FedAvg with a pull to the received model (Li et al., 2018)",
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
    type ClientState = ();

    fn join(&self, _w0: &[f32]) {}

    /// ```text
    /// y ← w;   y ← y − η(∇fᵢ(y; ξ) + μ(y − w))   τ times;   w ← mean y
    /// ```
    fn local_round(&self, w: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
        let mut y = w.to_vec();
        let mut sgd = Sgd::new(client);
        for s in 0..client.steps() {
            client.next_batch();
            sgd.step_near(&mut y, client.rate(s), (self.proximal, w), client);
        }
        sgd.end(client);
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
