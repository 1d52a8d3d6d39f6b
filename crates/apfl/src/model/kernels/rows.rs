//! What a dense layer takes in: rows of numbers, and which of their columns are worth
//! a visit.

use pulp::Arch;

use crate::data::{Batch, Rows as Features, Scaling};

/// Rows of numbers, all of one width.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The numbers, row by row.
    pub x: &'a [f32],
    /// The columns whose numbers differ between rows, ascending.
    pub varied: &'a [u32],
    /// The columns that hold one number in all rows, ascending: half of MNIST's pixels
    /// within a batch. They enter a product as a term of rank one.
    pub flat: &'a [u32],
}

impl<'a> Rows<'a> {
    /// Rows of which every column is worth a visit; `columns` are all of them.
    pub fn dense(x: &'a [f32], columns: &'a [u32]) -> Self {
        Self {
            x,
            varied: columns,
            flat: &[],
        }
    }
}

/// A batch as [`Rows`], kept as long as the same batch is asked for: APFL takes every
/// batch twice, at w and at v̄.
#[derive(Clone, Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    scaling: Option<Scaling>,
    width: usize,
    x: Vec<f32>,
    differs: Vec<u8>,
    varied: Vec<u32>,
    flat: Vec<u32>,
    all: Vec<u32>,
}

impl Input {
    /// Takes the batch in.
    pub fn prepare(&mut self, batch: &Batch<'_>) {
        match batch.rows {
            Features::Floats(_) => {
                all_columns(&mut self.all, batch.width);
            }
            Features::Bytes(bytes, scaling) => {
                let same = self.width == batch.width
                    && self.bytes == bytes
                    && self.scaling.as_ref() == Some(scaling);
                if !same {
                    self.convert(bytes, batch.width, scaling);
                }
            }
        }
    }

    fn convert(&mut self, bytes: &[u8], width: usize, scaling: &Scaling) {
        self.width = width;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        if self.scaling.as_ref() != Some(scaling) {
            self.scaling = Some(scaling.clone());
        }
        let Self { x, differs, .. } = self;
        x.resize(bytes.len(), 0.0);
        differs.clear();
        differs.resize(width, 0);
        let first = &bytes[..width.min(bytes.len())];
        Arch::new().dispatch(|| {
            scaling.apply(bytes, width, x);
            for row in bytes.chunks_exact(width) {
                for ((differs, byte), first) in differs.iter_mut().zip(row).zip(first) {
                    *differs |= byte ^ first;
                }
            }
        });
        // Without a branch: whether a pixel differs is hard to foresee.
        self.varied.resize(width, 0);
        self.flat.resize(width, 0);
        let (mut varied, mut flat) = (0, 0);
        for (j, differs) in self.differs.iter().enumerate() {
            self.varied[varied] = j as u32;
            self.flat[flat] = j as u32;
            varied += usize::from(*differs != 0);
            flat += usize::from(*differs == 0);
        }
        self.varied.truncate(varied);
        self.flat.truncate(flat);
    }

    /// The batch that was taken in last.
    pub fn rows<'a>(&'a self, batch: &Batch<'a>) -> Rows<'a> {
        match batch.rows {
            Features::Floats(x) => Rows::dense(x, &self.all[..batch.width]),
            Features::Bytes(..) => Rows {
                x: &self.x,
                varied: &self.varied,
                flat: &self.flat,
            },
        }
    }
}

/// Makes `all` hold at least 0, 1, …, width − 1.
pub fn all_columns(all: &mut Vec<u32>, width: usize) {
    let known = all.len() as u32;
    all.extend(known..(width as u32).max(known));
}
