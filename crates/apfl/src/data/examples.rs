//! Examples and batches: features and targets, row by row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::error::{Error, Result};

/// Converts bytes to numbers: x·scale + shift, one pair per channel. A row holds its channels one
/// after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// (scale, shift) of every channel.
    pub channels: Vec<(f32, f32)>,
}

impl Scaling {
    /// Creates the scaling (x/255 − mean)/deviation from every channel's (mean, deviation).
    pub fn normalized(channels: &[(f64, f64)]) -> Self {
        let pair = |&(mean, deviation): &(f64, f64)| {
            (
                (1.0 / (255.0 * deviation)) as f32,
                (-mean / deviation) as f32,
            )
        };
        Self {
            channels: channels.iter().map(pair).collect(),
        }
    }

    /// Converts rows of `width` bytes into `out`.
    #[inline(always)]
    pub fn apply(&self, bytes: &[u8], width: usize, out: &mut [f32]) {
        assert_eq!(bytes.len(), out.len());
        let plane = width / self.channels.len();
        for (row, out) in bytes.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            for (k, &(scale, shift)) in self.channels.iter().enumerate() {
                let at = k * plane..(k + 1) * plane;
                for (out, byte) in out[at.clone()].iter_mut().zip(&row[at]) {
                    *out = f32::from(*byte) * scale + shift;
                }
            }
        }
    }
}

/// Represents rows of features, all of one width.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Numbers.
    Floats(Vec<f32>),
    /// Bytes and their scaling.
    Bytes(Vec<u8>, Arc<Scaling>),
}

/// Represents the targets, one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Class indices.
    Classes(Vec<u32>),
    /// Numbers (regression).
    Values(Vec<f32>),
}

impl Targets {
    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        match self {
            Targets::Classes(c) => c.len(),
            Targets::Values(v) => v.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Represents examples: features and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    width: usize,
    pub(super) features: Features,
    targets: Targets,
}

impl Examples {
    /// Creates examples of `width` features each.
    ///
    /// # Panics
    /// The numbers of features and targets do not match.
    pub fn new(width: usize, features: Features, targets: Targets) -> Self {
        let cells = match &features {
            Features::Floats(x) => x.len(),
            Features::Bytes(x, _) => x.len(),
        };
        assert_eq!(cells, width * targets.len(), "features and targets agree");
        Self {
            width,
            features,
            targets,
        }
    }

    /// Creates examples from rows of `width` numbers and the class of each.
    ///
    /// # Errors
    /// The numbers of features and classes do not match.
    pub fn classes(width: usize, rows: Vec<f32>, classes: Vec<u32>) -> Result<Self> {
        Self::checked(width, rows, Targets::Classes(classes))
    }

    /// Creates examples from rows of `width` numbers and the value to predict of each.
    ///
    /// # Errors
    /// The numbers of features and values do not match.
    pub fn values(width: usize, rows: Vec<f32>, values: Vec<f32>) -> Result<Self> {
        Self::checked(width, rows, Targets::Values(values))
    }

    fn checked(width: usize, rows: Vec<f32>, targets: Targets) -> Result<Self> {
        if rows.len() == width * targets.len() {
            Ok(Self::new(width, Features::Floats(rows), targets))
        } else {
            Err(Error::data(format!(
                "expected {} rows × {width} features = {} values, found {}",
                targets.len(),
                width * targets.len(),
                rows.len()
            )))
        }
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Returns the number of features per example.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns the features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the SHA-256 of all features and targets.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update((self.width as u64).to_le_bytes());
        match &self.features {
            Features::Floats(x) => x.iter().for_each(|x| hasher.update(x.to_le_bytes())),
            Features::Bytes(x, _) => hasher.update(x),
        }
        match &self.targets {
            Targets::Classes(y) => y.iter().for_each(|y| hasher.update(y.to_le_bytes())),
            Targets::Values(y) => y.iter().for_each(|y| hasher.update(y.to_le_bytes())),
        }
        hex(&hasher.finalize())
    }

    /// Counts the examples of each class (empty for regression).
    pub fn class_counts(&self, classes: usize) -> Vec<u64> {
        let Targets::Classes(labels) = &self.targets else {
            return Vec::new();
        };
        let mut counts = vec![0; classes];
        labels.iter().for_each(|c| counts[*c as usize] += 1);
        counts
    }

    /// Replaces every class y by C − 1 − y, where C is the number of classes.
    pub(crate) fn flip_classes(&mut self, classes: usize) {
        if let Targets::Classes(labels) = &mut self.targets {
            labels.iter_mut().for_each(|y| *y = classes as u32 - 1 - *y);
        }
    }

    /// Returns at most `len` examples from `start` as one batch.
    pub fn batch(&self, start: usize, len: usize) -> Batch<'_> {
        let end = (start + len).min(self.len());
        let cells = start * self.width..end * self.width;
        Batch {
            number: 0,
            mask: 0,
            width: self.width,
            rows: match &self.features {
                Features::Floats(x) => FeatureView::Floats(&x[cells]),
                Features::Bytes(x, scaling) => FeatureView::Bytes(&x[cells], scaling),
            },
            targets: match &self.targets {
                Targets::Classes(c) => Labels::Classes(&c[start..end]),
                Targets::Values(v) => Labels::Values(&v[start..end]),
            },
        }
    }

    /// Returns all examples as one batch.
    pub fn all(&self) -> Batch<'_> {
        self.batch(0, self.len())
    }

    /// Returns no examples, with the same width and types.
    pub fn empty_like(&self) -> Self {
        Self {
            width: self.width,
            features: match &self.features {
                Features::Floats(_) => Features::Floats(Vec::new()),
                Features::Bytes(_, scaling) => Features::Bytes(Vec::new(), scaling.clone()),
            },
            targets: match &self.targets {
                Targets::Classes(_) => Targets::Classes(Vec::new()),
                Targets::Values(_) => Targets::Values(Vec::new()),
            },
        }
    }

    /// Copies the rows of these indices to `out`, reusing its memory if the types match.
    pub fn gather_into(&self, rows: &[u32], out: &mut Examples) {
        let same_types = matches!(
            (&self.features, &out.features),
            (Features::Floats(_), Features::Floats(_)) | (Features::Bytes(..), Features::Bytes(..))
        ) && matches!(
            (&self.targets, &out.targets),
            (Targets::Classes(_), Targets::Classes(_)) | (Targets::Values(_), Targets::Values(_))
        );
        if !same_types {
            *out = self.empty_like();
        }
        out.width = self.width;
        match (&self.features, &mut out.features) {
            (Features::Floats(from), Features::Floats(to)) => {
                gather(from, self.width, rows, to);
            }
            (Features::Bytes(from, scaling), Features::Bytes(to, old)) => {
                gather(from, self.width, rows, to);
                if !Arc::ptr_eq(old, scaling) {
                    *old = scaling.clone();
                }
            }
            _ => unreachable!("the types match"),
        }
        match (&self.targets, &mut out.targets) {
            (Targets::Classes(from), Targets::Classes(to)) => gather(from, 1, rows, to),
            (Targets::Values(from), Targets::Values(to)) => gather(from, 1, rows, to),
            _ => unreachable!("the types match"),
        }
    }

    /// Returns the rows of these indices.
    pub fn gathered(&self, rows: &[u32]) -> Self {
        let mut out = self.empty_like();
        self.gather_into(rows, &mut out);
        out
    }
}

fn gather<T: Copy>(from: &[T], width: usize, rows: &[u32], to: &mut Vec<T>) {
    to.clear();
    for &row in rows {
        let start = row as usize * width;
        to.extend_from_slice(&from[start..start + width]);
    }
}

/// Represents the features of a batch.
#[derive(Clone, Copy, Debug)]
pub enum FeatureView<'a> {
    /// Numbers.
    Floats(&'a [f32]),
    /// Bytes and their scaling.
    Bytes(&'a [u8], &'a Scaling),
}

/// Represents the targets of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Labels<'a> {
    /// Class indices.
    Classes(&'a [u32]),
    /// Numbers (regression).
    Values(&'a [f32]),
}

/// Represents a contiguous view of examples: what a model sees.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Identifies the batch, so that a workspace prepares it once for several gradients; 0 if it
    /// has no identity.
    pub number: u64,
    /// The seed of dropout masks; 0 drops nothing, as in evaluation.
    pub mask: u64,
    /// Features per example.
    pub width: usize,
    /// The features, row by row.
    pub rows: FeatureView<'a>,
    /// The targets.
    pub targets: Labels<'a>,
}

impl<'a> Batch<'a> {
    /// Returns the batch with dropout switched off unless `dropped`.
    #[must_use]
    pub(crate) fn with_dropout_if(self, dropped: bool) -> Self {
        let mask = if dropped { self.mask } else { 0 };
        Self { mask, ..self }
    }

    /// Returns the batch with the next dropout mask, for a second pass over it in training.
    #[must_use]
    pub(crate) fn with_next_mask(self) -> Self {
        let mask = match self.mask {
            0 => 0,
            mask => mask.rotate_left(32) | 1,
        };
        Self { mask, ..self }
    }

    /// Returns the features as numbers, converting bytes in `buffer`.
    pub fn numbers(&self, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        match self.rows {
            FeatureView::Floats(x) => x,
            FeatureView::Bytes(bytes, scaling) => {
                buffer.resize(bytes.len(), 0.0);
                scaling.apply(bytes, self.width, buffer);
                buffer
            }
        }
    }

    /// Returns ‖x‖² of a row.
    pub(crate) fn row_norm_squared(&self, row: usize) -> f64 {
        let range = row * self.width..(row + 1) * self.width;
        let square = |x: f32| f64::from(x) * f64::from(x);
        match self.rows {
            FeatureView::Floats(x) => x[range].iter().map(|x| square(*x)).sum(),
            FeatureView::Bytes(bytes, scaling) => {
                let each = self.width / scaling.channels.len();
                let channels = bytes[range].chunks(each).zip(&scaling.channels);
                let of = |(bytes, (scale, shift)): (&[u8], &(f32, f32))| {
                    let value = |byte: &u8| square(scale * f32::from(*byte) + shift);
                    bytes.iter().map(value).sum::<f64>()
                };
                channels.map(of).sum()
            }
        }
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        match self.targets {
            Labels::Classes(c) => c.len(),
            Labels::Values(v) => v.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
