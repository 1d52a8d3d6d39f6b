//! What a network may have beside its layers: normalization, dropout, a head without a bias; and
//! how it is scored. None of it is the paper's text; the authors' released code has all of it.

use super::kernels::norm::Over;
use crate::settings::Section;

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

impl Extras {
    /// The paper's text: none.
    pub const NONE: Self = Self {
        norm: None,
        dropout: 0.0,
        head_bias: true,
        scored_in: None,
        augment: Augment::None,
    };

    /// Their keys in `[model]`, of models with hidden layers.
    pub(super) const KEYS: [(&'static str, &'static str); 3] = [
        (
            "norm = \"none\"",
            "of hidden dense layers: layer (each row) · batch (batch statistics, always; authors' code)",
        ),
        (
            "dropout = 0.0",
            "the share of hidden dense outputs that training drops: 0 to below 1 (authors' code: 0.25)",
        ),
        (
            "head_bias = true",
            "false: the last layer's bias stays 0 (authors' code)",
        ),
    ];

    /// Reads those keys.
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let norms = [
            ("none", None),
            ("layer", Some(Over::Row)),
            ("batch", Some(Over::Batch)),
        ];
        Self {
            norm: s.choice("norm", "none", &norms),
            dropout: s.float("dropout", 0.0, 0.0..=0.99, "0 to 0.99") as f32,
            head_bias: s.boolean("head_bias", true),
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
