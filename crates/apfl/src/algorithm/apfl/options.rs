//! Options for departures of public implementations from the paper.

use toml::Value;

use crate::settings::{
    Custom, Flag, Number, Section, Setting, Settings, Words, as_number, at_least,
};

/// What α mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Parameters: v̄ = αv + (1−α)w.
    Parameters,
    /// Outputs: α·(outputs at v) + (1−α)·(outputs at w).
    Logits,
}

/// The order of updates in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// w, v and α all move from the values before the step.
    Simultaneous,
    /// w first, then v at the new w, then α at the new v and w with v's gradient.
    Sequential,
}

/// How often α is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At a round's first step.
    Round,
    /// At every step.
    Step,
}

/// The direction in which α descends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaGradient {
    /// The derivative of the mixed loss f along α: ⟨v−w, ∇f(v̄)⟩.
    Slope,
    /// ⟨v−w, α·∂ᵥf + (1−α)·∂_w f⟩.
    Blended,
}

/// The rows on which α's gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaOn {
    /// The batch that moves w and v.
    Batch,
    /// A fifth of the training rows, on which neither w nor v is trained.
    HeldOut,
}

/// A step size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// η_t
    Schedule,
    /// `training.learning_rate`, never decayed.
    Constant,
    /// A fixed number.
    Number(f64),
}

/// When `dropout` acts on v.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VDropout {
    /// As on w.
    Always,
    /// Only in round 1: v's network does not return to training mode after its first evaluation.
    FirstRound,
}

/// Preset of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// No preset: each option is set individually.
    None,
    /// The authors' released code: every option is fixed.
    Authors,
}

/// Options of APFL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The preset.
    pub preset: Preset,
    /// What α mixes.
    pub mix: Mix,
    /// The order of updates in a step.
    pub order: Order,
    /// How often α is updated.
    pub alpha_every: Every,
    /// The pull of α to 0.
    pub alpha_l2: f64,
    /// The direction in which α descends.
    pub alpha_gradient: AlphaGradient,
    /// The rows on which α's gradient is computed.
    pub alpha_on: AlphaOn,
    /// α's step size.
    pub alpha_rate: Rate,
    /// v's step size.
    pub v_rate: Rate,
    /// Whether the ℓ2 term acts on v instead of on v̄.
    pub l2_on_v: bool,
    /// When dropout acts on v.
    pub v_dropout: VDropout,
    /// R
    pub projection: Option<f64>,
}

impl Options {
    /// The paper's options.
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
    pub const AUTHORS: Self = Self {
        preset: Preset::Authors,
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

    /// Returns the keys of the options that differ from `other`.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("mix", self.mix == other.mix),
            ("order", self.order == other.order),
            ("alpha_every", self.alpha_every == other.alpha_every),
            ("alpha_l2", self.alpha_l2 == other.alpha_l2),
            (
                "alpha_gradient",
                self.alpha_gradient == other.alpha_gradient,
            ),
            ("alpha_rate", self.alpha_rate == other.alpha_rate),
            ("alpha_on", self.alpha_on == other.alpha_on),
            ("v_rate", self.v_rate == other.v_rate),
            ("l2_on_v", self.l2_on_v == other.l2_on_v),
            ("v_dropout", self.v_dropout == other.v_dropout),
            ("projection", self.projection == other.projection),
        ];
        let differing = same.into_iter().filter(|(_, same)| !same);
        differing.map(|(key, _)| key).collect()
    }
}

impl Settings for Options {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.accept_alias(PRESET.key, "fedtorch", "authors");
        s.field(&PRESET, &mut self.preset);
        let pinned = match self.preset {
            Preset::None => Self::PAPER,
            Preset::Authors => Self::AUTHORS,
        };
        s.field_or(&MIX, pinned.mix, &mut self.mix);
        s.field_or(&ORDER, pinned.order, &mut self.order);
        s.field_or(&ALPHA_EVERY, pinned.alpha_every, &mut self.alpha_every);
        s.field_or(&ALPHA_L2, pinned.alpha_l2, &mut self.alpha_l2);
        let gradient = pinned.alpha_gradient;
        s.field_or(&ALPHA_GRADIENT, gradient, &mut self.alpha_gradient);
        s.field_or(&ALPHA_ON, pinned.alpha_on, &mut self.alpha_on);
        s.field_or(&ALPHA_RATE, pinned.alpha_rate, &mut self.alpha_rate);
        s.field_or(&V_RATE, pinned.v_rate, &mut self.v_rate);
        s.field_or(&L2_ON_V, pinned.l2_on_v, &mut self.l2_on_v);
        s.field_or(&V_DROPOUT, pinned.v_dropout, &mut self.v_dropout);
        s.field_or(&PROJECTION, pinned.projection, &mut self.projection);
        if pinned.preset != Preset::None {
            for key in self.differences(&pinned) {
                s.problem(
                    key,
                    "differs from preset = \"authors\"; remove the key, or remove the preset and \
                     write its options one by one",
                );
            }
        }
    }
}

pub(super) const PRESET: Setting<Words<Preset>> = Setting::words(
    "preset",
    "none",
    &[
        ("none", Preset::None, "each option is set individually"),
        (
            "authors",
            Preset::Authors,
            "every option as in the authors' released code",
        ),
    ],
)
.help("the values of the options (docs/AUTHORS.md); its old name `fedtorch` is accepted")
.source("the authors' code, FedTorch")
.seldom();

pub(super) const MIX: Setting<Words<Mix>> = Setting::words(
    "mix",
    "parameters",
    &[
        ("parameters", Mix::Parameters, "v̄ = αv + (1−α)w"),
        (
            "logits",
            Mix::Logits,
            "outputs: the same for linear models; authors' code",
        ),
    ],
)
.help("what α mixes")
.source("FedTorch, FL4Health, Plato: logits")
.seldom();

pub(super) const ORDER: Setting<Words<Order>> = Setting::words(
    "order",
    "simultaneous",
    &[
        (
            "simultaneous",
            Order::Simultaneous,
            "all from the values before the step",
        ),
        (
            "sequential",
            Order::Sequential,
            "w, then v, then α; authors' code",
        ),
    ],
)
.help("the order of updates in a step")
.source("Algorithm 1; FedTorch: sequential")
.seldom();

pub(super) const ALPHA_EVERY: Setting<Words<Every>> = Setting::words(
    "alpha_every",
    "round",
    &[
        ("round", Every::Round, "at a round's first step"),
        ("step", Every::Step, "at every step"),
    ],
)
.help("when α moves")
.source("section 4.2; fedjax, PFLlib: step")
.seldom();

pub(super) const ALPHA_L2: Setting<Number> =
    Setting::number("alpha_l2", 0.0, at_least(0.0).to(1e6))
        .help("a pull of α to 0: this times α is added to α's gradient (authors' code: 0.02)")
        .source("FedTorch: 0.02")
        .seldom();

pub(super) const ALPHA_GRADIENT: Setting<Words<AlphaGradient>> = Setting::words(
    "alpha_gradient",
    "slope",
    &[
        ("slope", AlphaGradient::Slope, "⟨v−w, ∇f(v̄)⟩"),
        (
            "blended",
            AlphaGradient::Blended,
            "⟨v−w, α∂ᵥ + (1−α)∂_w⟩; authors' code",
        ),
    ],
)
.help("the direction in which α descends")
.source("section 4.2; FedTorch: blended")
.seldom();

pub(super) const ALPHA_ON: Setting<Words<AlphaOn>> = Setting::words(
    "alpha_on",
    "batch",
    &[
        ("batch", AlphaOn::Batch, "the batch that moves w and v"),
        (
            "aside",
            AlphaOn::HeldOut,
            "⌈m/5⌉ of the rows, on which w and v are not trained; ours",
        ),
    ],
)
.help("the rows on which α learns")
.seldom();

const STEP: Custom<Rate> = Custom {
    name: "word or number",
    default: || Some(Rate::Schedule),
    allowed: "\"schedule\", \"constant\" or a number above 0",
    parse: |found| match found.as_str() {
        Some("schedule") => Some(Rate::Schedule),
        Some("constant") => Some(Rate::Constant),
        _ => positive(found).map(Rate::Number),
    },
    write: |rate| match *rate {
        Rate::Schedule => "schedule".into(),
        Rate::Constant => "constant".into(),
        Rate::Number(number) => number.into(),
    },
};

pub(super) const ALPHA_RATE: Setting<Custom<Rate>> = Setting::custom("alpha_rate", STEP)
    .help("α's rate: η_t, the learning rate without decay, or a number")
    .source("FL4Health: 0.01")
    .seldom();

pub(super) const V_RATE: Setting<Custom<Rate>> = Setting::custom("v_rate", STEP)
    .help("v's rate, as alpha_rate")
    .source("FedTorch: constant")
    .seldom();

pub(super) const L2_ON_V: Setting<Flag> = Setting::flag("l2_on_v", false)
    .help("true: the ℓ2 term acts on v itself, α∇ℓ + λv, and not through v̄, α(∇ℓ + λv̄)")
    .source("FedTorch: true")
    .seldom();

pub(super) const V_DROPOUT: Setting<Words<VDropout>> = Setting::words(
    "v_dropout",
    "always",
    &[
        ("always", VDropout::Always, "as on w"),
        (
            "first-round",
            VDropout::FirstRound,
            "not from round 2 on; authors' code",
        ),
    ],
)
.help("when model.dropout acts on v")
.source("FedTorch: first-round")
.seldom();

pub(super) const PROJECTION: Setting<Custom<Option<f64>>> = Setting::custom(
    "projection",
    Custom {
        name: "number or word",
        default: || Some(None),
        allowed: "\"none\" or a radius above 0",
        parse: |found| match found.as_str() {
            Some("none") => Some(None),
            _ => positive(found).map(Some),
        },
        write: |radius| radius.map_or(Value::from("none"), Value::Float),
    },
)
.symbol("R")
.help("keeps wᵢ and vᵢ within ‖·‖ ≤ R")
.source("Theorem 4")
.seldom();

/// Reads a number above 0.
fn positive(found: &Value) -> Option<f64> {
    // In f32 smaller steps have no effect.
    as_number(found).filter(|x| (1e-30..=1e30).contains(x))
}
