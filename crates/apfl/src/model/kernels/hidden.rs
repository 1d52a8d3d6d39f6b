//! The backward pass of a dense layer whose inputs are rectified: half of them are zero.
//!
//! A zero updates no weight, and the ReLU stops its derivative. Both passes read each row of W once
//! and visit only the batch's rows that are not zero there. The sums have the nonzero terms of
//! `update` and `propagate` in the same order, so the bits are the same as long as all numbers are
//! finite.

use pulp::{Arch, Simd, WithSimd};

use super::point::{Place, Point};
use super::sparse::{Decay, GROUP, WIDE, by_vectors, chunks, max_vectors, move_row};
use super::tile::{At, Mixed, Weight, pad};
use crate::model::Step;

/// Rows after a ReLU, with masks of their nonzero values.
#[derive(Clone, Copy, Debug)]
pub struct Rectified<'a> {
    /// The numbers, row by row.
    pub x: &'a [f32],
    /// For every column and group of rows, the nonzero rows.
    pub masks: &'a [u32],
}

/// Computes for every column and group of up to 32 rows the mask of nonzero rows.
pub fn mark(x: &[f32], width: usize, masks: &mut Vec<u32>) {
    let groups = (x.len() / width).div_ceil(GROUP);
    masks.clear();
    masks.resize(groups * width, 0);
    Arch::new().dispatch(Mark { x, width, masks });
}

struct Mark<'a> {
    x: &'a [f32],
    width: usize,
    masks: &'a mut [u32],
}

impl WithSimd for Mark<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let groups = self.x.chunks(GROUP * self.width);
        for (x, masks) in groups.zip(self.masks.chunks_exact_mut(self.width)) {
            for (r, x) in x.chunks_exact(self.width).enumerate() {
                for (mask, x) in masks.iter_mut().zip(x) {
                    *mask |= u32::from(*x != 0.0) << r;
                }
            }
        }
    }
}

impl Rectified<'_> {
    /// Returns the rows in which column j is not zero, ascending.
    #[inline(always)]
    fn rows(self, j: usize, width: usize) -> impl Iterator<Item = usize> {
        let groups = self.masks.len() / width;
        (0..groups).flat_map(move |group| {
            Bits(self.masks[group * width + j]).map(move |r| group * GROUP + r)
        })
    }
}

/// Computes W[j] ← W[j] − decay·W_at[j] + scale·Σᵣ x[r, j]·δ[r].
pub(super) struct Update<'a> {
    pub(super) rows: Rectified<'a>,
    /// The point from which W and b decay.
    pub(super) place: Place<'a>,
    /// W and b.
    pub(super) into: &'a mut [f32],
    pub(super) inputs: usize,
    pub(super) step: Step,
    pub(super) delta: &'a [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            rows,
            place,
            into,
            inputs,
            step,
            delta,
            scratch,
        } = self;
        let outputs = into.len() / (inputs + 1);
        assert!(into.len() == (inputs + 1) * outputs && outputs >= WIDE);
        assert!(place.other_len().is_none_or(|len| len == into.len()));
        let padded = outputs.next_multiple_of(S::F32_LANES);
        let n = delta.len() / outputs;
        let delta = pad(scratch, delta, (outputs, padded), step.scale);
        check_masks(rows, n, inputs);
        let decay = Decay::new(simd, step.decay, place);
        for (first, vectors) in chunks(padded / S::F32_LANES, max_vectors::<S>()) {
            let first = first * S::F32_LANES;
            let delta = (delta, padded, first);
            by_vectors!(
                vectors,
                update::<S>(simd, rows, delta, (&mut *into, inputs, outputs), decay)
            );
        }
    }
}

/// Asserts that the masks name rows below n, with one mask per column and group.
fn check_masks(rows: Rectified<'_>, n: usize, inputs: usize) {
    assert!(rows.x.len() == n * inputs && n > 0);
    assert!(rows.masks.len() == n.div_ceil(GROUP) * inputs);
    let rest = (n - 1) % GROUP + 1;
    let last = &rows.masks[rows.masks.len() - inputs..];
    let all = last.iter().fold(0, |all, mask| all | mask);
    assert!(all & !(u32::MAX >> (GROUP - rest)) == 0);
}

/// Updates `V` vectors of outputs from `first` on. The last vector of a row of W ends where the row
/// ends.
#[inline(always)]
fn update<S: Simd, const V: usize>(
    simd: S,
    rows: Rectified<'_>,
    (delta, padded, first): (&[f32], usize, usize),
    (into, inputs, outputs): (&mut [f32], usize, usize),
    decay: Decay<S>,
) {
    let lanes = S::F32_LANES;
    assert!(V > 1 && outputs >= first + (V - 1) * lanes && outputs >= 2 * lanes);
    let last = (first + (V - 1) * lanes).min(outputs - lanes) - first;
    for j in 0..inputs {
        let mut sums = [simd.splat_f32s(0.0); V];
        // SAFETY: the rows are below n, as `check_masks` asserts, j is below inputs, and no vector
        // ends past `outputs` within its row: all lie within x, δ and W; the decay's place is
        // null or as long as W.
        unsafe {
            for r in rows.rows(j, inputs) {
                let x = simd.splat_f32s(*rows.x.get_unchecked(r * inputs + j));
                let delta = delta.as_ptr().add(r * padded + first);
                for v in 0..V {
                    let at = if v + 1 < V { v * lanes } else { last };
                    let delta = (delta.add(at) as *const S::f32s).read_unaligned();
                    sums[v] = simd.mul_add_e_f32s(x, delta, sums[v]);
                }
            }
            let row = into.as_mut_ptr().add(j * outputs + first);
            move_row(simd, row, last, decay.skip(j * outputs + first), sums);
        }
    }
}

/// Computes back[r, j] ← Σₒ δ[r, o]·W[j, o] where x[r, j] is not zero, else 0.
pub(super) struct Propagate<'a> {
    pub(super) rows: Rectified<'a>,
    /// W, then b.
    pub(super) layer: Point<'a>,
    pub(super) inputs: usize,
    pub(super) delta: &'a [f32],
    /// n rows of `inputs`.
    pub(super) back: &'a mut [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Propagate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            rows,
            layer,
            inputs,
            delta,
            back,
            scratch,
        } = self;
        let outputs = layer.count() / (inputs + 1);
        let padded = outputs.next_multiple_of(S::F32_LANES);
        let n = delta.len() / outputs;
        assert!(layer.count() == (inputs + 1) * outputs && outputs >= WIDE);
        assert!(back.len() == n * inputs && delta.len() == n * outputs);
        check_masks(rows, n, inputs);
        let delta = pad(scratch, delta, (outputs, padded), 1.0);
        back.fill(0.0);
        let shape = (inputs, outputs, padded);
        match layer {
            Point::At(at) => propagate(simd, rows, At(at.as_ptr()), shape, delta, back),
            Point::Mixture { alpha, v, w } => {
                let weight = Mixed::of(simd, alpha, v, w);
                propagate(simd, rows, weight, shape, delta, back);
            }
        }
    }
}

/// Reads a row of W once for all rows of δ if it fits into registers.
#[inline(always)]
fn propagate<S: Simd>(
    simd: S,
    rows: Rectified<'_>,
    weight: impl Weight<S>,
    shape: (usize, usize, usize),
    delta: &[f32],
    back: &mut [f32],
) {
    let vectors = shape.2 / S::F32_LANES;
    if vectors > max_vectors::<S>() {
        dots::<S, 1>(simd, rows, weight, shape, delta, back)
    } else {
        by_vectors!(vectors, dots::<S>(simd, rows, weight, shape, delta, back))
    }
}

/// Computes the products with a row of W of `V` vectors. With `V` = 1 the row may have any length
/// and is read again for every row of δ.
#[inline(always)]
fn dots<S: Simd, const V: usize>(
    simd: S,
    rows: Rectified<'_>,
    weight: impl Weight<S>,
    (inputs, outputs, padded): (usize, usize, usize),
    delta: &[f32],
    back: &mut [f32],
) {
    let lanes = S::F32_LANES;
    let tail = simd
        .mask_between_m32s(0, (outputs - (padded - lanes)) as u32)
        .mask();
    let load = |j: usize, v: usize| {
        // SAFETY: j is below inputs, so a vector at its row of W ends at most padded − outputs
        // ≤ outputs past W, where b is.
        let w = unsafe { weight.load(simd, j * outputs + v * lanes) };
        // The value after a row may be NaN, and 0·NaN is NaN.
        if (v + 1) * lanes == padded {
            simd.select_f32s(tail, w, simd.splat_f32s(0.0))
        } else {
            w
        }
    };
    for j in 0..inputs {
        let mut here = [simd.splat_f32s(0.0); V];
        if V > 1 {
            for v in 0..V {
                here[v] = load(j, v);
            }
        }
        for r in rows.rows(j, inputs) {
            let mut sum = simd.splat_f32s(0.0);
            // SAFETY: r is below n, as `check_masks` asserts.
            let delta = |v: usize| unsafe {
                (delta.as_ptr().add(r * padded + v * lanes) as *const S::f32s).read_unaligned()
            };
            if V > 1 {
                for v in 0..V {
                    sum = simd.mul_add_e_f32s(delta(v), here[v], sum);
                }
            } else {
                for v in 0..padded / lanes {
                    sum = simd.mul_add_e_f32s(delta(v), load(j, v), sum);
                }
            }
            back[r * inputs + j] = simd.reduce_sum_f32s(sum);
        }
    }
}

/// The positions of a word's ones, ascending.
struct Bits(u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
