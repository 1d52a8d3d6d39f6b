//! Server optimizers: the server takes the cohort's model, or treats the difference to its own
//! as a gradient (Reddi et al., 2020; momentum: Hsu et al., 2019).

use crate::pack::{Arrays, Pack, PackError, View};
use crate::settings::{Kind, Number, Section, Setting, Settings, above_zero, at_least, registry};

/// Server optimizer, the value of `federation.server`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ServerOptimizer {
    /// w ← the cohort's model.
    #[default]
    Mean,
    /// Momentum.
    Momentum {
        /// η_s
        learning_rate: f64,
        /// β₁
        momentum: f64,
    },
    /// Adagrad: steps that shrink with the sum of squares.
    Adagrad {
        /// η_s
        learning_rate: f64,
        /// τ
        adaptivity: f64,
    },
    /// Adam: steps divided by the root of the moving mean of squares.
    Adam(AdaptiveMoments),
    /// Yogi: Adam with squares that grow more slowly.
    Yogi(AdaptiveMoments),
}

/// Settings of `adam` and `yogi`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveMoments {
    /// η_s
    pub learning_rate: f64,
    /// β₁
    pub momentum: f64,
    /// β₂
    pub decay: f64,
    /// τ
    pub adaptivity: f64,
}

/// Registry entry of a server optimizer.
pub type OptimizerKind = Kind<ServerOptimizer>;

registry! {
    ServerOptimizer, OptimizerKind:
    Mean = MEAN,
    Momentum = MOMENTUM,
    Adagrad = ADAGRAD,
    Adam = ADAM,
    Yogi = YOGI,
}

const RATE: Setting<Number> =
    Setting::optional("learning_rate", above_zero(1e-30).to(1e6))
        .symbol("η_s")
        .help("the server's step; it must be given")
        .example("0.1")
        .required(
            "is missing: the server's step η_s has no default (1 for kind = \"momentum\" with momentum = 0 \
             is the mean; adagrad, adam and yogi usually take 0.01 to 0.1)",
        );
const BETA_1: Setting<Number> = Setting::number("momentum", 0.9, at_least(0.0).below(1.0))
    .symbol("β₁")
    .help("the decay of the moving mean of differences");
const BETA_2: Setting<Number> = Setting::number("decay", 0.99, at_least(0.0).below(1.0))
    .symbol("β₂")
    .help("the decay of the moving mean of squares");
const TAU: Setting<Number> = Setting::number("adaptivity", 1e-3, above_zero(1e-30).to(1e6))
    .symbol("τ")
    .help("the constant added to √u");

const MEAN: OptimizerKind = Kind {
    name: "mean",
    about: "the server takes the cohort's model as it is",
    settings: &[],
    examples: &["{ kind = 'mean' }"],
    value: ServerOptimizer::Mean,
};

const MOMENTUM: OptimizerKind = Kind {
    name: "momentum",
    about: "momentum at the server (Hsu et al., 2019)",
    settings: &[&RATE, &BETA_1],
    examples: &["{ kind = 'momentum', learning_rate = 0.5 }"],
    value: ServerOptimizer::Momentum {
        learning_rate: 0.0,
        momentum: 0.0,
    },
};

const ADAGRAD: OptimizerKind = Kind {
    name: "adagrad",
    about: "FedAdagrad: steps that shrink with the squares (Reddi et al., 2020)",
    settings: &[&RATE, &TAU],
    examples: &["{ kind = 'adagrad', learning_rate = 0.05 }"],
    value: ServerOptimizer::Adagrad {
        learning_rate: 0.0,
        adaptivity: 0.0,
    },
};

const BLANK: AdaptiveMoments = AdaptiveMoments {
    learning_rate: 0.0,
    momentum: 0.0,
    decay: 0.0,
    adaptivity: 0.0,
};

const ADAM: OptimizerKind = Kind {
    name: "adam",
    about: "FedAdam: Adam at the server (Reddi et al., 2020)",
    settings: &[&RATE, &BETA_1, &BETA_2, &TAU],
    examples: &["{ kind = 'adam', learning_rate = 0.05 }"],
    value: ServerOptimizer::Adam(BLANK),
};

const YOGI: OptimizerKind = Kind {
    name: "yogi",
    about: "FedYogi: Yogi at the server (Reddi et al., 2020)",
    settings: &[&RATE, &BETA_1, &BETA_2, &TAU],
    examples: &["{ kind = 'yogi', learning_rate = 0.05 }"],
    value: ServerOptimizer::Yogi(BLANK),
};

impl Settings for ServerOptimizer {
    /// Binds `[federation.server]`.
    fn settings(&mut self, s: &mut Section<'_>) {
        s.kind("kind", Self::KINDS, self.kind(), self);
        match self {
            ServerOptimizer::Mean => {}
            ServerOptimizer::Momentum {
                learning_rate,
                momentum,
            } => {
                s.field_or(&RATE, 1.0, learning_rate);
                s.field(&BETA_1, momentum);
            }
            ServerOptimizer::Adagrad {
                learning_rate,
                adaptivity,
            } => {
                s.field_or(&RATE, 1.0, learning_rate);
                s.field(&TAU, adaptivity);
            }
            ServerOptimizer::Adam(of) | ServerOptimizer::Yogi(of) => {
                s.field_or(&RATE, 1.0, &mut of.learning_rate);
                s.field(&BETA_1, &mut of.momentum);
                s.field(&BETA_2, &mut of.decay);
                s.field(&TAU, &mut of.adaptivity);
            }
        }
    }
}

/// State of an optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerState {
    /// m
    pub m: Vec<f64>,
    /// u; empty if the optimizer uses no squares.
    pub u: Vec<f64>,
}

impl Pack for OptimizerState {
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
    /// Returns the first state, m⁰ = 0 and u⁰ = τ², for a model of `len` parameters; `None` if
    /// the optimizer has no state.
    pub fn start(&self, len: usize) -> Option<OptimizerState> {
        let squares = match self {
            ServerOptimizer::Mean => return None,
            ServerOptimizer::Momentum { .. } => None,
            ServerOptimizer::Adagrad { adaptivity, .. } => Some(adaptivity),
            ServerOptimizer::Adam(settings) | ServerOptimizer::Yogi(settings) => {
                Some(&settings.adaptivity)
            }
        };
        Some(OptimizerState {
            m: vec![0.0; len],
            u: squares.map_or(Vec::new(), |tau| vec![tau * tau; len]),
        })
    }

    /// Moves the server's model from `before`. `w` is the cohort's model and becomes the
    /// server's. With Δ = w − before and without bias correction:
    ///
    /// ```text
    /// momentum   m ← β₁m + Δ                                        w ← before + η_s m
    /// adagrad    m ← Δ               u ← u + Δ²                     ┐
    /// adam       m ← β₁m + (1−β₁)Δ   u ← β₂u + (1−β₂)Δ²             ├ w ← before + η_s m/(√u + τ)
    /// yogi       m ← β₁m + (1−β₁)Δ   u ← u − (1−β₂)Δ² sign(u − Δ²)  ┘
    /// ```
    pub fn step(&self, state: &mut OptimizerState, before: &[f32], w: &mut [f32]) {
        let OptimizerState { m, u } = state;
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
}
