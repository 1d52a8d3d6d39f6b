//! The update of a dense layer's weights, without storing the derivative.

use pulp::{MemMask, Simd, WithSimd};

use super::point::Place;
use super::rows::LayerRows;
use super::tile::{check_columns, pad_and_sum, prefetch, strips};
use crate::model::Step;

/// Updates W[j] ← W[j] − decay·W_at[j] + scale·Σᵣ x[r, j]·δ[r]; for a constant input the sum is
/// x[j]·Σᵣ δ[r].
pub(super) struct Update<'a> {
    /// The point from which W and b decay.
    pub(super) place: Place<'a>,
    /// W and b.
    pub(super) into: &'a mut [f32],
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) step: Step,
    pub(super) rows: LayerRows<'a>,
    pub(super) delta: &'a [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            place,
            into,
            outputs,
            inputs,
            step,
            rows,
            delta,
            scratch,
        } = self;
        let lanes = S::F32_LANES;
        let padded = outputs.next_multiple_of(lanes);
        let (scaled, total) = pad_and_sum(scratch, delta, (outputs, padded), step.scale);
        let shape = (inputs, outputs);
        let (x, columns) = (rows.x, rows.varied);
        update_columns(simd, (place, into), shape, step.decay, (x, columns), scaled);
        let (x, columns) = (rows.constants, rows.constant);
        update_columns(simd, (place, into), shape, step.decay, (x, columns), total);
    }
}

/// Updates W[j] ← W[j] − decay·W_at[j] + Σᵣ x[r, k]·δ[r] for the columns j = columns[k]; δ is padded.
#[inline(always)]
fn update_columns<S: Simd>(
    simd: S,
    (place, into): (Place<'_>, &mut [f32]),
    (inputs, outputs): (usize, usize),
    decay: f32,
    (x, columns): (&[f32], &[u32]),
    delta: &[f32],
) {
    let width = columns.len();
    let lanes = S::F32_LANES;
    let padded = outputs.next_multiple_of(lanes);
    let n = delta.len() / padded;
    check_columns(columns, inputs);
    assert!(x.len() >= n * width && delta.len() == n * padded);
    assert!(padded - outputs <= outputs);
    assert!(into.len() == (inputs + 1) * outputs);
    let (share, at) = match place {
        Place::Here => (1.0, None),
        Place::There(at) => (0.0, Some(at)),
        Place::Mixed(alpha, w) => (alpha, Some(w)),
    };
    assert!(at.is_none_or(|at| at.len() == into.len()));
    let max_rows = if lanes >= 16 { 10 } else { 5 };
    // The lanes of a row's last vector beyond the row do not decay.
    let tail = outputs - (padded - lanes);
    let inner = Decay {
        any: decay != 0.0,
        full: simd.splat_f32s(decay),
        last: simd.splat_f32s(decay),
        within: simd.mask_between_m32s(0, lanes as u32),
        share: simd.splat_f32s(share),
        rest: simd.splat_f32s(1.0 - share),
    };
    let end = Decay {
        last: masked(simd, decay, tail),
        within: simd.mask_between_m32s(0, tail as u32),
        ..inner
    };
    let whole = width / max_rows;
    let tiles = (0..whole).map(|tile| (tile * max_rows, max_rows));
    let mut rest = whole * max_rows;
    let smaller_tiles = std::iter::from_fn(|| {
        let size = [5, 2, 1].into_iter().find(|size| rest + size <= width)?;
        rest += size;
        Some((rest - size, size))
    });
    for (k, size) in tiles.chain(smaller_tiles) {
        let columns = &columns[k..];
        for (first, vectors) in strips(outputs, lanes) {
            let decay = if first + vectors * lanes < padded {
                inner
            } else {
                end
            };
            // SAFETY: x has a number for every column in n rows; every column is less
            // than inputs, so a full vector at any strip of W[column] ends at most
            // `outputs` past W, where b is; δ has n padded rows.
            unsafe {
                let x = x.as_ptr().add(k);
                let delta = (delta.as_ptr().add(first), padded, n);
                let into = into.as_mut_ptr().add(first);
                let at = match at {
                    Some(at) => at.as_ptr().add(first),
                    None => std::ptr::null(),
                };
                let target = (at, into, outputs);
                match (size, vectors) {
                    (10, 2) => update::<S, 10, 2>(simd, x, width, columns, delta, target, decay),
                    (10, _) => update::<S, 10, 1>(simd, x, width, columns, delta, target, decay),
                    (5, 2) => update::<S, 5, 2>(simd, x, width, columns, delta, target, decay),
                    (5, _) => update::<S, 5, 1>(simd, x, width, columns, delta, target, decay),
                    (2, 2) => update::<S, 2, 2>(simd, x, width, columns, delta, target, decay),
                    (2, _) => update::<S, 2, 1>(simd, x, width, columns, delta, target, decay),
                    (_, 2) => update::<S, 1, 2>(simd, x, width, columns, delta, target, decay),
                    (_, _) => update::<S, 1, 1>(simd, x, width, columns, delta, target, decay),
                }
            }
        }
    }
}

/// Decay of a tile by a factor of share·W + rest·at, or of W if there is no `at`.
#[derive(Clone, Copy)]
struct Decay<S: Simd> {
    any: bool,
    full: S::f32s,
    /// The factor in a row's last vector: zero beyond the row.
    last: S::f32s,
    /// The lanes of a row's last vector that belong to the row.
    within: MemMask<S::m32s>,
    share: S::f32s,
    rest: S::f32s,
}

/// Returns `value` in the first `count` lanes and zero in the others.
#[inline(always)]
fn masked<S: Simd>(simd: S, value: f32, count: usize) -> S::f32s {
    let values = [value; 16];
    simd.partial_load_f32s(&values[..count.min(S::F32_LANES)])
}

/// Updates one tile of [`update_columns`]: `I` rows of W, `V` vectors.
///
/// # Safety
/// There are `I` columns; `x` has n rows at the stride `width` with a number for each, δ
/// has n rows of `V` vectors at its stride; `at`, unless null, may be read and `into` be written
/// for `V` whole vectors in each column's row.
#[inline(always)]
unsafe fn update<S: Simd, const I: usize, const V: usize>(
    simd: S,
    x: *const f32,
    width: usize,
    columns: &[u32],
    (delta, stride, n): (*const f32, usize, usize),
    (at, into, outputs): (*const f32, *mut f32, usize),
    decay: Decay<S>,
) {
    let columns: [usize; I] = std::array::from_fn(|i| columns[i] as usize);
    if V > 1 {
        for i in 0..I {
            prefetch::<S, V>(into.wrapping_add(columns[i] * outputs));
        }
    }
    let mut sums = [[simd.splat_f32s(0.0); V]; I];
    for r in 0..n {
        // SAFETY: as the caller promises.
        unsafe {
            let x = x.add(r * width);
            let delta = delta.add(r * stride) as *const S::f32s;
            let mut here = [simd.splat_f32s(0.0); V];
            for v in 0..V {
                here[v] = delta.add(v).read_unaligned();
            }
            for i in 0..I {
                let x = simd.splat_f32s(*x.add(i));
                for v in 0..V {
                    sums[i][v] = simd.mul_add_e_f32s(x, here[v], sums[i][v]);
                }
            }
        }
    }
    // Everything is read before anything is written: a short row's vectors overlap the next rows',
    // and in ascending order each lane ends with the value of its own row.
    for i in 0..I {
        for v in 0..V {
            let place = columns[i] * outputs + v * S::F32_LANES;
            // SAFETY: as the caller promises.
            unsafe {
                let old = (into.add(place) as *const S::f32s).read_unaligned();
                let mut new = old;
                if decay.any {
                    let at = if at.is_null() {
                        old
                    } else {
                        let at = (at.add(place) as *const S::f32s).read_unaligned();
                        let own = simd.mul_f32s(decay.share, old);
                        simd.add_f32s(own, simd.mul_f32s(decay.rest, at))
                    };
                    let factor = if v + 1 < V { decay.full } else { decay.last };
                    new = simd.negate_mul_add_e_f32s(factor, at, old);
                }
                sums[i][v] = simd.add_f32s(new, sums[i][v]);
            }
        }
    }
    for i in 0..I {
        for v in 0..V {
            let place = columns[i] * outputs + v * S::F32_LANES;
            // A tile's last row does not write into the next one: a load that waits for a store
            // that covers it in part is slow.
            // SAFETY: as the caller promises.
            unsafe {
                if i + 1 == I && v + 1 == V {
                    simd.mask_store_ptr_f32s(decay.within, into.add(place), sums[i][v])
                } else {
                    (into.add(place) as *mut S::f32s).write_unaligned(sums[i][v])
                }
            }
        }
    }
}
