//! Matrix products and the passes of a dense layer. The only room with `unsafe`.
//!
//! Matrices are row-major. A dense layer's weight has the shape (inputs, outputs):
//! y = x·W + b. Products run on the `gemm` crate, which picks the CPU's widest vectors
//! at run time; always on one thread, so that the order of a sum never depends on how
//! many there are.

use super::Step;
use crate::data::{Batch, Rows};

/// dst ← keep·dst + scale·A·B for an (m, k)-matrix A and a (k, n)-matrix B, each given
/// with its (row, column) strides; dst is row-major (m, n).
#[allow(clippy::too_many_arguments)]
fn product(
    dst: &mut [f32],
    (m, n, k): (usize, usize, usize),
    a: &[f32],
    (a_row, a_column): (usize, usize),
    b: &[f32],
    (b_row, b_column): (usize, usize),
    keep: bool,
    scale: f32,
) {
    let last = |rows: usize, columns: usize, (row, column): (usize, usize)| match rows * columns {
        0 => 0,
        _ => (rows - 1) * row + (columns - 1) * column + 1,
    };
    assert!(dst.len() >= m * n);
    assert!(a.len() >= last(m, k, (a_row, a_column)));
    assert!(b.len() >= last(k, n, (b_row, b_column)));
    // SAFETY: the assertions above keep every index (i·row + j·column) of the three
    // matrices inside its slice; dst is borrowed mutably and so overlaps neither.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr(),
            1,
            n as isize,
            keep,
            a.as_ptr(),
            a_column as isize,
            a_row as isize,
            b.as_ptr(),
            b_column as isize,
            b_row as isize,
            1.0f32,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The shape of a dense layer and where its parameters lie: W first, then b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    /// Inputs.
    pub inputs: usize,
    /// Outputs.
    pub outputs: usize,
    /// Where W starts within the flat parameters.
    pub offset: usize,
}

impl Dense {
    fn weight(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.inputs * self.outputs
    }

    fn bias(&self) -> std::ops::Range<usize> {
        let end = self.weight().end;
        end..end + self.outputs
    }

    /// y ← x·W + b for `n` rows.
    pub fn forward(&self, at: &[f32], x: &[f32], n: usize, y: &mut Vec<f32>) {
        let bias = &at[self.bias()];
        y.clear();
        (0..n).for_each(|_| y.extend_from_slice(bias));
        product(
            y,
            (n, self.outputs, self.inputs),
            x,
            (self.inputs, 1),
            &at[self.weight()],
            (self.outputs, 1),
            true,
            1.0,
        );
    }

    /// back ← δ·Wᵀ for `n` rows: what the layer before is to change.
    pub fn propagate(&self, at: &[f32], delta: &[f32], n: usize, back: &mut Vec<f32>) {
        back.resize(n * self.inputs, 0.0);
        product(
            back,
            (n, self.inputs, self.outputs),
            delta,
            (self.outputs, 1),
            &at[self.weight()],
            (1, self.outputs),
            false,
            1.0,
        );
    }

    /// W ← W − decay·W_at + scale·xᵀδ and b likewise; `at: None` is W itself.
    pub fn accumulate(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        x: &[f32],
        delta: &[f32],
    ) {
        let n = delta.len() / self.outputs;
        decay(at, into, self.weight().start..self.bias().end, step.decay);
        product(
            &mut into[self.weight()],
            (self.inputs, self.outputs, n),
            x,
            (1, self.inputs),
            delta,
            (self.outputs, 1),
            true,
            step.scale,
        );
        let bias = &mut into[self.bias()];
        for (k, b) in bias.iter_mut().enumerate() {
            let sum: f32 = delta.iter().skip(k).step_by(self.outputs).sum();
            *b += step.scale * sum;
        }
    }
}

/// into ← into − factor·at within `range`; `at: None` is `into` itself. The same
/// arithmetic in both cases, so that an equal copy gives equal bits.
pub fn decay(at: Option<&[f32]>, into: &mut [f32], range: std::ops::Range<usize>, factor: f32) {
    if factor == 0.0 {
        return;
    }
    let into = &mut into[range.clone()];
    match at {
        Some(at) => {
            for (x, at) in into.iter_mut().zip(&at[range]) {
                *x -= factor * at;
            }
        }
        None => into.iter_mut().for_each(|x| *x -= factor * *x),
    }
}

/// The batch's features as numbers: its own where they are, else converted into `buffer`.
pub fn numbers<'a>(batch: &Batch<'a>, buffer: &'a mut Vec<f32>) -> &'a [f32] {
    match batch.rows {
        Rows::Floats(x) => x,
        Rows::Bytes(bytes, scaling) => {
            buffer.resize(bytes.len(), 0.0);
            scaling.apply(bytes, batch.width, buffer);
            buffer
        }
    }
}

/// x ← max(x, 0)
pub fn relu(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = x.max(0.0));
}

/// δ ← δ where the rectified `y` is positive, else 0.
pub fn relu_backward(delta: &mut [f32], y: &[f32]) {
    for (d, y) in delta.iter_mut().zip(y) {
        *d = if *y > 0.0 { *d } else { 0.0 };
    }
}
