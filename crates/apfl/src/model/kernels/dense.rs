//! The passes of a dense layer.

use pulp::Arch;

use super::product;
use super::rows::Rows;
use super::tile::{Add, Update};
use crate::model::Step;

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

/// Narrower layers leave most of a vector empty, and their rows would not be padded by
/// the bias behind the last of them.
const NARROW: usize = 8;

impl Dense {
    fn weight(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.inputs * self.outputs
    }

    fn bias(&self) -> std::ops::Range<usize> {
        let end = self.weight().end;
        end..end + self.outputs
    }

    /// y ← x·W + b for `n` rows:
    /// y[r] = b + Σ_flat x[0, j]·W[j] + Σ_varied x[r, j]·W[j].
    pub fn forward(&self, at: &[f32], rows: Rows<'_>, n: usize, y: &mut Vec<f32>) {
        let bias = &at[self.bias()];
        y.clear();
        if self.outputs < NARROW {
            (0..n).for_each(|_| y.extend_from_slice(bias));
            return product(
                y,
                (n, self.outputs, self.inputs),
                rows.x,
                (self.inputs, 1),
                &at[self.weight()],
                (self.outputs, 1),
                true,
                1.0,
            );
        }
        let layer = &at[self.offset..self.bias().end];
        y.extend_from_slice(bias);
        let add = |columns: &[u32], n: usize, y: &mut [f32]| {
            Arch::new().dispatch(Add {
                x: &rows.x[..n * self.inputs],
                width: self.inputs,
                layer,
                outputs: self.outputs,
                columns,
                y,
            });
        };
        add(rows.flat, 1, y);
        (1..n).for_each(|_| y.extend_from_within(..self.outputs));
        y.truncate(n * self.outputs);
        add(rows.varied, n, y);
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
        rows: Rows<'_>,
        delta: &[f32],
        scratch: &mut Vec<f32>,
    ) {
        let n = delta.len() / self.outputs;
        if self.outputs < NARROW {
            super::decay(at, into, self.weight(), step.decay);
            product(
                &mut into[self.weight()],
                (self.inputs, self.outputs, n),
                rows.x,
                (1, self.inputs),
                delta,
                (self.outputs, 1),
                true,
                step.scale,
            );
        } else {
            let layer = self.offset..self.bias().end;
            Arch::new().dispatch(Update {
                at: at.map(|at| &at[layer.clone()]),
                into: &mut into[layer],
                outputs: self.outputs,
                step,
                rows,
                width: self.inputs,
                delta,
                scratch,
            });
        }
        super::decay(at, into, self.bias(), step.decay);
        let bias = &mut into[self.bias()];
        scratch.clear();
        scratch.resize(self.outputs, 0.0);
        for delta in delta.chunks_exact(self.outputs) {
            scratch.iter_mut().zip(delta).for_each(|(s, d)| *s += d);
        }
        for (b, sum) in bias.iter_mut().zip(scratch) {
            *b += step.scale * *sum;
        }
    }
}
