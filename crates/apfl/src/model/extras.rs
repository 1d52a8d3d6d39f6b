//! What a network may have beside its layers: normalization, dropout, a head without a bias; and
//! how it is scored. None of it is the paper's text; the authors' released code has all of it.

use super::kernels::norm::Over;
use crate::settings::{Flag, Number, Section, Setting, Words, at_least};

/// Which images are flipped and cropped at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Augment {
    /// None.
    #[default]
    None,
    /// Those that are trained on.
    Train,
    /// Also those that scores are taken on, training and validation images alike (the authors'
    /// released code).
    All,
}

/// How scores are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// In batches of that many shuffled rows; `None`: as many as suits the program. Matters to
    /// models whose rows depend on each other alone.
    pub batch: Option<usize>,
    /// On flipped and cropped images.
    pub augmented: bool,
}

impl Evaluation {
    /// Rows in their order, as they are.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// What stands between layers, and how a model is scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extras {
    /// Normalization of every hidden dense layer, before its ReLU.
    pub norm: Option<Over>,
    /// The share of a hidden dense layer's outputs that training drops, after its ReLU.
    pub dropout: f32,
    /// Whether the last layer has a bias; else it stays 0.
    pub head_bias: bool,
    /// `evaluation.batch`
    pub scored_in: Option<usize>,
    /// `data.augment`
    pub augment: Augment,
}

pub(crate) const AUGMENT: Setting<Words<Augment>> = Setting::words(
    "augment",
    "none",
    &[
        ("none", Augment::None, ""),
        ("train", Augment::Train, "those trained on"),
        ("all", Augment::All, "also those scored on; authors' code"),
    ],
)
.help("images that are flipped and cropped at random")
.source("FedTorch: all")
.seldom();

impl Augment {
    /// Reads `augment`, where it was written.
    pub(crate) fn read(s: &mut Section<'_>) -> Self {
        s.knows(&["augment"]);
        if s.has("augment") {
            s.get(&AUGMENT)
        } else {
            Self::None
        }
    }
}

pub(super) const NORM: Setting<Words<Option<Over>>> = Setting::words(
    "norm",
    "none",
    &[
        ("none", None, ""),
        ("layer", Some(Over::Row), "over each row"),
        (
            "batch",
            Some(Over::Batch),
            "batch statistics, always; authors' code",
        ),
    ],
)
.help("normalization of hidden dense layers, before their ReLU")
.source("FedTorch: batch");

pub(super) const DROPOUT: Setting<Number> = Setting::number("dropout", 0.0, at_least(0.0).to(0.99))
    .help("the share of hidden dense outputs that training drops (authors' code: 0.25)")
    .source("FedTorch: 0.25");

pub(super) const HEAD_BIAS: Setting<Flag> = Setting::flag("head_bias", true)
    .help("false: the last layer's bias stays 0 (authors' code)")
    .source("FedTorch: false");

impl Extras {
    /// The paper's text: none.
    pub const NONE: Self = Self {
        norm: None,
        dropout: 0.0,
        head_bias: true,
        scored_in: None,
        augment: Augment::None,
    };

    /// Reads their keys in `[model]`, of models with hidden layers.
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self {
            norm: s.get(&NORM),
            dropout: s.get(&DROPOUT) as f32,
            head_bias: s.get(&HEAD_BIAS),
            ..Self::NONE
        }
    }

    /// The images' shape, where training changes them.
    pub(super) fn trains_on_changed(&self, images: Option<[usize; 3]>) -> Option<[usize; 3]> {
        images.filter(|_| self.augment != Augment::None)
    }

    /// How a model with them is scored.
    pub(super) fn evaluation(&self, images: bool) -> Evaluation {
        Evaluation {
            batch: self.scored_in,
            augmented: images && self.augment == Augment::All,
        }
    }
}
