//! How the server moves its model once the cohort's is known: there at once, or by an
//! optimizer that takes the difference for a gradient (Reddi et al., 2020; momentum: Hsu et
//! al., 2019).

use crate::pack::{Arrays, Pack, PackError, View};
use crate::settings::{Kind, Section, registry};

/// `federation.server`
///
/// | key | symbol | default | allowed |
/// |---|---|---|---|
/// | `kind` | the optimizer | `"mean"` | `"mean"`, `"momentum"`, `"adagrad"`, `"adam"`, `"yogi"` |
/// | `learning_rate` | η_s, the server's step | must be given | above 0, at most 1e6 |
/// | `momentum` | β₁ (not `adagrad`, where it is 0) | 0.9 | 0 to below 1 |
/// | `decay` | β₂, of the squares (`adam`, `yogi`) | 0.99 | 0 to below 1 |
/// | `adaptivity` | τ, what is added to √u (not `momentum`) | 1e-3 | above 0, at most 1e6 |
///
/// A word alone is for `mean`, which has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ServerOptimizer {
    /// w ← the cohort's model.
    #[default]
    Mean,
    /// Momentum alone.
    Momentum {
        /// η_s
        learning_rate: f64,
        /// β₁
        momentum: f64,
    },
    /// Steps that shrink with the sum of squares.
    Adagrad {
        /// η_s
        learning_rate: f64,
        /// τ
        adaptivity: f64,
    },
    /// Steps over the moving mean of squares.
    Adam(Moving),
    /// The same, with squares that grow more slowly.
    Yogi(Moving),
}

/// The settings of `adam` and `yogi`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moving {
    /// η_s
    pub learning_rate: f64,
    /// β₁
    pub momentum: f64,
    /// β₂
    pub decay: f64,
    /// τ
    pub adaptivity: f64,
}

/// One optimizer: what reads its settings, and what is shown.
pub type OptimizerKind = Kind<fn(&mut Section<'_>) -> ServerOptimizer>;

registry! {
    ServerOptimizer, OptimizerKind:
    Mean = MEAN,
    Momentum = MOMENTUM,
    Adagrad = ADAGRAD,
    Adam = ADAM,
    Yogi = YOGI,
}

const RATE: (&str, &str) = (
    "learning_rate = 0.1",
    "η_s, the server's step, above 0; it must be given",
);
const BETA_1: (&str, &str) = ("momentum = 0.9", "β₁, 0 to below 1");
const BETA_2: (&str, &str) = ("decay = 0.99", "β₂ of the squares, 0 to below 1");
const TAU: (&str, &str) = ("adaptivity = 1e-3", "τ, what is added to √u, above 0");

const MEAN: OptimizerKind = Kind {
    name: "mean",
    about: "the server takes the cohort's model as it is",
    keys: &[],
    examples: &["{ kind = 'mean' }"],
    read: |_| ServerOptimizer::Mean,
};

const MOMENTUM: OptimizerKind = Kind {
    name: "momentum",
    about: "momentum at the server (Hsu et al., 2019)",
    keys: &[RATE, BETA_1],
    examples: &["{ kind = 'momentum', learning_rate = 0.5 }"],
    read: |s| ServerOptimizer::Momentum {
        learning_rate: read_rate(s),
        momentum: read_beta(s, "momentum", 0.9),
    },
};

const ADAGRAD: OptimizerKind = Kind {
    name: "adagrad",
    about: "FedAdagrad: steps that shrink with the squares (Reddi et al., 2020)",
    keys: &[RATE, TAU],
    examples: &["{ kind = 'adagrad', learning_rate = 0.05 }"],
    read: |s| ServerOptimizer::Adagrad {
        learning_rate: read_rate(s),
        adaptivity: read_tau(s),
    },
};

const ADAM: OptimizerKind = Kind {
    name: "adam",
    about: "FedAdam: Adam at the server (Reddi et al., 2020)",
    keys: &[RATE, BETA_1, BETA_2, TAU],
    examples: &["{ kind = 'adam', learning_rate = 0.05 }"],
    read: |s| ServerOptimizer::Adam(read_moving(s)),
};

const YOGI: OptimizerKind = Kind {
    name: "yogi",
    about: "FedYogi: Yogi at the server (Reddi et al., 2020)",
    keys: &[RATE, BETA_1, BETA_2, TAU],
    examples: &["{ kind = 'yogi', learning_rate = 0.05 }"],
    read: |s| ServerOptimizer::Yogi(read_moving(s)),
};

fn read_rate(s: &mut Section<'_>) -> f64 {
    if !s.has("learning_rate") {
        s.problem(
            "learning_rate",
            "is missing: the server's step η_s has no default (1 for kind = \"momentum\" with momentum = 0 \
             is the mean; adagrad, adam and yogi usually take 0.01 to 0.1)",
        );
    }
    let rate = s.optional_float("learning_rate", 1e-30..=1e6, "above 0, at most 1e6");
    rate.unwrap_or(1.0)
}

fn read_beta(s: &mut Section<'_>, key: &str, default: f64) -> f64 {
    s.float(key, default, 0.0..1.0, "0 to below 1")
}

fn read_tau(s: &mut Section<'_>) -> f64 {
    s.float("adaptivity", 1e-3, 1e-30..=1e6, "above 0, at most 1e6")
}

fn read_moving(s: &mut Section<'_>) -> Moving {
    Moving {
        learning_rate: read_rate(s),
        momentum: read_beta(s, "momentum", 0.9),
        decay: read_beta(s, "decay", 0.99),
        adaptivity: read_tau(s),
    }
}

/// What an optimizer remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// m
    pub m: Vec<f64>,
    /// u; empty where there are no squares.
    pub u: Vec<f64>,
}

impl Pack for Moments {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("optimizer.m", View::F64(&self.m));
        see("optimizer.u", View::F64(&self.u));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            m: arrays.f64("optimizer.m")?,
            u: arrays.f64("optimizer.u")?,
        })
    }
}

impl ServerOptimizer {
    /// Reads `[federation.server]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let kind = s.pick("kind", Self::KINDS);
        (kind.read)(s)
    }

    /// m⁰ = 0 and u⁰ = τ² for a model of that many parameters; `None`: nothing is remembered.
    pub fn start(&self, len: usize) -> Option<Moments> {
        let squares = match self {
            ServerOptimizer::Mean => return None,
            ServerOptimizer::Momentum { .. } => None,
            ServerOptimizer::Adagrad { adaptivity, .. } => Some(adaptivity),
            ServerOptimizer::Adam(moving) | ServerOptimizer::Yogi(moving) => {
                Some(&moving.adaptivity)
            }
        };
        Some(Moments {
            m: vec![0.0; len],
            u: squares.map_or(Vec::new(), |tau| vec![tau * tau; len]),
        })
    }

    /// Moves the model from `before`, where `w` is the cohort's and becomes the server's.
    /// With Δ = w − before, no bias being corrected:
    ///
    /// ```text
    /// momentum   m ← β₁m + Δ                                        w ← before + η_s m
    /// adagrad    m ← Δ               u ← u + Δ²                     ┐
    /// adam       m ← β₁m + (1−β₁)Δ   u ← β₂u + (1−β₂)Δ²             ├ w ← before + η_s m/(√u + τ)
    /// yogi       m ← β₁m + (1−β₁)Δ   u ← u − (1−β₂)Δ² sign(u − Δ²)  ┘
    /// ```
    pub fn step(&self, moments: &mut Moments, before: &[f32], w: &mut [f32]) {
        let Moments { m, u } = moments;
        // One square for each coordinate, or none at all.
        let mut squares = u.iter_mut();
        for ((w, before), m) in w.iter_mut().zip(before).zip(m) {
            let from = f64::from(*before);
            let delta = f64::from(*w) - from;
            let u = squares.next();
            let square = delta * delta;
            let step = match (*self, u) {
                (
                    ServerOptimizer::Momentum {
                        learning_rate,
                        momentum,
                    },
                    _,
                ) => {
                    *m = momentum * *m + delta;
                    learning_rate * *m
                }
                (
                    ServerOptimizer::Adagrad {
                        learning_rate,
                        adaptivity,
                    },
                    Some(u),
                ) => {
                    *m = delta;
                    *u += square;
                    learning_rate * *m / (u.sqrt() + adaptivity)
                }
                (ServerOptimizer::Adam(of), Some(u)) => {
                    *m = of.momentum * *m + (1.0 - of.momentum) * delta;
                    *u = of.decay * *u + (1.0 - of.decay) * square;
                    of.learning_rate * *m / (u.sqrt() + of.adaptivity)
                }
                (ServerOptimizer::Yogi(of), Some(u)) => {
                    *m = of.momentum * *m + (1.0 - of.momentum) * delta;
                    let sign = match *u - square {
                        0.0 => 0.0,
                        difference => difference.signum(),
                    };
                    *u -= (1.0 - of.decay) * square * sign;
                    of.learning_rate * *m / (u.sqrt() + of.adaptivity)
                }
                _ => delta,
            };
            *w = (from + step) as f32;
        }
    }

    /// Why its numbers make no optimizer; `None` where they do.
    pub fn problem(&self) -> Option<String> {
        let (rate, betas, tau) = match *self {
            ServerOptimizer::Mean => return None,
            ServerOptimizer::Momentum {
                learning_rate,
                momentum,
            } => (learning_rate, [momentum, 0.0], 1.0),
            ServerOptimizer::Adagrad {
                learning_rate,
                adaptivity,
            } => (learning_rate, [0.0, 0.0], adaptivity),
            ServerOptimizer::Adam(of) | ServerOptimizer::Yogi(of) => {
                (of.learning_rate, [of.momentum, of.decay], of.adaptivity)
            }
        };
        let positive = |x: f64| x > 0.0 && x <= 1e6;
        let right = positive(rate) && positive(tau) && betas.iter().all(|b| (0.0..1.0).contains(b));
        (!right).then(|| format!("{self:?} is no optimizer: a number of it is out of range"))
    }
}
