//! The input of a dense layer: rows of numbers, split into varying and constant columns.

use super::compact::compact;
use super::sparse::{Sparse, find};
use crate::data::{Batch, FeatureView as Features, Scaling};

/// Rows of numbers for the inputs of a layer that vary within a batch. The other inputs, half of
/// MNIST's pixels, are constant and enter a product as a term of rank one.
#[derive(Clone, Copy, Debug)]
pub struct LayerRows<'a> {
    /// The varying numbers, row by row.
    pub x: &'a [f32],
    /// The varying inputs, ascending.
    pub varied: &'a [u32],
    /// The constant numbers.
    pub constants: &'a [f32],
    /// The constant inputs, ascending.
    pub constant: &'a [u32],
    /// The rows as bytes that are mostly zero, instead of all the above.
    pub sparse: Option<Sparse<'a>>,
}

impl<'a> LayerRows<'a> {
    /// Creates rows whose numbers all vary; `inputs` are 0, 1, ….
    pub fn dense(x: &'a [f32], inputs: &'a [u32]) -> Self {
        Self {
            x,
            varied: inputs,
            constants: &[],
            constant: &[],
            sparse: None,
        }
    }
}

/// A batch as [`LayerRows`], cached by the batch's number, because APFL uses every batch twice, at
/// w and at v̄.
#[derive(Clone, Debug, Default)]
pub struct Input {
    scaling: Option<Scaling>,
    /// The cached batch's number, its columns, and whether it is for a wide layer.
    cached: (u64, usize, bool),
    columns: Columns,
    all: Vec<u32>,
    /// Masks of the nonzero bytes, if they are few.
    masks: Vec<u32>,
    sparse: bool,
    products: Vec<[f32; 256]>,
}

/// The columns of byte rows, split into varying and constant ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    pub(super) x: Vec<f32>,
    pub(super) varied: Vec<u32>,
    pub(super) constants: Vec<f32>,
    pub(super) constant: Vec<u32>,
    /// Per column, the bits in which some row differs from the first.
    pub(super) differs: Vec<u8>,
    /// Per column, a bit: whether some row differs from the first.
    pub(super) masks: Vec<u64>,
    /// The end of each channel among the varying columns.
    pub(super) ends: Vec<usize>,
    /// The bytes of the varying columns, row by row.
    pub(super) varied_bytes: Vec<u8>,
}

impl Input {
    /// Prepares a batch for a first layer that is wide or not.
    pub fn prepare(&mut self, batch: &Batch<'_>, wide: bool) {
        match batch.rows {
            Features::Floats(_) => all_columns(&mut self.all, batch.width),
            Features::Bytes(bytes, scaling) => {
                let this = (batch.number, batch.width, wide);
                if batch.number > 0 && self.cached == this {
                    return;
                }
                if self.scaling.as_ref() != Some(scaling) {
                    self.scaling = Some(scaling.clone());
                    let products =
                        |(scale, _): &(f32, f32)| std::array::from_fn(|k| k as f32 * scale);
                    self.products = scaling.channels.iter().map(products).collect();
                }
                self.cached = this;
                self.sparse = wide && 2 * find(bytes, batch.width, &mut self.masks) <= bytes.len();
                if !self.sparse {
                    compact(bytes, batch.width, scaling, &mut self.columns);
                }
            }
        }
    }

    /// Returns the batch that was prepared last.
    pub fn rows<'a>(&'a self, batch: &Batch<'a>) -> LayerRows<'a> {
        match batch.rows {
            Features::Floats(x) => LayerRows::dense(x, &self.all[..batch.width]),
            Features::Bytes(bytes, scaling) if self.sparse => LayerRows {
                sparse: Some(Sparse {
                    bytes,
                    masks: &self.masks,
                    products: &self.products,
                    scaling,
                    width: batch.width,
                }),
                ..LayerRows::dense(&[], &[])
            },
            Features::Bytes(..) => LayerRows {
                x: &self.columns.x,
                varied: &self.columns.varied,
                constants: &self.columns.constants,
                constant: &self.columns.constant,
                sparse: None,
            },
        }
    }
}

/// Extends `all` to at least 0, 1, …, width − 1.
pub fn all_columns(all: &mut Vec<u32>, width: usize) {
    let cached = all.len() as u32;
    all.extend(cached..(width as u32).max(cached));
}

/// Returns the batch's features as floats, converted into `buffer` if they are bytes.
pub fn numbers<'a>(batch: &Batch<'a>, buffer: &'a mut Vec<f32>) -> &'a [f32] {
    match batch.rows {
        Features::Floats(x) => x,
        Features::Bytes(bytes, scaling) => {
            buffer.resize(bytes.len(), 0.0);
            scaling.apply(bytes, batch.width, buffer);
            buffer
        }
    }
}
