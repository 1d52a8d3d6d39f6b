//! perFedAvg (Fallah et al., 2020): a shared model that one step personalizes.

use super::extensions::{Extensions, OwnRate};
use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::local_client::{BatchSource, LocalClient, Predictor};
use crate::params::{Params, axpy};
use crate::settings::{Kind, Number, Section, Setting, Settings, Words, above_zero, at_least};

/// Method for the gradient of f(w − α∇f(w)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// First order: the second derivative is ignored.
    FirstOrder,
    /// The second derivative by a difference of gradients.
    HessianFree,
    /// Two steps of SGD without returning to w in between (the APFL authors' code).
    Sequential,
    /// The APFL authors' code as it runs: one batch of the meta set per round, and the learning
    /// rate that the step on it leaves behind.
    Released,
}

/// perFedAvg's settings.
///
/// `training.learning_rate` and its schedule apply only to `released`, in place of `inner_rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerFedAvg {
    /// The variant.
    pub variant: Variant,
    /// α
    pub inner_rate: f32,
    /// β
    pub outer_rate: f32,
    /// δ
    pub delta: f32,
}

const VARIANT: Setting<Words<Variant>> = Setting::words(
    "variant",
    "fo",
    &[
        ("fo", Variant::FirstOrder, "no second derivative"),
        ("hf", Variant::HessianFree, "by a difference of gradients"),
        ("sequential", Variant::Sequential, "two steps"),
        (
            "released",
            Variant::Released,
            "the APFL authors' code, rates included",
        ),
    ],
)
.help("how second derivatives are taken");

const INNER_RATE: Setting<Number> = Setting::number("inner_rate", 0.01, at_least(0.0).to(1e6))
    .symbol("α")
    .help("the personal step; released: the training's rate");

const OUTER_RATE: Setting<Number> = Setting::number("outer_rate", 0.001, above_zero(1e-30).to(1e6))
    .symbol("β")
    .help("the step of w; default for released: 0.03");

const DELTA: Setting<Number> = Setting::number("delta", 1e-3, at_least(1e-6).to(1.0))
    .symbol("δ")
    .help("the half width of the difference of hf");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "perfedavg",
    about: "a shared model that one step personalizes (Fallah et al., 2020)",
    settings: &[&VARIANT, &INNER_RATE, &OUTER_RATE, &DELTA],
    examples: &[
        "{ kind = 'perfedavg', outer_rate = 0.05 }",
        "{ kind = 'perfedavg', variant = 'hf', outer_rate = 0.05 }",
        "{ kind = 'perfedavg', variant = 'sequential', outer_rate = 0.05 }",
        "{ kind = 'perfedavg', variant = 'released' }",
    ],
    value: |s| {
        AlgorithmSpec::PerFedAvg(s.filled(PerFedAvg {
            variant: Variant::FirstOrder,
            inner_rate: 0.0,
            outer_rate: 0.0,
            delta: 0.0,
        }))
    },
};

impl Settings for PerFedAvg {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&VARIANT, &mut self.variant);
        let outer_rate = if self.variant == Variant::Released {
            self.inner_rate = 0.0;
            0.03
        } else {
            s.field(&INNER_RATE, &mut self.inner_rate);
            0.001
        };
        s.field_or(&OUTER_RATE, outer_rate, &mut self.outer_rate);
        s.field(&DELTA, &mut self.delta);
    }
}

impl PerFedAvg {
    /// Takes a round of the variant `released`.
    ///
    /// The meta set is ⌊m/8⌋ of the training examples, a tenth of all if a fifth is held out for
    /// validation. B₂ is one batch of it for the whole round, B₁ a new one of the others. With t
    /// the steps since the start of the run:
    ///
    /// ```text
    /// τ times:  w ← w − η'∇f(w; B₁)      η' = η_t at the run's first step and, with a rate that
    ///                                    falls, at the start of a pass over the others; else β
    ///           w ← w − β∇f(w; B₂)
    /// ```
    ///
    /// The released code sets the optimizer's rate to β for the second step and resets it when
    /// its schedule moves: once per pass, or never.
    fn released_round(&self, sent: &[f32], client: &mut LocalClient<'_>) -> Params {
        let mut w = sent.to_vec();
        client.hold_out(client.examples() / 8);
        let pass = client.keep_one_held_out_batch();
        for s in 0..client.steps() {
            let step = client.steps_before() + s;
            let reset = step == 0 || client.rate_varies() && step.is_multiple_of(pass);
            client.next_batch_of(BatchSource::Rest);
            let eta = if reset {
                client.rate(s)
            } else {
                self.outer_rate
            };
            client.descend(&mut w, eta);
            client.next_batch_of(BatchSource::HeldOut);
            client.descend(&mut w, self.outer_rate);
        }
        w
    }
}

impl OwnRate for PerFedAvg {
    fn with_rate(&self, rate: f64) -> Self {
        Self {
            outer_rate: rate as f32,
            ..*self
        }
    }
}

impl OneModel for PerFedAvg {
    type ClientState = ();

    fn join(&self, _w0: &[f32]) {}

    /// Trains one round. The meta set is max(1, ⌊m/10⌋) of the training examples; B₁ is a batch of the
    /// others, B₂ and B₃ of the meta set. τ times:
    ///
    /// ```text
    /// θ = w − α∇f(w; B₁)          g₂ = ∇f(θ; B₂)
    /// fo:          w ← w − βg₂
    /// hf:          w ← w − β[g₂ − (α/2δ)(∇f(w+δg₂; B₃) − ∇f(w−δg₂; B₃))]
    /// sequential:  w ← θ − βg₂
    /// ```
    fn local_round(&self, sent: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
        if self.variant == Variant::Released {
            return self.released_round(sent, client);
        }
        let Self {
            inner_rate: alpha,
            outer_rate: beta,
            delta,
            ..
        } = *self;
        let mut w = sent.to_vec();
        let mut theta = client.borrow();
        let mut g2 = client.borrow();
        client.hold_out(client.examples() / 10);
        for _ in 0..client.steps() {
            client.next_batch_of(BatchSource::Rest);
            match self.variant {
                Variant::FirstOrder => {
                    theta.copy_from_slice(&w);
                    client.descend(&mut theta, alpha);
                    client.next_batch_of(BatchSource::HeldOut);
                    client.descend_at(&theta, &mut w, beta);
                }
                Variant::Sequential | Variant::Released => {
                    client.descend(&mut w, alpha);
                    client.next_batch_of(BatchSource::HeldOut);
                    client.descend(&mut w, beta);
                }
                Variant::HessianFree => {
                    theta.copy_from_slice(&w);
                    client.descend(&mut theta, alpha);
                    client.next_batch_of(BatchSource::HeldOut);
                    client.gradient(&theta, &mut g2);
                    client.next_batch_of(BatchSource::HeldOut);
                    // Both points are computed before w moves.
                    let mut ahead = client.borrow();
                    ahead.copy_from_slice(&w);
                    axpy(&mut ahead, delta, &g2);
                    theta.copy_from_slice(&w);
                    axpy(&mut theta, -delta, &g2);
                    axpy(&mut w, -beta, &g2);
                    let curvature = beta * alpha / (2.0 * delta);
                    client.descend_at(&ahead, &mut w, -curvature);
                    client.descend_at(&theta, &mut w, curvature);
                    client.give_back(ahead);
                }
            }
        }
        client.give_back(theta);
        client.give_back(g2);
        w
    }

    /// The personal model is one step of rate α from wᵢ, on a batch of the training examples;
    /// wᵢ itself in `released`.
    fn models<'a>(&self, after: AfterRound<'a, Self>, client: &mut LocalClient<'_>) -> Models<'a> {
        let mut models = Models::one(&after.update.model);
        if self.variant != Variant::Released {
            let mut theta = after.update.model.clone();
            client.next_batch();
            client.descend(&mut theta, self.inner_rate);
            models.personal = Predictor::Own(theta);
        }
        models
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions {
            rate: match self.variant {
                Variant::Released => None,
                _ => Some(self),
            },
            ..Extensions::default()
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            models: [
                "w",
                "wᵢ after the local steps",
                "one step of rate α from wᵢ",
            ],
            own_rates: self.variant != Variant::Released,
            rate_key: "algorithm.outer_rate",
            gradients: match self.variant {
                Variant::FirstOrder | Variant::Sequential | Variant::Released => 2,
                Variant::HessianFree => 4,
            },
            ..Properties::default()
        }
    }
}
