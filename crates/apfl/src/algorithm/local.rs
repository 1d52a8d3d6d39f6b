//! Local training without communication: APFL's v at α = 1.

use super::{AfterRound, Algorithm, AlgorithmKind, AlgorithmSpec, Models, Properties, Sender};
use crate::local_client::{LocalClient, Sgd};
use crate::pack::ModelOnly;
use crate::settings::{Kind, Section, Settings};

/// Local SGD without communication.
///
/// ```text
/// vᵢ ← vᵢ − η∇fᵢ(vᵢ; ξ)   τ times a round;   vᵢ⁰ = w⁰;   w = w⁰, unchanged
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalOnly;

pub(super) const KIND: AlgorithmKind = Kind {
    name: "local",
    about: "every client trains alone; nothing is sent",
    settings: &[],
    examples: &["{ kind = 'local' }"],
    value: |_| AlgorithmSpec::Local(LocalOnly),
};

impl Settings for LocalOnly {
    fn settings(&mut self, _: &mut Section<'_>) {}
}

impl Algorithm for LocalOnly {
    type Server = ModelOnly;
    type Broadcast = ();
    type ClientState = ModelOnly;
    type Update = ();
    type Fold = ();

    fn start(&self, w0: &[f32], _clients: usize) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    fn broadcast(&self, _: &ModelOnly) {}

    fn join(&self, w0: &[f32]) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    fn local_round(&self, _: &(), local: &mut ModelOnly, client: &mut LocalClient<'_>) {
        Sgd::round(&mut local.model, client);
    }

    fn fold(&self, _: &ModelOnly, _: &mut (), _: Sender, _: ()) {}

    fn finish(&self, _: &mut ModelOnly, _: ()) {}

    fn shared<'a>(&self, server: &'a ModelOnly) -> &'a [f32] {
        &server.model
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.local.model)
    }

    fn properties(&self) -> Properties {
        Properties {
            models: ["w⁰, unchanged", "vᵢ", "the same"],
            aggregator_problem: Some("algorithm \"local\" sends no model"),
            optimizer_problem: Some("algorithm \"local\" has no shared model to move"),
            momentum: true,
            ..Properties::default()
        }
    }
}
