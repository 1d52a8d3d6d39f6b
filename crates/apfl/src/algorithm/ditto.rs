//! Ditto (Li et al., 2021): beside FedAvg, a model of every client's own that is held near
//! the shared one.

use super::{Algorithm, AlgorithmKind, AlgorithmSpec, Properties};
use crate::pack::{Arrays, ModelOnly, Pack, PackError, View};
use crate::params::Params;
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};
use crate::site::{Predictor, Sgd, Site};

/// Ditto's settings. *Shared* and *localized* are FedAvg's, *personal* is vᵢ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ditto {
    /// λ
    pub proximal: f32,
}

/// vᵢ: what a client remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// vᵢ, the personal model.
    pub v: Params,
}

impl Pack for Memory {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("v", View::F32(&self.v));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            v: arrays.f32("v")?,
        })
    }
}

const PROXIMAL: Setting<Number> = Setting::number("proximal", 1.0, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("the pull of v to the model that was received, (λ/2)‖v − w‖² (0: local)");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "ditto",
    about: "beside FedAvg, a model of one's own held near the shared one (Li et al., 2021)",
    settings: &[&PROXIMAL],
    examples: &["{ kind = 'ditto' }"],
    value: |s| AlgorithmSpec::Ditto(s.filled(Ditto { proximal: 0.0 })),
};

impl Settings for Ditto {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&PROXIMAL, &mut self.proximal);
    }
}

impl Algorithm for Ditto {
    one_model!();
    type Memory = Memory;

    fn join(&self, w0: &[f32]) -> Memory {
        Memory { v: w0.to_vec() }
    }

    /// With wᵗ the model that was received, on the same batches:
    ///
    /// ```text
    /// wᵢ ← wᵗ;   τ times:
    ///   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)
    ///   vᵢ ← vᵢ − η(∇fᵢ(vᵢ; ξ) + λ(vᵢ − wᵗ))
    /// ```
    fn local_round(&self, sent: &ModelOnly, local: &mut Memory, site: &mut Site<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        let (mut of_w, mut of_v) = (Sgd::new(site), Sgd::new(site));
        for s in 0..site.steps() {
            let eta = site.rate(s);
            site.next_batch();
            of_w.step(&mut w, eta, site);
            of_v.step_near(&mut local.v, eta, (self.proximal, &sent.model), site);
        }
        of_w.end(site);
        of_v.end(site);
        ModelOnly { model: w }
    }

    /// vᵢ
    fn personal<'a>(&self, local: &'a Memory, _: &'a ModelOnly, _: &mut Site<'_>) -> Predictor<'a> {
        Predictor::At(&local.v)
    }

    fn own<'a>(&self, local: &'a Memory, _: &'a ModelOnly) -> &'a [f32] {
        &local.v
    }

    fn properties(&self) -> Properties {
        Properties {
            momentum: true,
            gradients: 2,
            ..Properties::default()
        }
    }

    fn details(&self) -> String {
        format!(" (λ = {})", self.proximal)
    }
}
