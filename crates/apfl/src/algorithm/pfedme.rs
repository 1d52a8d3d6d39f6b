//! pFedMe (Dinh et al., 2020): personal models with a proximal term to the shared one, its
//! Moreau envelope.

use super::extensions::{Extensions, OwnRate};
use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::local_client::LocalClient;
use crate::pack;
use crate::params::Params;
use crate::settings::{
    Kind, Number, Section, Setting, Settings, Whole, Words, above_zero, at_least,
};

/// Version of the training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// pFedMe's own loop: one batch for all inner steps; θ starts at w in every round.
    Reference,
    /// The APFL authors' loop: a new batch for every step, θ persists over rounds.
    FedTorch,
    /// The APFL authors' code: the loop of `FedTorch` with one rate for θ and w.
    Released,
}

/// pFedMe's settings.
///
/// `training.learning_rate` and its schedule apply only to `released`, in place of both rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PFedMe {
    /// The variant.
    pub variant: Variant,
    /// λ
    pub lambda: f32,
    /// η
    pub rate: f32,
    /// p
    pub inner_rate: f32,
    /// K
    pub inner_steps: u64,
    /// β
    pub server: f32,
}

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// θᵢ, the personal model.
    pub theta: Params,
}

pack!(ClientState { theta });

const VARIANT: Setting<Words<Variant>> = Setting::words(
    "variant",
    "reference",
    &[
        ("reference", Variant::Reference, "pFedMe's own loop"),
        ("fedtorch", Variant::FedTorch, "the APFL authors' loop"),
        (
            "released",
            Variant::Released,
            "the APFL authors' code, rates included",
        ),
    ],
)
.help("the version of the training loop");

const LAMBDA: Setting<Number> = Setting::number("lambda", 15.0, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("the pull of θ to w");

const RATE: Setting<Number> = Setting::number("rate", 0.01, above_zero(1e-30).to(1e6))
    .symbol("η")
    .help("the step of w; released: the training's rate");

const INNER_RATE: Setting<Number> = Setting::number("inner_rate", 0.01, above_zero(1e-30).to(1e6))
    .symbol("p")
    .help("the step of θ (pFedMe's own code: 0.09); released: the training's rate");

const INNER_STEPS: Setting<Whole> = Setting::number("inner_steps", 5, at_least(1).to(1_000_000))
    .symbol("K")
    .help("steps of θ per step of w");

const SERVER: Setting<Number> = Setting::number("server", 1.0, above_zero(1e-30).to(100.0))
    .symbol("β")
    .help("the server's share of the new mean");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "pfedme",
    about: "personal models near the shared one (Dinh et al., 2020)",
    settings: &[&VARIANT, &LAMBDA, &RATE, &INNER_RATE, &INNER_STEPS, &SERVER],
    examples: &[
        "{ kind = 'pfedme' }",
        "{ kind = 'pfedme', variant = 'fedtorch', server = 0.5 }",
        "{ kind = 'pfedme', variant = 'released' }",
    ],
    value: |s| {
        AlgorithmSpec::PFedMe(s.filled(PFedMe {
            variant: Variant::Reference,
            lambda: 0.0,
            rate: 0.0,
            inner_rate: 0.0,
            inner_steps: 0,
            server: 0.0,
        }))
    },
};

impl Settings for PFedMe {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&VARIANT, &mut self.variant);
        if self.variant != Variant::Released {
            s.field(&RATE, &mut self.rate);
            s.field(&INNER_RATE, &mut self.inner_rate);
        }
        s.field(&SERVER, &mut self.server);
        s.field(&LAMBDA, &mut self.lambda);
        s.field(&INNER_STEPS, &mut self.inner_steps);
    }
}

impl PFedMe {
    /// Takes the step θ ← θ − p(∇f(θ; ξ) + λ(θ − w)).
    fn inner_step(
        &self,
        rate: f32,
        theta: &mut [f32],
        w: &[f32],
        g: &mut [f32],
        client: &mut LocalClient<'_>,
    ) {
        client.gradient(theta, g);
        for ((theta, w), g) in theta.iter_mut().zip(w).zip(g) {
            *theta -= rate * (*g + self.lambda * (*theta - w));
        }
    }

    /// Takes the step w ← w − η(λ(w − θ) + μw).
    fn outer_step(&self, rate: f32, mu: f32, w: &mut [f32], theta: &[f32]) {
        let (share, decay) = (rate * self.lambda, rate * mu);
        for (w, theta) in w.iter_mut().zip(theta) {
            *w -= share * (*w - theta) + decay * *w;
        }
    }
}

impl OwnRate for PFedMe {
    fn with_rate(&self, rate: f64) -> Self {
        Self {
            rate: rate as f32,
            ..*self
        }
    }
}

impl OneModel for PFedMe {
    type ClientState = ClientState;

    fn join(&self, w0: &[f32]) -> ClientState {
        ClientState { theta: w0.to_vec() }
    }

    /// ```text
    /// reference:  wᵢ ← w; θ ← w
    ///             τ times, one batch each:
    ///               θ ← θ − p(∇f(θ; ξ) + λ(θ − wᵢ))   K times
    ///               wᵢ ← wᵢ − ηλ(wᵢ − θ)
    /// fedtorch:   wᵢ ← w; θ is the last round's
    ///             τ times, one batch each:
    ///               θ ← θ − p(∇f(θ; ξ) + λ(θ − wᵢ))
    ///               wᵢ ← wᵢ − ηλ(wᵢ − θ)              every Kth step and at the last one
    /// released:   the same with p = η = η_t, the training's rate at step t, and with the
    ///             model's decay: wᵢ ← wᵢ − η_t(λ(wᵢ − θ) + μwᵢ)
    /// ```
    ///
    /// The released code has one optimizer each for θ and w, with the same rate and decay. (There
    /// w's rate does not follow a falling schedule, because both optimizers share the memory of
    /// the rate set last, and θ's is set first. Here both rates fall.)
    fn local_round(
        &self,
        sent: &[f32],
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let theta = &mut local.theta;
        let mut w = sent.to_vec();
        let mut g = client.borrow();
        let steps = client.steps();
        if self.variant == Variant::Reference {
            theta.copy_from_slice(&w);
        }
        for s in 1..=steps {
            client.next_batch();
            let (p, eta, mu) = match self.variant {
                Variant::Released => (client.rate(s - 1), client.rate(s - 1), client.model().l2()),
                _ => (self.inner_rate, self.rate, 0.0),
            };
            match self.variant {
                Variant::Reference => {
                    for _ in 0..self.inner_steps {
                        self.inner_step(p, theta, &w, &mut g, client);
                    }
                    self.outer_step(eta, mu, &mut w, theta);
                }
                Variant::FedTorch | Variant::Released => {
                    self.inner_step(p, theta, &w, &mut g, client);
                    if s.is_multiple_of(self.inner_steps) || s == steps {
                        self.outer_step(eta, mu, &mut w, theta);
                    }
                }
            }
        }
        client.give_back(g);
        w
    }

    /// w ← (1−β)w + β·mean wᵢ
    fn finish(&self, w: &mut Params, mean: Params) {
        for (w, mean) in w.iter_mut().zip(&mean) {
            *w = (1.0 - self.server) * *w + self.server * mean;
        }
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::two(&after.update.model, &after.local.theta)
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
            models: ["w", "wᵢ after the local steps", "θᵢ"],
            own_rates: self.variant != Variant::Released,
            rate_key: match self.variant {
                Variant::Released => "training.learning_rate",
                _ => "algorithm.rate",
            },
            optimizer_problem: (self.server != 1.0)
                .then_some("algorithm.server is already a server optimizer; use server = 1"),
            gradients: match self.variant {
                Variant::Reference => self.inner_steps,
                Variant::FedTorch | Variant::Released => 1,
            },
            ..Properties::default()
        }
    }
}
