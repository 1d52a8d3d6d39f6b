//! Federated averaging (McMahan et al., 2017), as the paper compares with it.

use super::{Agnostic, AlgorithmKind, AlgorithmSpec, OneModel, Properties, agnostic};
use crate::params::Params;
use crate::settings::Kind;
use crate::site::{Sgd, Site};

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
    keys: &[agnostic::KEY],
    examples: &[
        "{ kind = 'fedavg' }",
        "{ kind = 'fedavg', agnostic = true }",
    ],
    read: |s| match agnostic::read(s) {
        None => AlgorithmSpec::FedAvg(FedAvg),
        Some(step) => AlgorithmSpec::AgnosticFedAvg(Agnostic {
            inner: FedAvg,
            step,
        }),
    },
};

impl OneModel for FedAvg {
    type Memory = ();

    fn join(&self, _w0: &[f32]) {}

    fn local_round(&self, sent: &[f32], _: &mut (), site: &mut Site<'_>) -> Params {
        let mut w = sent.to_vec();
        Sgd::round(&mut w, site);
        w
    }

    fn properties(&self) -> Properties {
        Properties {
            momentum: true,
            ..Properties::default()
        }
    }
}
