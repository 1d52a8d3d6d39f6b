//! Options of networks: normalization, dropout, a head without bias, and how the model is scored.
//! The paper has none of them; the authors' released code has all.

use super::kernels::norm::Normalization;
use crate::settings::{Flag, Number, Section, Setting, Words, at_least};

/// Which images are randomly flipped and cropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Augment {
    /// None.
    #[default]
    None,
    /// Training images, during training.
    Train,
    /// Also all images during scoring (the authors' released code).
    All,
}

/// How a model is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// The size of shuffled batches; `None`: the program's choice. It affects only models whose
    /// rows depend on each other.
    pub batch: Option<usize>,
    /// Whether images are flipped and cropped.
    pub augmented: bool,
}

impl Evaluation {
    /// Returns whether rows are scored in their order and unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Options between the layers, and how a model is scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extras {
    /// Normalization of every hidden dense layer, before its ReLU.
    pub norm: Option<Normalization>,
    /// The share of a hidden dense layer's outputs that training drops, after its ReLU.
    pub dropout: f32,
    /// Whether the last layer has a bias; otherwise it stays 0.
    pub head_bias: bool,
    /// `evaluation.batch`
    pub evaluation_batch: Option<usize>,
    /// `data.augment`
    pub augment: Augment,
}

pub(crate) const AUGMENT: Setting<Words<Augment>> = Setting::words(
    "augment",
    "none",
    &[
        ("none", Augment::None, ""),
        ("train", Augment::Train, "training images"),
        ("all", Augment::All, "also during scoring; authors' code"),
    ],
)
.help("which images are randomly flipped and cropped")
.source("FedTorch: all")
.seldom();

impl Augment {
    /// Reads `augment`, if given.
    pub(crate) fn read(s: &mut Section<'_>) -> Self {
        s.knows(&["augment"]);
        if s.has("augment") {
            s.get(&AUGMENT)
        } else {
            Self::None
        }
    }
}

pub(super) const NORM: Setting<Words<Option<Normalization>>> = Setting::words(
    "norm",
    "none",
    &[
        ("none", None, ""),
        ("layer", Some(Normalization::Layer), "over each row"),
        (
            "batch",
            Some(Normalization::Batch),
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
    /// No options, as in the paper.
    pub const NONE: Self = Self {
        norm: None,
        dropout: 0.0,
        head_bias: true,
        evaluation_batch: None,
        augment: Augment::None,
    };

    /// Reads the options of a model with hidden layers from `[model]`.
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self {
            norm: s.get(&NORM),
            dropout: s.get(&DROPOUT) as f32,
            head_bias: s.get(&HEAD_BIAS),
            ..Self::NONE
        }
    }

    /// Returns the images' shape if training augments them.
    pub(super) fn augmented_shape(&self, images: Option<[usize; 3]>) -> Option<[usize; 3]> {
        images.filter(|_| self.augment != Augment::None)
    }

    /// Returns how a model with these options is scored.
    pub(super) fn evaluation(&self, images: bool) -> Evaluation {
        Evaluation {
            batch: self.evaluation_batch,
            augmented: images && self.augment == Augment::All,
        }
    }
}
