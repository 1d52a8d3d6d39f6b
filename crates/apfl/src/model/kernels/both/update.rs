//! The joint update of both matrices, without storing the derivatives.

use std::arch::x86_64::*;

use super::super::rows::LayerRows;
use super::super::tile::{aligned, check_columns, prefetch_line};
use super::{LANES, is_supported, mixed, row_lanes};
use crate::model::Step;

/// Updates w[j] ← w[j] − decay·w[j] + scale·Σᵣ x[r, j]·δ[r], and v[j] likewise with its own decay,
/// scale and δ, where αv + (1−α)w with the old w decays.
pub(in super::super) struct UpdateBoth<'a> {
    pub(in super::super) alpha: f32,
    /// W, then b.
    pub(in super::super) v: &'a mut [f32],
    pub(in super::super) w: &'a mut [f32],
    pub(in super::super) inputs: usize,
    pub(in super::super) outputs: usize,
    pub(in super::super) rows: LayerRows<'a>,
    /// Of w, of v.
    pub(in super::super) steps: [Step; 2],
    pub(in super::super) delta: [&'a [f32]; 2],
}

impl UpdateBoth<'_> {
    /// Runs the update.
    pub(in super::super) fn run(self, scratch: &mut Vec<f32>) {
        let outputs = self.outputs;
        let n = self.delta[0].len() / outputs;
        let len = (self.inputs + 1) * outputs;
        assert!(is_supported(outputs) && self.w.len() == len && self.v.len() == len);
        assert!(n > 0 && self.delta.iter().all(|delta| delta.len() == n * outputs));
        assert!(self.rows.sparse.is_none());
        // A row holds scale·δ of both with zeros up to whole vectors; the last row Σᵣ of it.
        let start = aligned(scratch, (n + 1) * 2 * LANES);
        let scaled = &mut scratch[start..start + (n + 1) * 2 * LANES];
        let (scaled, total) = scaled.split_at_mut(n * 2 * LANES);
        for (p, (delta, step)) in self.delta.iter().zip(self.steps).enumerate() {
            let total = &mut total[p * LANES..];
            let rows = scaled.chunks_exact_mut(2 * LANES);
            for (scaled, delta) in rows.zip(delta.chunks_exact(outputs)) {
                let scaled = &mut scaled[p * LANES..];
                for ((scaled, total), delta) in scaled.iter_mut().zip(&mut *total).zip(delta) {
                    *scaled = step.scale * delta;
                    *total += *scaled;
                }
            }
        }
        let targets = Targets {
            w: self.w.as_mut_ptr(),
            v: self.v.as_mut_ptr(),
            inputs: self.inputs,
            outputs,
            alpha: self.alpha,
            decay: self.steps.map(|step| step.decay),
        };
        // SAFETY: `is_supported`, so the CPU has AVX-512; v and w are borrowed exclusively and have
        // the stated shape, as asserted above.
        unsafe {
            update_columns(targets, self.rows.x, self.rows.varied, scaled);
            update_columns(targets, self.rows.constants, self.rows.constant, total);
        }
    }
}

/// The matrices to update, and their decay.
#[derive(Clone, Copy)]
struct Targets {
    w: *mut f32,
    v: *mut f32,
    inputs: usize,
    outputs: usize,
    alpha: f32,
    /// Of w, of v.
    decay: [f32; 2],
}

/// Updates the columns j = columns[k]. δ is padded, with both vectors row by row.
///
/// # Safety
/// The CPU has AVX-512. v and w have a row of 8 to 16 outputs for every input, and one more (b);
/// they do not overlap, and nothing else reads or writes them.
unsafe fn update_columns(both: Targets, x: &[f32], columns: &[u32], delta: &[f32]) {
    let width = columns.len();
    let n = delta.len() / (2 * LANES);
    check_columns(columns, both.inputs);
    assert!(x.len() >= n * width);
    let decays = both.decay != [0.0, 0.0];
    let mut k = 0;
    while k < width {
        let columns = &columns[k..];
        // SAFETY: as the caller promises; x has a number for every column in n rows; every
        // column is less than inputs, so a vector of 16 at W[column] ends within b at the
        // latest; δ has n rows of two vectors.
        unsafe {
            let x = x.as_ptr().add(k);
            let delta = (delta.as_ptr(), n);
            k += match (columns.len(), decays) {
                (10.., true) => update::<10, true>(both, x, width, columns, delta),
                (10.., false) => update::<10, false>(both, x, width, columns, delta),
                (_, true) => update::<1, true>(both, x, width, columns, delta),
                (_, false) => update::<1, false>(both, x, width, columns, delta),
            };
        }
    }
}

/// Updates one tile of [`update_columns`]: `I` rows of both. Returns `I`.
///
/// # Safety
/// The CPU has AVX-512. There are `I` columns; `x` has n rows at the stride `width` with a
/// number for each, δ has n rows of two vectors; v and w may be read and written for
/// a vector in each column's row.
#[target_feature(enable = "avx512f")]
unsafe fn update<const I: usize, const D: bool>(
    both: Targets,
    x: *const f32,
    width: usize,
    columns: &[u32],
    (delta, n): (*const f32, usize),
) -> usize {
    let outputs = both.outputs;
    let places: [usize; I] = std::array::from_fn(|i| columns[i] as usize * outputs);
    for column in columns[I..].iter().take(I) {
        for into in [both.w, both.v] {
            let row = into.wrapping_add(*column as usize * outputs);
            prefetch_line(row);
        }
    }
    let mut sums = [[_mm512_setzero_ps(); 2]; I];
    for r in 0..n {
        // SAFETY: as the caller promises.
        unsafe {
            let x = x.add(r * width);
            let delta = delta.add(r * 2 * LANES);
            let here = [_mm512_loadu_ps(delta), _mm512_loadu_ps(delta.add(LANES))];
            for i in 0..I {
                let x = _mm512_set1_ps(*x.add(i));
                for p in 0..2 {
                    sums[i][p] = _mm512_fmadd_ps(x, here[p], sums[i][p]);
                }
            }
        }
    }
    // Everything is read before anything is written: a row's vector overlaps the next rows'.
    let lanes = row_lanes(outputs);
    let decay = [_mm512_set1_ps(both.decay[0]), _mm512_set1_ps(both.decay[1])];
    for i in 0..I {
        // SAFETY: as the caller promises.
        let (w, v) = unsafe {
            let w = _mm512_loadu_ps(both.w.add(places[i]));
            (w, _mm512_loadu_ps(both.v.add(places[i])))
        };
        let decayed = if D {
            [
                _mm512_fnmadd_ps(decay[0], w, w),
                _mm512_fnmadd_ps(decay[1], mixed(both.alpha, v, w), v),
            ]
        } else {
            [w, v]
        };
        for p in 0..2 {
            sums[i][p] = _mm512_add_ps(decayed[p], sums[i][p]);
        }
    }
    for i in 0..I {
        for (p, into) in [both.w, both.v].into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { _mm512_mask_storeu_ps(into.add(places[i]), lanes, sums[i][p]) };
        }
    }
    I
}
