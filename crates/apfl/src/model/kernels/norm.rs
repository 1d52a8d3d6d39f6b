//! Normalization of a layer's outputs, and dropout.

use rand::Rng;

use super::decay;
use super::point::{Place, Point};
use crate::model::Step;
use crate::rng::{Purpose, stream};

/// Added to a variance before its root is taken, as in PyTorch.
const EPSILON: f32 = 1e-5;

/// Kind of normalization: the numbers over which mean and variance are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// Each output over the rows of the batch, also in evaluation: there are no running statistics,
    /// and a row's outputs depend on the other rows of its batch.
    Batch,
    /// Each row over its outputs.
    Layer,
}

/// A normalization y = s·x̂ + t with x̂ = (x − mean)/√(variance + ε), where s and t are parameters of
/// every output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// Batch or layer normalization.
    pub kind: Normalization,
    /// Number of outputs.
    pub width: usize,
    /// The offset of s within the flat parameters; t follows.
    pub offset: usize,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug, Default)]
pub struct NormSpace {
    /// x̂, row by row.
    normal: Vec<f32>,
    /// 1/√(variance + ε): of every output, or of every row.
    inverse: Vec<f32>,
    /// Σᵣ δ and Σᵣ δ·x̂ of every output.
    sums: [Vec<f32>; 2],
    /// s at the point of the pass.
    scale: Vec<f32>,
}

impl Normalize {
    fn scales(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.width
    }

    fn shifts(&self) -> std::ops::Range<usize> {
        self.offset + self.width..self.offset + 2 * self.width
    }

    /// Computes x ← s·x̂ + t for every row.
    pub fn forward(&self, at: Point<'_>, x: &mut [f32], space: &mut NormSpace) {
        space.normal.clear();
        space.normal.extend_from_slice(x);
        match self.kind {
            Normalization::Batch => self.normalize_columns(space),
            Normalization::Layer => self.normalize_rows(space),
        }
        space.scale.clear();
        space.scale.extend(self.scales().map(|k| at.get(k)));
        let shift = &mut space.sums[0];
        shift.clear();
        shift.extend(self.shifts().map(|k| at.get(k)));
        let rows = space.normal.chunks_exact(self.width);
        for (x, normal) in x.chunks_exact_mut(self.width).zip(rows) {
            for (((x, n), s), t) in x.iter_mut().zip(normal).zip(&space.scale).zip(&*shift) {
                *x = s * n + t;
            }
        }
    }

    fn normalize_columns(&self, space: &mut NormSpace) {
        let NormSpace {
            normal,
            inverse,
            sums: [mean, _],
            ..
        } = space;
        let share = 1.0 / (normal.len() / self.width).max(1) as f32;
        mean.clear();
        mean.resize(self.width, 0.0);
        for row in normal.chunks_exact(self.width) {
            mean.iter_mut().zip(row).for_each(|(m, x)| *m += x);
        }
        mean.iter_mut().for_each(|m| *m *= share);
        inverse.clear();
        inverse.resize(self.width, 0.0);
        for row in normal.chunks_exact_mut(self.width) {
            for ((x, m), square) in row.iter_mut().zip(&*mean).zip(&mut *inverse) {
                *x -= m;
                *square += *x * *x;
            }
        }
        inverse
            .iter_mut()
            .for_each(|v| *v = 1.0 / (*v * share + EPSILON).sqrt());
        for row in normal.chunks_exact_mut(self.width) {
            row.iter_mut().zip(&*inverse).for_each(|(x, i)| *x *= i);
        }
    }

    fn normalize_rows(&self, space: &mut NormSpace) {
        let share = 1.0 / self.width as f32;
        space.inverse.clear();
        for row in space.normal.chunks_exact_mut(self.width) {
            let mean = share * row.iter().sum::<f32>();
            row.iter_mut().for_each(|x| *x -= mean);
            let variance = share * row.iter().map(|x| x * x).sum::<f32>();
            let inverse = 1.0 / (variance + EPSILON).sqrt();
            row.iter_mut().for_each(|x| *x *= inverse);
            space.inverse.push(inverse);
        }
    }

    /// Turns δ by the outputs into δ by the inputs, after [`Normalize::forward`] at the same point.
    /// With g = s·δ and the means over rows (batch) or over outputs (layer):
    ///
    /// ```text
    /// ∂x = (g − mean g − x̂·mean(g·x̂)) / √(variance + ε)
    /// ```
    pub fn propagate(&self, delta: &mut [f32], space: &mut NormSpace) {
        let NormSpace {
            normal,
            inverse,
            sums,
            scale,
        } = space;
        match self.kind {
            Normalization::Batch => {
                let rows = delta.chunks_exact(self.width);
                sum_delta(self.width, rows.zip(normal.chunks_exact(self.width)), sums);
                let share = 1.0 / (normal.len() / self.width).max(1) as f32;
                let [deltas, products] = sums;
                let rows = delta.chunks_exact_mut(self.width);
                for (delta, x) in rows.zip(normal.chunks_exact(self.width)) {
                    for (j, (delta, x)) in delta.iter_mut().zip(x).enumerate() {
                        let inner = *delta - share * (deltas[j] + x * products[j]);
                        *delta = scale[j] * inverse[j] * inner;
                    }
                }
            }
            Normalization::Layer => {
                let share = 1.0 / self.width as f32;
                let rows = delta.chunks_exact_mut(self.width);
                let rows = rows.zip(normal.chunks_exact(self.width));
                for ((delta, x), inverse) in rows.zip(&*inverse) {
                    let (mut mean, mut along) = (0.0, 0.0);
                    for ((delta, s), x) in delta.iter_mut().zip(&*scale).zip(x) {
                        *delta *= s;
                        mean += *delta;
                        along += *delta * x;
                    }
                    for (delta, x) in delta.iter_mut().zip(x) {
                        *delta = inverse * (*delta - share * (mean + x * along));
                    }
                }
            }
        }
    }

    /// Updates s ← s − decay·s_at + scale·Σᵣ δ·x̂ and t ← t − decay·t_at + scale·Σᵣ δ; called before
    /// [`Normalize::propagate`].
    pub fn accumulate(
        &self,
        place: Place<'_>,
        into: &mut [f32],
        step: Step,
        delta: &[f32],
        space: &mut NormSpace,
    ) {
        let rows = delta.chunks_exact(self.width);
        let rows = rows.zip(space.normal.chunks_exact(self.width));
        sum_delta(self.width, rows, &mut space.sums);
        let [deltas, products] = &space.sums;
        for (range, sums) in [(self.scales(), products), (self.shifts(), deltas)] {
            decay(place, into, range.clone(), step.decay);
            for (p, sum) in into[range].iter_mut().zip(sums) {
                *p += step.scale * sum;
            }
        }
    }

    /// Returns ‖∂s‖² + ‖∂t‖² of one row, if rows do not depend on each other.
    pub fn row_norm_squared(&self, row: usize, delta: &[f32], space: &NormSpace) -> f64 {
        let range = row * self.width..(row + 1) * self.width;
        let pairs = delta[range.clone()].iter().zip(&space.normal[range]);
        let square = |(delta, x): (&f32, &f32)| {
            let (delta, x) = (f64::from(*delta), f64::from(*x));
            delta * delta * (x * x + 1.0)
        };
        pairs.map(square).sum()
    }
}

/// Σᵣ δ and Σᵣ δ·x̂ of every output.
fn sum_delta<'a>(
    width: usize,
    rows: impl Iterator<Item = (&'a [f32], &'a [f32])>,
    [deltas, products]: &mut [Vec<f32>; 2],
) {
    for sums in [&mut *deltas, &mut *products] {
        sums.clear();
        sums.resize(width, 0.0);
    }
    for (delta, x) in rows {
        for (j, (delta, x)) in delta.iter().zip(x).enumerate() {
            deltas[j] += delta;
            products[j] += delta * x;
        }
    }
}

/// Applies dropout to the `layer`-th layer: each number becomes 0 with probability p, else it is
/// divided by 1 − p. The choice follows from the batch's mask, the same for every model that sees
/// the batch. Mask 0 drops nothing.
pub fn dropout(x: &mut [f32], probability: f32, mask: u64, layer: usize) {
    if mask == 0 || probability == 0.0 {
        return;
    }
    let scale = dropout_scale(probability, mask);
    let limit = (f64::from(probability) * 4_294_967_296.0) as u32;
    let mut rng = stream(mask, Purpose::Dropout, layer as u64, 0);
    for x in x {
        *x = if rng.next_u32() < limit {
            0.0
        } else {
            *x * scale
        };
    }
}

/// Returns 1/(1 − p), the factor of the numbers that are not dropped and of their δ.
pub fn dropout_scale(probability: f32, mask: u64) -> f32 {
    match mask {
        0 => 1.0,
        _ => 1.0 / (1.0 - probability),
    }
}
