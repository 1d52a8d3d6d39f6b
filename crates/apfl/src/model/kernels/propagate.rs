//! The derivative by the inputs of a dense layer.

use pulp::{Simd, WithSimd};

use super::point::Point;
use super::tile::{At, Mixed, Weight, pad};

/// Computes back[r, j] ← Σₒ δ[r, o]·W[j, o].
pub(super) struct Propagate<'a> {
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
            layer,
            inputs,
            delta,
            back,
            scratch,
        } = self;
        let lanes = S::F32_LANES;
        let outputs = layer.count() / (inputs + 1);
        let vectors = outputs.div_ceil(lanes);
        let padded = vectors * lanes;
        let n = delta.len() / outputs;
        assert!(layer.count() == (inputs + 1) * outputs && padded - outputs <= outputs);
        assert!(back.len() == n * inputs && delta.len() == n * outputs);
        // Zeros for the values after a row of W.
        let padded_delta = pad(scratch, delta, (outputs, padded), 1.0);
        let shape = (inputs, outputs, padded);
        match layer {
            Point::At(at) => propagate_tiles(simd, At(at.as_ptr()), shape, padded_delta, back),
            Point::Mixture { alpha, v, w } => {
                let weight = Mixed::of(simd, alpha, v, w);
                propagate_tiles(simd, weight, shape, padded_delta, back);
            }
        }
    }
}

/// Computes all tiles of [`Propagate`], which has checked its shapes.
#[inline(always)]
fn propagate_tiles<S: Simd>(
    simd: S,
    weight: impl Weight<S>,
    (inputs, outputs, padded): (usize, usize, usize),
    delta: &[f32],
    back: &mut [f32],
) {
    let n = delta.len() / padded;
    let max_rows = if S::F32_LANES >= 16 { 10 } else { 5 };
    for j in (0..inputs).step_by(2) {
        let two = j + 1 < inputs;
        let weight = weight.skip(j * outputs);
        let mut row = 0;
        while row < n {
            let rows = match (n - row).min(max_rows) {
                10 => 10,
                5.. => 5,
                2.. => 2,
                _ => 1,
            };
            // SAFETY: δ has these rows; j (and j + 1, for two) is less than inputs, so a
            // vector at any of these rows of W ends at most padded − outputs ≤ outputs
            // past W, where b is; back has n rows of `inputs`.
            unsafe {
                let delta = delta.as_ptr().add(row * padded);
                let back = back.as_mut_ptr().add(row * inputs + j);
                let stride = (outputs, padded, inputs);
                match (rows, two) {
                    (10, true) => tile::<S, 10, 2>(simd, weight, delta, stride, back),
                    (10, _) => tile::<S, 10, 1>(simd, weight, delta, stride, back),
                    (5, true) => tile::<S, 5, 2>(simd, weight, delta, stride, back),
                    (5, _) => tile::<S, 5, 1>(simd, weight, delta, stride, back),
                    (2, true) => tile::<S, 2, 2>(simd, weight, delta, stride, back),
                    (2, _) => tile::<S, 2, 1>(simd, weight, delta, stride, back),
                    (_, true) => tile::<S, 1, 2>(simd, weight, delta, stride, back),
                    (_, _) => tile::<S, 1, 1>(simd, weight, delta, stride, back),
                }
            }
            row += rows;
        }
    }
}

/// Computes one tile: `R` rows of δ, `J` rows of W.
///
/// # Safety
/// δ has `R` rows of whole vectors at its stride, W `J` rows that may be read as far, and
/// `back` may be written in `R` rows for `J` numbers.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const J: usize>(
    simd: S,
    weight: impl Weight<S>,
    delta: *const f32,
    (outputs, padded, inputs): (usize, usize, usize),
    back: *mut f32,
) {
    let mut sums = [[simd.splat_f32s(0.0); J]; R];
    let lanes = S::F32_LANES;
    let term = |o: usize, sums: &mut [[S::f32s; J]; R], last: bool| {
        // SAFETY: as the caller promises.
        unsafe {
            let mut here = [simd.splat_f32s(0.0); J];
            for j in 0..J {
                here[j] = weight.load(simd, j * outputs + o);
                if last {
                    // The value after a row may be NaN, and 0·NaN is NaN.
                    let row = simd.mask_between_m32s(0, (outputs - o) as u32).mask();
                    here[j] = simd.select_f32s(row, here[j], simd.splat_f32s(0.0));
                }
            }
            for r in 0..R {
                let delta = (delta.add(r * padded + o) as *const S::f32s).read_unaligned();
                for j in 0..J {
                    sums[r][j] = simd.mul_add_e_f32s(delta, here[j], sums[r][j]);
                }
            }
        }
    };
    let last = padded - lanes;
    for o in (0..last).step_by(lanes) {
        term(o, &mut sums, false);
    }
    term(last, &mut sums, true);
    for r in 0..R {
        for j in 0..J {
            // SAFETY: as the caller promises.
            unsafe { *back.add(r * inputs + j) = simd.reduce_sum_f32s(sums[r][j]) };
        }
    }
}
