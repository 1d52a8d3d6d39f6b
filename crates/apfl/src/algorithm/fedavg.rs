//! Federated averaging (McMahan et al., 2017).

use super::agnostic::AGNOSTIC;
use super::{Agnostic, AlgorithmKind, AlgorithmSpec, OneModel, Properties};
use crate::local_client::{LocalClient, Sgd};
use crate::params::Params;
use crate::settings::{Kind, Section, Settings};

/// FedAvg: τ local steps from w, then the mean.
///
/// ```text
/// wᵢ ← w;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times;   w ← (1/|U|) Σ_{i∈U} wᵢ
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedAvg;

/// FedAvg for the worst mixture of clients.
pub type AgnosticFedAvg = Agnostic<FedAvg>;

pub(super) const KIND: AlgorithmKind = Kind {
    name: "fedavg",
    about: "local steps from the shared model, then the mean (McMahan et al., 2017)",
    settings: &[&AGNOSTIC],
    examples: &[
        "{ kind = 'fedavg' }",
        "{ kind = 'fedavg', agnostic = true }",
    ],
    value: |s| match s.get(&AGNOSTIC) {
        None => AlgorithmSpec::FedAvg(FedAvg),
        Some(step) => AlgorithmSpec::AgnosticFedAvg(Agnostic {
            inner: FedAvg,
            step,
        }),
    },
};

impl Settings for FedAvg {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&AGNOSTIC, &mut None);
    }
}

impl Settings for AgnosticFedAvg {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&AGNOSTIC, &mut Some(self.step));
    }
}

impl OneModel for FedAvg {
    type ClientState = ();

    fn join(&self, _w0: &[f32]) {}

    fn local_round(&self, sent: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
        let mut w = sent.to_vec();
        Sgd::round(&mut w, client);
        w
    }

    fn properties(&self) -> Properties {
        Properties {
            momentum: true,
            ..Properties::default()
        }
    }
}
