//! Where public implementations depart from the paper, each departure a named option.

use toml::Value;

use crate::settings::{Section, shown};

/// What is mixed by α.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Parameters: v̄ = αv + (1−α)w.
    Parameters,
    /// Outputs: α·(outputs at v) + (1−α)·(outputs at w).
    Logits,
}

/// Which values a step sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// w, v and α all move from the values before the step.
    Simultaneous,
    /// w first, then v at the new w, then α at the new v and w with v's gradient.
    Sequential,
}

/// How often α is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At a round's first step.
    Round,
    /// At every step.
    Step,
}

/// What α descends along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaGradient {
    /// The derivative of the mixed loss f along α: ⟨v−w, ∇f(v̄)⟩.
    Slope,
    /// ⟨v−w, α·∂ᵥf + (1−α)·∂_w f⟩.
    Blended,
}

/// Which rows α's gradient is taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaOn {
    /// The batch that moves w and v.
    Batch,
    /// A fifth of the training rows, which neither w nor v is trained on.
    Aside,
}

/// A step size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// η_t
    Schedule,
    /// `training.learning_rate`, never decayed.
    Constant,
    /// A number of its own.
    Number(f64),
}

/// When v's passes drop outputs of hidden layers, where the model has `dropout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VDropout {
    /// As w's do.
    Always,
    /// In round 1 alone: v's network is never put back into training mode after its first
    /// evaluation.
    FirstRound,
}

/// A set of options to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Each option by itself.
    None,
    /// The authors' released code: every option is pinned.
    FedTorch,
}

/// APFL's options.
///
/// | key | default (the paper) | others |
/// |---|---|---|
/// | `preset` | `"none"` | `"fedtorch"`: all options as in the authors' released code |
/// | `mix` | `"parameters"` | `"logits"` (authors' code, FL4Health, Plato): the same for linear models |
/// | `order` | `"simultaneous"` | `"sequential"` (authors' code) |
/// | `alpha_every` | `"round"` (its first step) | `"step"` (fedjax, PFLlib) |
/// | `alpha_l2` | 0 | 0 to 1e6: this times α is added to α's gradient (authors' code: 0.02) |
/// | `alpha_gradient` | `"slope"`: ⟨v−w, ∇f(v̄)⟩ | `"blended"`: ⟨v−w, α∂ᵥ+(1−α)∂_w⟩ (authors' code) |
/// | `alpha_on` | `"batch"` | `"aside"`: ⌈m/5⌉ of the training rows, which w and v do not see (ours) |
/// | `alpha_rate` | `"schedule"`: η_t | `"constant"`: the undecayed rate; or a number above 0 (FL4Health: 0.01) |
/// | `v_rate` | `"schedule"`: η_t | `"constant"` (authors' code); or a number above 0 |
/// | `l2_on_v` | false: through f(v̄), α(∇ℓ + λv̄) | true: on v itself, α∇ℓ + λv (authors' code) |
/// | `v_dropout` | `"always"` | `"first-round"`: v's network drops nothing after its first evaluation (authors' code) |
/// | `projection` | `"none"` | R, a number above 0: wᵢ and vᵢ are kept within ‖·‖ ≤ R (Theorem 4) |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Where they start from.
    pub preset: Preset,
    /// What α mixes.
    pub mix: Mix,
    /// Which values a step sees.
    pub order: Order,
    /// How often α is learned.
    pub alpha_every: Every,
    /// The pull of α to 0.
    pub alpha_l2: f64,
    /// What α descends along.
    pub alpha_gradient: AlphaGradient,
    /// Which rows its gradient is taken on.
    pub alpha_on: AlphaOn,
    /// α's step size.
    pub alpha_rate: Rate,
    /// v's step size.
    pub v_rate: Rate,
    /// Whether the ℓ2 term acts on v instead of on v̄.
    pub l2_on_v: bool,
    /// When v's passes drop outputs.
    pub v_dropout: VDropout,
    /// R
    pub projection: Option<f64>,
}

impl Options {
    /// The paper's.
    pub const PAPER: Self = Self {
        preset: Preset::None,
        mix: Mix::Parameters,
        order: Order::Simultaneous,
        alpha_every: Every::Round,
        alpha_l2: 0.0,
        alpha_gradient: AlphaGradient::Slope,
        alpha_on: AlphaOn::Batch,
        alpha_rate: Rate::Schedule,
        v_rate: Rate::Schedule,
        l2_on_v: false,
        v_dropout: VDropout::Always,
        projection: None,
    };

    /// The authors' released code (FedTorch).
    pub const FEDTORCH: Self = Self {
        preset: Preset::FedTorch,
        mix: Mix::Logits,
        order: Order::Sequential,
        alpha_every: Every::Round,
        alpha_l2: 0.02,
        alpha_gradient: AlphaGradient::Blended,
        alpha_on: AlphaOn::Batch,
        alpha_rate: Rate::Schedule,
        v_rate: Rate::Constant,
        l2_on_v: true,
        v_dropout: VDropout::FirstRound,
        projection: None,
    };

    /// Reads the options among `[algorithm]`'s keys.
    pub fn read(s: &mut Section<'_>) -> Self {
        let presets = [("none", Self::PAPER), ("fedtorch", Self::FEDTORCH)];
        let pinned = s.choice("preset", "none", &presets);
        let read = Self {
            preset: pinned.preset,
            mix: word(
                s,
                "mix",
                pinned.mix,
                &[("parameters", Mix::Parameters), ("logits", Mix::Logits)],
            ),
            order: word(
                s,
                "order",
                pinned.order,
                &[
                    ("simultaneous", Order::Simultaneous),
                    ("sequential", Order::Sequential),
                ],
            ),
            alpha_every: word(
                s,
                "alpha_every",
                pinned.alpha_every,
                &[("round", Every::Round), ("step", Every::Step)],
            ),
            alpha_l2: s.float("alpha_l2", pinned.alpha_l2, 0.0..=1e6, "0 to 1e6"),
            alpha_gradient: word(
                s,
                "alpha_gradient",
                pinned.alpha_gradient,
                &[
                    ("slope", AlphaGradient::Slope),
                    ("blended", AlphaGradient::Blended),
                ],
            ),
            alpha_on: word(
                s,
                "alpha_on",
                pinned.alpha_on,
                &[("batch", AlphaOn::Batch), ("aside", AlphaOn::Aside)],
            ),
            alpha_rate: rate(s, "alpha_rate", pinned.alpha_rate),
            v_rate: rate(s, "v_rate", pinned.v_rate),
            l2_on_v: s.boolean("l2_on_v", pinned.l2_on_v),
            v_dropout: word(
                s,
                "v_dropout",
                pinned.v_dropout,
                &[
                    ("always", VDropout::Always),
                    ("first-round", VDropout::FirstRound),
                ],
            ),
            projection: radius(s, "projection", pinned.projection),
        };
        if pinned.preset != Preset::None {
            let same = [
                ("mix", read.mix == pinned.mix),
                ("order", read.order == pinned.order),
                ("alpha_every", read.alpha_every == pinned.alpha_every),
                ("alpha_l2", read.alpha_l2 == pinned.alpha_l2),
                (
                    "alpha_gradient",
                    read.alpha_gradient == pinned.alpha_gradient,
                ),
                ("alpha_on", read.alpha_on == pinned.alpha_on),
                ("alpha_rate", read.alpha_rate == pinned.alpha_rate),
                ("v_rate", read.v_rate == pinned.v_rate),
                ("l2_on_v", read.l2_on_v == pinned.l2_on_v),
                ("v_dropout", read.v_dropout == pinned.v_dropout),
                ("projection", read.projection == pinned.projection),
            ];
            for (key, same) in same {
                if !same {
                    s.problem(
                        key,
                        "is not what preset = \"fedtorch\" has; leave out the key, or the preset \
                         and write its options one by one",
                    );
                }
            }
        }
        read
    }
}

fn word<T: Copy + PartialEq>(
    s: &mut Section<'_>,
    key: &str,
    default: T,
    choices: &[(&str, T)],
) -> T {
    let named = choices.iter().find(|(_, value)| *value == default);
    s.choice(key, named.expect("every value has a name").0, choices)
}

/// A number above 0, where `found` is one.
fn positive(found: &Value) -> Option<f64> {
    let number = found
        .as_float()
        .or(found.as_integer().map(|x| x as f64))
        .filter(|x| x.is_finite());
    // Steps are taken in f32, where smaller ones are none.
    number.filter(|x| (1e-30..=1e30).contains(x))
}

fn rate(s: &mut Section<'_>, key: &str, default: Rate) -> Rate {
    let mut rate = default;
    if let Some(found) = s.take(key) {
        match (found.as_str(), positive(&found)) {
            (Some("schedule"), _) => rate = Rate::Schedule,
            (Some("constant"), _) => rate = Rate::Constant,
            (_, Some(number)) => rate = Rate::Number(number),
            _ => s.problem(
                key,
                format!(
                    "found {}, allowed is \"schedule\", \"constant\" or a number above 0",
                    shown(&found)
                ),
            ),
        }
    }
    match rate {
        Rate::Schedule => s.resolve(key, "schedule"),
        Rate::Constant => s.resolve(key, "constant"),
        Rate::Number(number) => s.resolve(key, number),
    }
    rate
}

fn radius(s: &mut Section<'_>, key: &str, default: Option<f64>) -> Option<f64> {
    let mut radius = default;
    if let Some(found) = s.take(key) {
        match (found.as_str(), positive(&found)) {
            (Some("none"), _) => radius = None,
            (_, Some(number)) => radius = Some(number),
            _ => s.problem(
                key,
                format!(
                    "found {}, allowed is \"none\" or a radius above 0",
                    shown(&found)
                ),
            ),
        }
    }
    match radius {
        None => s.resolve(key, "none"),
        Some(number) => s.resolve(key, number),
    }
    radius
}
