//! pFedMe (Dinh et al., 2020): personal models held near the shared one by a proximal
//! term, its Moreau envelope.

use super::{AfterRound, AlgorithmKind, AlgorithmSpec, Models, OneModel, Properties};
use crate::pack;
use crate::params::Params;
use crate::settings::{Kind, Section};
use crate::site::Site;

/// Whose loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// pFedMe's own: one batch for all inner steps, θ starts at w in every round.
    Reference,
    /// The APFL authors' loop: a new batch for every step, θ persists over rounds.
    FedTorch,
    /// The APFL authors' code, rates included: that loop, with one rate for θ and w.
    Released,
}

/// pFedMe's settings.
///
/// | key | symbol | default | allowed |
/// |---|---|---|---|
/// | `variant` | whose loop | `"reference"` | `"reference"`, `"fedtorch"`, `"released"` |
/// | `lambda` | λ, the pull of θ to w | 15 | 0 to 1e6 |
/// | `rate` | η, the step of w | 0.01 | above 0, at most 1e6 |
/// | `inner_rate` | p, the step of θ | 0.01 (the pFedMe authors' code: 0.09) | above 0, at most 1e6 |
/// | `inner_steps` | K, steps of θ for one of w | 5 | 1 to 1000000 |
/// | `server` | β, the server's share of the new mean | 1 | above 0, at most 100 |
///
/// `training.learning_rate` and its schedule do not apply, but to `released`, which has them in the
/// place of both rates.
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

/// State that a client keeps between rounds: θᵢ, in a buffer of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// θᵢ, the personal model.
    pub theta: Params,
}

pack!(Memory { theta });

pub(super) const KIND: AlgorithmKind = Kind {
    name: "pfedme",
    about: "personal models held near the shared one (Dinh et al., 2020)",
    keys: &[
        (
            "variant = \"reference\"",
            "whose loop: reference (pFedMe's own) · fedtorch (the APFL authors') · released (theirs, rates \
             included)",
        ),
        ("lambda = 15.0", "λ, the pull of θ to w: 0 to 1e6"),
        ("rate = 0.01", "η, the step of w: above 0"),
        (
            "inner_rate = 0.01",
            "p, the step of θ (pFedMe's own code: 0.09)",
        ),
        ("inner_steps = 5", "K, steps of θ for one of w"),
        (
            "server = 1.0",
            "β, the server's share of the new mean: above 0, at most 100",
        ),
    ],
    examples: &[
        "{ kind = 'pfedme' }",
        "{ kind = 'pfedme', variant = 'fedtorch', server = 0.5 }",
        "{ kind = 'pfedme', variant = 'released' }",
    ],
    read: |s| AlgorithmSpec::PFedMe(PFedMe::read(s)),
};

impl PFedMe {
    /// Reads `[algorithm]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let variants = [
            ("reference", Variant::Reference),
            ("fedtorch", Variant::FedTorch),
            ("released", Variant::Released),
        ];
        let variant = s.choice("variant", "reference", &variants);
        let mut number = |key: &str, default: f64, most: f64| {
            let allowed = format!("above 0, at most {most}");
            s.float(key, default, 1e-30..=most, &allowed) as f32
        };
        let (rate, inner_rate) = match variant {
            Variant::Released => (0.0, 0.0),
            _ => (number("rate", 0.01, 1e6), number("inner_rate", 0.01, 1e6)),
        };
        Self {
            rate,
            inner_rate,
            server: number("server", 1.0, 100.0),
            variant,
            lambda: s.float("lambda", 15.0, 0.0..=1e6, "0 to 1e6") as f32,
            inner_steps: s.integer("inner_steps", 5, 1..=1_000_000, "1 to 1000000"),
        }
    }

    /// θ ← θ − p(∇f(θ; ξ) + λ(θ − w))
    fn inner_step(
        &self,
        rate: f32,
        theta: &mut [f32],
        w: &[f32],
        g: &mut [f32],
        site: &mut Site<'_>,
    ) {
        site.gradient(theta, g);
        for ((theta, w), g) in theta.iter_mut().zip(w).zip(g) {
            *theta -= rate * (*g + self.lambda * (*theta - w));
        }
    }

    /// w ← w − η(λ(w − θ) + μw)
    fn outer_step(&self, rate: f32, mu: f32, w: &mut [f32], theta: &[f32]) {
        let (share, decay) = (rate * self.lambda, rate * mu);
        for (w, theta) in w.iter_mut().zip(theta) {
            *w -= share * (*w - theta) + decay * *w;
        }
    }
}

impl OneModel for PFedMe {
    type Memory = Memory;

    fn join(&self, w0: &[f32]) -> Memory {
        Memory { theta: w0.to_vec() }
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
    /// The released code has one optimizer for each, with one rate and one decay for both. (With a
    /// schedule that falls, w's rate does not fall there: both optimizers share the memory of the
    /// rate set last, and θ's is set first. Here both fall.)
    fn local_round(&self, sent: &[f32], local: &mut Memory, site: &mut Site<'_>) -> Params {
        let theta = &mut local.theta;
        let mut w = sent.to_vec();
        let mut g = site.borrow();
        let steps = site.steps();
        if self.variant == Variant::Reference {
            theta.copy_from_slice(&w);
        }
        for s in 1..=steps {
            site.next_batch();
            let (p, eta, mu) = match self.variant {
                Variant::Released => (site.rate(s - 1), site.rate(s - 1), site.model().l2()),
                _ => (self.inner_rate, self.rate, 0.0),
            };
            match self.variant {
                Variant::Reference => {
                    for _ in 0..self.inner_steps {
                        self.inner_step(p, theta, &w, &mut g, site);
                    }
                    self.outer_step(eta, mu, &mut w, theta);
                }
                Variant::FedTorch | Variant::Released => {
                    self.inner_step(p, theta, &w, &mut g, site);
                    if s.is_multiple_of(self.inner_steps) || s == steps {
                        self.outer_step(eta, mu, &mut w, theta);
                    }
                }
            }
        }
        site.give_back(g);
        w
    }

    /// w ← (1−β)w + β·mean wᵢ
    fn finish(&self, w: &mut Params, mean: Params) {
        for (w, mean) in w.iter_mut().zip(&mean) {
            *w = (1.0 - self.server) * *w + self.server * mean;
        }
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut Site<'_>) -> Models<'a> {
        Models::two(&after.update.model, &after.local.theta)
    }

    fn properties(&self) -> Properties {
        Properties {
            models: ["w", "wᵢ after the local steps", "θᵢ"],
            own_rates: self.variant != Variant::Released,
            rate_key: match self.variant {
                Variant::Released => "training.learning_rate",
                _ => "algorithm.rate",
            },
            beyond_optimizers: (self.server != 1.0)
                .then_some("algorithm.server is such an optimizer already; use server = 1"),
            gradients: match self.variant {
                Variant::Reference => self.inner_steps,
                Variant::FedTorch | Variant::Released => 1,
            },
            ..Properties::default()
        }
    }
}
