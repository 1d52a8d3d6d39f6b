//! Adaptive personalized federated learning: Algorithm 1 of the paper, with the learned
//! mixing of its section 4.2.
//!
//! The paper's own round is in this file. Departures from it are [`options`], and their
//! round is in `variant.rs`.

pub mod averaged;
pub mod chosen;
mod kind;
pub(crate) mod mixing;
mod momentum;
pub mod options;
mod variant;

pub use averaged::Averaged;
pub use chosen::{AgnosticChosen, Chosen};
pub(super) use kind::KIND;
pub use options::Options;

use self::options::{Mix, Preset};
use super::{Agnostic, Algorithm, Properties, Sender};
use crate::choice::Choosing;
use crate::pack::{Arrays, ModelOnly, Pack, PackError, View};
use crate::params::{Mean, Params, axpy, dot_difference, mix};
use crate::site::{Predictor, Site};

/// The mixing weight αᵢ of every client.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mixing {
    /// α for ever.
    Fixed(f32),
    /// α⁰, learned by each client for itself.
    Adaptive(f32),
}

/// APFL's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apfl {
    /// Fixed or learned αᵢ.
    pub mixing: Mixing,
    /// Departures from the paper.
    pub options: Options,
}

/// APFL for the worst mixture of clients.
pub type AgnosticApfl = Agnostic<Apfl>;

/// What client i remembers: vᵢ and αᵢ.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// vᵢ, the local model.
    pub v: Params,
    /// αᵢ, its share in the mixture.
    pub alpha: f32,
}

impl Pack for Memory {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("v", View::F32(&self.v));
        see("alpha", View::F32(&[self.alpha]));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            v: arrays.f32("v")?,
            alpha: arrays.scalar("alpha")?,
        })
    }
}

impl Apfl {
    /// The paper's.
    pub fn paper(mixing: Mixing) -> Self {
        Self {
            mixing,
            options: Options::PAPER,
        }
    }

    /// The paper's, with one αᵢ for all that stays.
    ///
    /// # Panics
    /// Where α is not within 0 … 1.
    pub fn fixed(alpha: f32) -> Self {
        assert!((0.0..=1.0).contains(&alpha), "α is within 0 … 1");
        Self::paper(Mixing::Fixed(alpha))
    }

    /// The paper's, with αᵢ learned from α⁰.
    ///
    /// # Panics
    /// Where α⁰ is not within 0 … 1.
    pub fn adaptive(alpha: f32) -> Self {
        assert!((0.0..=1.0).contains(&alpha), "α⁰ is within 0 … 1");
        Self::paper(Mixing::Adaptive(alpha))
    }

    /// The paper's, with αᵢ chosen from a list on rows that are held out.
    pub fn chosen(candidates: impl Into<Vec<f32>>) -> Chosen {
        Chosen::new(Choosing::from(candidates), Options::PAPER)
    }

    fn learns(&self) -> bool {
        matches!(self.mixing, Mixing::Adaptive(_))
    }

    /// The local steps of a round; `after` sees wᵢ and vᵢ after each.
    fn round(
        &self,
        w: &mut [f32],
        local: &mut Memory,
        site: &mut Site<'_>,
        after: impl FnMut(&[f32], &[f32]),
    ) {
        match self.options {
            Options::PAPER if site.momentum() > 0.0 => {
                let mut models = [(local.alpha, &mut local.v)];
                momentum::rounds(self.learns(), w, &mut models, site);
                local.alpha = models[0].0;
            }
            Options::PAPER => self.paper_round(w, local, site, after),
            _ => variant::round(self, w, local, site, after),
        }
    }

    /// With every right-hand side at the values before the step:
    ///
    /// ```text
    /// wᵢ ← w                v̄ᵢ ← αᵢvᵢ + (1−αᵢ)wᵢ
    /// τ times:
    ///   wᵢ ← wᵢ − η ∇fᵢ(wᵢ; ξ)
    ///   vᵢ ← vᵢ − η αᵢ ∇fᵢ(v̄ᵢ; ξ)                   the chain rule through v̄ᵢ
    ///   αᵢ ← clip₀₁(αᵢ − η ⟨vᵢ − wᵢ, ∇fᵢ(v̄ᵢ; ξ)⟩)   adaptive: at a round's first step
    ///   v̄ᵢ ← αᵢvᵢ + (1−αᵢ)wᵢ
    /// ```
    fn paper_round(
        &self,
        w: &mut [f32],
        local: &mut Memory,
        site: &mut Site<'_>,
        mut after: impl FnMut(&[f32], &[f32]),
    ) {
        let Memory { v, alpha } = local;
        let mut v_bar = site.borrow();
        let mut g = site.borrow();
        for s in 0..site.steps() {
            let eta = site.rate(s);
            site.next_batch();
            if self.learns() && s == 0 {
                mix(&mut v_bar, *alpha, v, w);
                site.gradient(&v_bar, &mut g);
                let slope = dot_difference(v, w, &g);
                site.descend(w, eta);
                axpy(v, -eta * *alpha, &g);
                *alpha = (f64::from(*alpha) - f64::from(eta) * slope).clamp(0.0, 1.0) as f32;
            } else if *alpha > 0.0 {
                site.descend_both(*alpha, v, w, (eta * *alpha, eta));
            } else {
                site.descend(w, eta);
            }
            after(w, v);
        }
        site.give_back(v_bar);
        site.give_back(g);
    }
}

impl Algorithm for Apfl {
    type Server = ModelOnly;
    type Broadcast = ModelOnly;
    type Memory = Memory;
    type Update = ModelOnly;
    type Fold = Mean;

    fn start(&self, w0: &[f32], _clients: usize) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    fn broadcast(&self, server: &ModelOnly) -> ModelOnly {
        server.clone()
    }

    /// vᵢ⁰ = w⁰, also for a client that is first drawn in round 90.
    fn join(&self, w0: &[f32]) -> Memory {
        let (Mixing::Fixed(alpha) | Mixing::Adaptive(alpha)) = self.mixing;
        Memory {
            v: w0.to_vec(),
            alpha,
        }
    }

    fn local_round(&self, sent: &ModelOnly, local: &mut Memory, site: &mut Site<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        self.round(&mut w, local, site, |_, _| ());
        ModelOnly { model: w }
    }

    /// w ← (1/|U|) Σ_{i∈U} wᵢ
    fn fold(&self, _: &ModelOnly, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    fn finish(&self, server: &mut ModelOnly, fold: Mean) {
        if let Some(w) = fold.value() {
            server.model = w;
        }
    }

    fn shared<'a>(&self, server: &'a ModelOnly) -> &'a [f32] {
        &server.model
    }

    fn aggregated_mut<'a>(&self, server: &'a mut ModelOnly) -> Option<&'a mut [f32]> {
        Some(&mut server.model)
    }

    fn localized<'a>(&self, _: &'a Memory, update: &'a ModelOnly) -> &'a [f32] {
        &update.model
    }

    /// v̄ᵢ = αᵢvᵢ + (1−αᵢ)wᵢ, or that mixture of outputs.
    fn personal<'a>(
        &self,
        local: &'a Memory,
        update: &'a ModelOnly,
        _: &mut Site<'_>,
    ) -> Predictor<'a> {
        if self.options.mix == Mix::Logits {
            return Predictor::MixedOutputs {
                alpha: local.alpha,
                v: &local.v,
                w: &update.model,
            };
        }
        let mut v_bar = vec![0.0; local.v.len()];
        mix(&mut v_bar, local.alpha, &local.v, &update.model);
        Predictor::Own(v_bar)
    }

    fn own<'a>(&self, local: &'a Memory, _: &'a ModelOnly) -> &'a [f32] {
        &local.v
    }

    fn properties(&self) -> Properties {
        let plain = Properties {
            gradients: 2,
            momentum: self.options == Options::PAPER,
            ..Properties::default()
        };
        match self.options.preset {
            Preset::None => plain,
            Preset::FedTorch => Properties {
                usual_decay: (1.0 / 1.01, "epoch"),
                ..plain
            },
        }
    }

    fn details(&self) -> String {
        match self.mixing {
            Mixing::Fixed(alpha) => format!(" (α = {alpha})"),
            Mixing::Adaptive(alpha) => format!(" (adaptive α from {alpha})"),
        }
    }

    fn mixes_outputs(&self) -> bool {
        self.options.mix == Mix::Logits
    }

    fn mixing(&self, local: &Memory) -> Option<f32> {
        Some(local.alpha)
    }
}
