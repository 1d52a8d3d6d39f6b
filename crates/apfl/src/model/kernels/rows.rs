//! What a dense layer takes in: rows of numbers, and which of their columns are worth
//! a visit.

use super::compact::compact;
use super::sparse::{Sparse, find};
use crate::data::{Batch, FeatureView as Features, Scaling};

/// Rows of numbers that belong to some of a layer's inputs; the other inputs are the
/// same in all rows. Half of MNIST's pixels are so within a batch: they enter a product
/// as a term of rank one.
#[derive(Clone, Copy, Debug)]
pub struct LayerRows<'a> {
    /// The numbers that vary, row by row.
    pub x: &'a [f32],
    /// The inputs they belong to, ascending.
    pub varied: &'a [u32],
    /// The numbers that do not.
    pub constants: &'a [f32],
    /// The inputs those belong to, ascending.
    pub constant: &'a [u32],
    /// The same rows as bytes that are mostly zero, instead of all the above.
    pub sparse: Option<Sparse<'a>>,
}

impl<'a> LayerRows<'a> {
    /// Rows whose numbers all vary; `inputs` are 0, 1, ….
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

/// A batch as [`LayerRows`], kept as long as the same number is asked for: APFL takes every
/// batch twice, at w and at v̄.
#[derive(Clone, Debug, Default)]
pub struct Input {
    scaling: Option<Scaling>,
    /// The batch's number, its columns, and whether it is for a wide layer.
    known: (u64, usize, bool),
    columns: Columns,
    all: Vec<u32>,
    /// Where the bytes are not zero, if that is seldom.
    masks: Vec<u32>,
    sparse: bool,
    products: Vec<[f32; 256]>,
}

/// The columns of byte rows, told apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    pub(super) x: Vec<f32>,
    pub(super) varied: Vec<u32>,
    pub(super) constants: Vec<f32>,
    pub(super) constant: Vec<u32>,
    /// Per column, the bits in which some row differs from the first.
    pub(super) differs: Vec<u8>,
    /// The same as a bit per column.
    pub(super) masks: Vec<u64>,
    /// Where each channel ends among the columns that vary.
    pub(super) ends: Vec<usize>,
    /// The bytes of the columns that vary, row by row.
    pub(super) together: Vec<u8>,
}

impl Input {
    /// Takes the batch in, for a first layer that is wide or not.
    pub fn prepare(&mut self, batch: &Batch<'_>, wide: bool) {
        match batch.rows {
            Features::Floats(_) => all_columns(&mut self.all, batch.width),
            Features::Bytes(bytes, scaling) => {
                let this = (batch.number, batch.width, wide);
                if batch.number > 0 && self.known == this {
                    return;
                }
                if self.scaling.as_ref() != Some(scaling) {
                    self.scaling = Some(scaling.clone());
                    let products =
                        |(scale, _): &(f32, f32)| std::array::from_fn(|k| k as f32 * scale);
                    self.products = scaling.channels.iter().map(products).collect();
                }
                self.known = this;
                self.sparse = wide && 2 * find(bytes, batch.width, &mut self.masks) <= bytes.len();
                if !self.sparse {
                    compact(bytes, batch.width, scaling, &mut self.columns);
                }
            }
        }
    }

    /// The batch that was taken in last.
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

/// Makes `all` hold at least 0, 1, …, width − 1.
pub fn all_columns(all: &mut Vec<u32>, width: usize) {
    let known = all.len() as u32;
    all.extend(known..(width as u32).max(known));
}

/// The batch's features as numbers: its own where they are, else converted into `buffer`.
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
