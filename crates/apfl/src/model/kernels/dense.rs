//! The passes of a dense layer.

use pulp::Arch;

use super::add::Add;
#[cfg(target_arch = "x86_64")]
use super::both::{self, Points, UpdateBoth};
use super::hidden::{self, Rectified};
use super::point::{Place, Point};
use super::product;
use super::propagate::Propagate;
use super::rows::LayerRows;
use super::sparse::{self, WIDE};
use super::update::Update;
use crate::model::Step;

/// The shape of a dense layer and the offset of its parameters: W first, then b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// The offset of W within the flat parameters.
    pub offset: usize,
    /// Whether b is used; otherwise its parameters have no effect.
    pub biased: bool,
}

/// The smallest number of outputs for vectors. Narrower layers leave most of a vector empty, and
/// the bias would not pad their last row.
pub(super) const NARROW: usize = 8;

impl Dense {
    /// Returns the floating-point operations per example.
    pub fn flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    /// Returns the range of W and b.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.bias().end
    }

    fn weight(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.inputs * self.outputs
    }

    fn bias(&self) -> std::ops::Range<usize> {
        let end = self.weight().end;
        end..end + self.outputs
    }

    /// Computes y ← x·W + b for `n` rows:
    /// y[r] = b + Σ_constant x[j]·W[j] + Σ_varied x[r, j]·W[j].
    pub fn forward(
        &self,
        at: Point<'_>,
        rows: LayerRows<'_>,
        n: usize,
        scratch: &mut Vec<f32>,
        y: &mut Vec<f32>,
    ) {
        let layer = at.part(self.offset..self.bias().end);
        if let Some(sparse) = rows.sparse {
            assert!(self.biased, "sparse rows are for layers with a bias");
            Arch::new().dispatch(sparse::Forward {
                sparse,
                layer,
                y,
                scratch,
            });
            return;
        }
        y.clear();
        if self.biased {
            y.extend(self.bias().map(|k| at.get(k)))
        } else {
            y.resize(self.outputs, 0.0)
        }
        let add = |x: &[f32], columns: &[u32], y: &mut [f32]| {
            if self.outputs < NARROW {
                return add_narrow(x, columns, layer, y);
            }
            Arch::new().dispatch(Add {
                x,
                layer,
                columns,
                inputs: self.inputs,
                y,
            });
        };
        add(rows.constants, rows.constant, y);
        (1..n).for_each(|_| y.extend_from_within(..self.outputs));
        y.truncate(n * self.outputs);
        add(rows.x, rows.varied, y);
    }

    /// Computes back ← δ·Wᵀ for `n` rows, the derivative by the inputs.
    pub fn propagate(
        &self,
        at: Point<'_>,
        delta: &[f32],
        n: usize,
        scratch: &mut Vec<f32>,
        back: &mut Vec<f32>,
    ) {
        back.resize(n * self.inputs, 0.0);
        // Short sums are faster side by side than along a vector.
        if self.outputs < WIDE {
            let weight = at.part(self.weight()).numbers(scratch);
            let shape = (n, self.inputs, self.outputs);
            let (outputs, delta) = (self.outputs, &delta[..n * self.outputs]);
            product(
                back,
                shape,
                delta,
                (outputs, 1),
                weight,
                (1, outputs),
                false,
                1.0,
            );
            return;
        }
        Arch::new().dispatch(Propagate {
            layer: at.part(self.offset..self.bias().end),
            inputs: self.inputs,
            delta: &delta[..n * self.outputs],
            back,
            scratch,
        });
    }

    /// Updates W ← W − decay·W_at + scale·xᵀδ and b likewise, where W_at is W at `place`.
    pub fn accumulate(
        &self,
        place: Place<'_>,
        into: &mut [f32],
        step: Step,
        rows: LayerRows<'_>,
        delta: &[f32],
        scratch: &mut Vec<f32>,
    ) {
        if let Some(sparse) = rows.sparse {
            let layer = self.offset..self.bias().end;
            Arch::new().dispatch(sparse::Update {
                sparse,
                place: place.part(layer.clone()),
                into: &mut into[layer],
                step,
                delta,
                scratch,
            });
        } else if self.outputs < NARROW {
            super::decay(place, into, self.weight(), step.decay);
            self.update_narrow(&mut into[self.weight()], step.scale, rows, delta);
        } else {
            let layer = self.offset..self.bias().end;
            Arch::new().dispatch(Update {
                place: place.part(layer.clone()),
                into: &mut into[layer],
                outputs: self.outputs,
                inputs: self.inputs,
                step,
                rows,
                delta,
                scratch,
            });
        }
        self.update_bias(place, into, step, delta, scratch);
    }

    /// Returns whether the passes for rectified inputs are faster.
    pub fn uses_rectified(&self) -> bool {
        self.outputs >= WIDE
    }

    /// Does [`Dense::propagate`] for rectified rows, including their ReLU.
    pub fn propagate_rectified(
        &self,
        at: Point<'_>,
        delta: &[f32],
        rows: Rectified<'_>,
        scratch: &mut Vec<f32>,
        back: &mut Vec<f32>,
    ) {
        back.resize(rows.x.len(), 0.0);
        Arch::new().dispatch(hidden::Propagate {
            rows,
            layer: at.part(self.range()),
            inputs: self.inputs,
            delta,
            back,
            scratch,
        });
    }

    /// Does [`Dense::accumulate`] for rectified rows.
    pub fn accumulate_rectified(
        &self,
        place: Place<'_>,
        into: &mut [f32],
        step: Step,
        rows: Rectified<'_>,
        delta: &[f32],
        scratch: &mut Vec<f32>,
    ) {
        Arch::new().dispatch(hidden::Update {
            rows,
            place: place.part(self.range()),
            into: &mut into[self.range()],
            inputs: self.inputs,
            step,
            delta,
            scratch,
        });
        self.update_bias(place, into, step, delta, scratch);
    }

    /// Updates b ← b − decay·b_at + scale·Σᵣ δ[r].
    fn update_bias(
        &self,
        place: Place<'_>,
        into: &mut [f32],
        step: Step,
        delta: &[f32],
        scratch: &mut Vec<f32>,
    ) {
        if !self.biased {
            return;
        }
        super::decay(place, into, self.bias(), step.decay);
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

    /// Returns whether the joint passes at w and at a mixture are available.
    #[cfg(target_arch = "x86_64")]
    pub fn has_joint_passes(&self) -> bool {
        self.biased && both::is_supported(self.outputs)
    }

    /// Does [`Dense::forward`] at w and at αv + (1−α)w, to the same bits.
    #[cfg(target_arch = "x86_64")]
    pub fn forward_both(
        &self,
        alpha: f32,
        (v, w): (&[f32], &[f32]),
        rows: LayerRows<'_>,
        n: usize,
        [own, mixed]: [&mut Vec<f32>; 2],
    ) {
        assert!(rows.sparse.is_none());
        let layer = self.offset..self.bias().end;
        let mixture = Point::Mixture { alpha, v, w };
        let points = Points {
            alpha,
            v: &v[layer.clone()],
            w: &w[layer],
            inputs: self.inputs,
            outputs: self.outputs,
        };
        for (y, at) in [(&mut *own, Point::At(w)), (&mut *mixed, mixture)] {
            y.clear();
            y.extend(self.bias().map(|k| at.get(k)));
        }
        both::add_both(points, rows.constants, rows.constant, [own, mixed]);
        for y in [&mut *own, &mut *mixed] {
            (1..n).for_each(|_| y.extend_from_within(..self.outputs));
            y.truncate(n * self.outputs);
        }
        both::add_both(points, rows.x, rows.varied, [own, mixed]);
    }

    /// Does [`Dense::accumulate`] for v at αv + (1−α)w, then for w at itself, to the same bits.
    /// `steps` and `delta` are those of w and of v.
    #[cfg(target_arch = "x86_64")]
    pub fn accumulate_both(
        &self,
        alpha: f32,
        (v, w): (&mut [f32], &mut [f32]),
        steps: [Step; 2],
        rows: LayerRows<'_>,
        delta: [&[f32]; 2],
        scratch: &mut Vec<f32>,
    ) {
        let layer = self.offset..self.bias().end;
        let update = UpdateBoth {
            alpha,
            v: &mut v[layer.clone()],
            w: &mut w[layer],
            inputs: self.inputs,
            outputs: self.outputs,
            rows,
            steps,
            delta,
        };
        update.run(scratch);
        self.update_bias(Place::Mixed(alpha, w), v, steps[1], delta[1], scratch);
        self.update_bias(Place::Here, w, steps[0], delta[0], scratch);
    }

    fn update_narrow(&self, weight: &mut [f32], scale: f32, rows: LayerRows<'_>, delta: &[f32]) {
        for o in 0..self.outputs {
            let output_delta = || delta.iter().skip(o).step_by(self.outputs);
            let total: f32 = output_delta().sum();
            for (x, &j) in rows.constants.iter().zip(rows.constant) {
                weight[j as usize * self.outputs + o] += scale * (x * total);
            }
            for (k, &j) in rows.varied.iter().enumerate() {
                let x = rows.x.iter().skip(k).step_by(rows.varied.len());
                let sum: f32 = x.zip(output_delta()).map(|(x, d)| x * d).sum();
                weight[j as usize * self.outputs + o] += scale * sum;
            }
        }
    }
}

/// Computes y[r] ← y[r] + Σ x[r, j]·W[j] for layers of few outputs.
fn add_narrow(x: &[f32], columns: &[u32], weight: Point<'_>, y: &mut [f32]) {
    if columns.is_empty() {
        return;
    }
    let rows = x.chunks_exact(columns.len());
    let outputs = y.len() / rows.len();
    for (x, y) in rows.zip(y.chunks_exact_mut(outputs)) {
        for (o, y) in y.iter_mut().enumerate() {
            // Eight sums side by side, so that none waits for the previous one.
            let mut sums = [0.0f32; 8];
            let pairs = x.iter().zip(columns).enumerate();
            for (k, (x, &j)) in pairs {
                sums[k % 8] += x * weight.get(j as usize * outputs + o);
            }
            *y += sums.iter().sum::<f32>();
        }
    }
}
