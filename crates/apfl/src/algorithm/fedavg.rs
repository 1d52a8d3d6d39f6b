//! Federated averaging (McMahan et al., 2017), as the paper compares with it.

use super::agnostic::AGNOSTIC;
use super::{Agnostic, Algorithm, AlgorithmKind, AlgorithmSpec, Properties};
use crate::pack::ModelOnly;
use crate::settings::{Kind, Section, Settings};
use crate::site::{Predictor, Sgd, Site};

/// τ local steps from w, then the mean.
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

impl Algorithm for FedAvg {
    one_model!();
    type Memory = ();

    fn join(&self, _w0: &[f32]) {}

    fn local_round(&self, sent: &ModelOnly, _: &mut (), site: &mut Site<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        let mut sgd = Sgd::new(site);
        for s in 0..site.steps() {
            site.next_batch();
            sgd.step(&mut w, site.rate(s), site);
        }
        sgd.end(site);
        ModelOnly { model: w }
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
}
