//! Adaptive personalized federated learning: Algorithm 1 of the paper, with the learned
//! mixing of its section 4.2.
//!
//! The paper's round is in this file. Departures from it are [`options`]; their round is in
//! `variant.rs`.

pub mod averaged;
pub mod chosen;
mod kind;
pub(crate) mod mixing_setting;
mod momentum;
pub mod options;
mod variant;

pub use averaged::Averaged;
pub use chosen::{AgnosticChosen, Chosen};
pub(super) use kind::KIND;
pub use options::Options;

use self::options::{Mix, Preset};
use super::{AfterRound, Agnostic, Models, OneModel, Properties};
use crate::choice::Choosing;
use crate::local_client::{LocalClient, ModelForm, Predictor};
use crate::params::{Params, axpy, dot_difference, mix};

/// The mixing weight αᵢ of every client.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mixing {
    /// A constant α.
    Fixed(f32),
    /// α⁰, from which each client learns its own α.
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

/// State that client i keeps between rounds: vᵢ and αᵢ.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// vᵢ, the local model.
    pub v: Params,
    /// αᵢ, its share in the mixture.
    pub alpha: f32,
}

crate::pack!(ClientState { v, alpha });

impl Apfl {
    /// Creates the paper's APFL.
    pub fn paper(mixing: Mixing) -> Self {
        Self {
            mixing,
            options: Options::PAPER,
        }
    }

    /// Creates the paper's APFL with a fixed α for all clients.
    ///
    /// # Panics
    /// If α is not in 0 … 1.
    pub fn fixed(alpha: f32) -> Self {
        assert!(
            (0.0..=1.0).contains(&alpha),
            "expected α in 0 … 1, found {alpha}"
        );
        Self::paper(Mixing::Fixed(alpha))
    }

    /// Creates the paper's APFL with αᵢ learned from α⁰.
    ///
    /// # Panics
    /// If α⁰ is not in 0 … 1.
    pub fn adaptive(alpha: f32) -> Self {
        assert!(
            (0.0..=1.0).contains(&alpha),
            "expected α⁰ in 0 … 1, found {alpha}"
        );
        Self::paper(Mixing::Adaptive(alpha))
    }

    /// Creates the paper's APFL with αᵢ chosen from a list on held-out rows.
    pub fn chosen(candidates: impl Into<Vec<f32>>) -> Chosen {
        Chosen::new(Choosing::from(candidates), Options::PAPER)
    }

    fn learns(&self) -> bool {
        matches!(self.mixing, Mixing::Adaptive(_))
    }

    /// Takes the local steps of a round and calls `after` with wᵢ and vᵢ after each.
    fn round(
        &self,
        w: &mut [f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
        after: impl FnMut(&[f32], &[f32]),
    ) {
        match self.options {
            Options::PAPER if client.momentum() > 0.0 => {
                let mut models = [(local.alpha, &mut local.v)];
                momentum::rounds(self.learns(), w, &mut models, client);
                local.alpha = models[0].0;
            }
            Options::PAPER => self.paper_round(w, local, client, after),
            _ => variant::round(self, w, local, client, after),
        }
    }

    /// Takes the paper's steps, with every right-hand side at the values before the step:
    ///
    /// ```text
    /// wᵢ ← w                v̄ᵢ ← αᵢvᵢ + (1−αᵢ)wᵢ
    /// τ times:
    ///   wᵢ ← wᵢ − η ∇fᵢ(wᵢ; ξ)
    ///   vᵢ ← vᵢ − η αᵢ ∇fᵢ(v̄ᵢ; ξ)                   the chain rule through v̄ᵢ
    ///   αᵢ ← clip₀₁(αᵢ − η ⟨vᵢ − wᵢ, ∇fᵢ(v̄ᵢ; ξ)⟩)   section 4.2; adaptive: at a round's first step
    ///   v̄ᵢ ← αᵢvᵢ + (1−αᵢ)wᵢ
    /// ```
    fn paper_round(
        &self,
        w: &mut [f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
        mut after: impl FnMut(&[f32], &[f32]),
    ) {
        let ClientState { v, alpha } = local;
        let mut v_bar = client.borrow();
        let mut g = client.borrow();
        for s in 0..client.steps() {
            let eta = client.rate(s);
            client.next_batch();
            if self.learns() && s == 0 {
                mix(&mut v_bar, *alpha, v, w);
                client.gradient(&v_bar, &mut g);
                let slope = dot_difference(v, w, &g);
                client.descend(w, eta);
                axpy(v, -eta * *alpha, &g);
                *alpha = (f64::from(*alpha) - f64::from(eta) * slope).clamp(0.0, 1.0) as f32;
            } else if *alpha > 0.0 {
                client.descend_both(*alpha, v, w, (eta * *alpha, eta));
            } else {
                client.descend(w, eta);
            }
            after(w, v);
        }
        client.give_back(v_bar);
        client.give_back(g);
    }
}

/// Returns v̄ᵢ = αᵢvᵢ + (1−αᵢ)wᵢ, or that mixture of outputs.
fn mixture<'a>(mixed: Mix, alpha: f32, v: &'a [f32], w: &'a [f32]) -> Predictor<'a> {
    if mixed == Mix::Logits {
        return Predictor::MixedOutputs { alpha, v, w };
    }
    let mut v_bar = vec![0.0; v.len()];
    mix(&mut v_bar, alpha, v, w);
    Predictor::Own(v_bar)
}

/// w ← (1/|U|) Σ_{i∈U} wᵢ
impl OneModel for Apfl {
    type ClientState = ClientState;

    /// vᵢ⁰ = w⁰, also for a client that is first sampled in round 90.
    fn join(&self, w0: &[f32]) -> ClientState {
        let v = w0.to_vec();
        let (Mixing::Fixed(alpha) | Mixing::Adaptive(alpha)) = self.mixing;
        ClientState { v, alpha }
    }

    fn local_round(
        &self,
        sent: &[f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let mut w = sent.to_vec();
        self.round(&mut w, local, client, |_, _| ());
        w
    }

    /// The personal model is v̄ᵢ.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        let (w, ClientState { v, alpha }) = (&after.update.model, after.local);
        Models {
            personal: mixture(self.options.mix, *alpha, v, w),
            ..Models::two(w, v)
        }
    }

    fn mixing(&self, local: &ClientState) -> Option<f32> {
        Some(local.alpha)
    }

    fn properties(&self) -> Properties {
        Properties {
            details: match self.mixing {
                Mixing::Fixed(alpha) => format!(" (α = {alpha})"),
                Mixing::Adaptive(alpha) => format!(" (adaptive α from {alpha})"),
            },
            ..self.options.properties()
        }
    }
}

impl Options {
    /// Returns the properties of APFL with these options, for any α.
    fn properties(&self) -> Properties {
        Properties {
            models: ["w", "wᵢ after the local steps", "αᵢvᵢ + (1−αᵢ)wᵢ"],
            personal: match self.mix {
                Mix::Parameters => ModelForm::Parameters,
                Mix::Logits => ModelForm::MixedOutputs,
            },
            gradients: 2,
            momentum: *self == Options::PAPER,
            default_decay: match self.preset {
                Preset::None => Properties::default().default_decay,
                Preset::Authors => (1.0 / 1.01, "epoch"),
            },
            ..Properties::default()
        }
    }
}
