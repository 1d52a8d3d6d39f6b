//! Products of a few rows with a weight matrix, straight from where it lies.
//!
//! A tile of sums stays in registers while the columns (or rows) that add to it pass by.
//! A vector at the end of a matrix row reaches into the next row, or into the bias behind
//! the last one: what is read there is not used, and what is written there is what stood
//! there.

use pulp::{MemMask, Simd, WithSimd};

use super::rows::Rows;
use crate::model::Step;

/// Rows of W that stay in the first-level cache while all rows of x pass by.
const DEPTH: usize = 256;

/// Where a tile's vectors lie within the outputs: (first, vectors).
fn strips(outputs: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let vectors = outputs.div_ceil(lanes);
    (0..vectors)
        .step_by(2)
        .map(move |v| (v * lanes, 2.min(vectors - v)))
}

fn check(columns: &[u32], inputs: usize) {
    assert!(columns.iter().all(|column| (*column as usize) < inputs));
}

/// y[r] ← y[r] + Σ x[r, j]·W[j] over the columns j.
pub(super) struct Add<'a> {
    pub(super) x: &'a [f32],
    pub(super) width: usize,
    /// W, and b behind it.
    pub(super) layer: &'a [f32],
    pub(super) outputs: usize,
    pub(super) columns: &'a [u32],
    pub(super) y: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            x,
            width,
            layer,
            outputs,
            columns,
            y,
        } = self;
        let lanes = S::F32_LANES;
        let n = x.len() / width;
        check(columns, width);
        assert!(x.len() == n * width && y.len() >= n * outputs);
        assert!(outputs.next_multiple_of(lanes) - outputs <= outputs);
        assert!(layer.len() >= (width + 1) * outputs);
        for columns in columns.chunks(DEPTH) {
            for (first, vectors) in strips(outputs, lanes) {
                let width_here = (outputs - first).min(vectors * lanes);
                let last = (width_here - (vectors - 1) * lanes) as u32;
                let mask = simd.mask_between_m32s(0, last);
                let mut row = 0;
                // As many rows at a time as there are registers for.
                while row < n {
                    let most = if lanes >= 16 { 10 } else { 5 };
                    let rows = match (n - row).min(most) {
                        10 => 10,
                        5.. => 5,
                        2.. => 2,
                        _ => 1,
                    };
                    // SAFETY: rows row..row+rows of x and y exist; every column is less
                    // than width, so a full vector at any strip of W[column] ends at most
                    // `outputs` behind W, where b lies; y is masked to its own strip.
                    unsafe {
                        let x = x.as_ptr().add(row * width);
                        let w = layer.as_ptr().add(first);
                        let y = y.as_mut_ptr().add(row * outputs + first);
                        let to = (y, outputs, mask);
                        match (rows, vectors) {
                            (10, 2) => add::<S, 10, 2>(simd, x, width, w, columns, to),
                            (10, _) => add::<S, 10, 1>(simd, x, width, w, columns, to),
                            (5, 2) => add::<S, 5, 2>(simd, x, width, w, columns, to),
                            (5, _) => add::<S, 5, 1>(simd, x, width, w, columns, to),
                            (2, 2) => add::<S, 2, 2>(simd, x, width, w, columns, to),
                            (2, _) => add::<S, 2, 1>(simd, x, width, w, columns, to),
                            (_, 2) => add::<S, 1, 2>(simd, x, width, w, columns, to),
                            (_, _) => add::<S, 1, 1>(simd, x, width, w, columns, to),
                        }
                    }
                    row += rows;
                }
            }
        }
    }
}

/// One tile of [`Add`]: `R` rows, `V` vectors, the last of them under the mask.
///
/// # Safety
/// `x` has `R` rows of `width`, all columns are less than that; `w` may be read for `V`
/// whole vectors in each of those rows, `y` be written in `R` rows for `V` vectors, the
/// last one masked.
#[inline(always)]
unsafe fn add<S: Simd, const R: usize, const V: usize>(
    simd: S,
    x: *const f32,
    width: usize,
    w: *const f32,
    columns: &[u32],
    (y, outputs, mask): (*mut f32, usize, MemMask<S::m32s>),
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for &column in columns {
        let column = column as usize;
        // SAFETY: as the caller promises.
        unsafe {
            let w = w.add(column * outputs) as *const S::f32s;
            let x = x.add(column);
            let mut here = [simd.splat_f32s(0.0); V];
            for v in 0..V {
                here[v] = w.add(v).read_unaligned();
            }
            for r in 0..R {
                let x = simd.splat_f32s(*x.add(r * width));
                for v in 0..V {
                    sums[r][v] = simd.mul_add_e_f32s(x, here[v], sums[r][v]);
                }
            }
        }
    }
    for r in 0..R {
        for v in 0..V {
            // SAFETY: as the caller promises.
            unsafe {
                let y = y.add(r * outputs + v * S::F32_LANES);
                if v + 1 < V {
                    let y = y as *mut S::f32s;
                    y.write_unaligned(simd.add_f32s(y.read_unaligned(), sums[r][v]));
                } else {
                    let old = simd.mask_load_ptr_f32s(mask, y);
                    simd.mask_store_ptr_f32s(mask, y, simd.add_f32s(old, sums[r][v]));
                }
            }
        }
    }
}

/// W[j] ← W[j] − decay·W_at[j] + scale·Σᵣ x[r, j]·δ[r]; for a flat column that is
/// x[0, j]·Σᵣ δ[r].
pub(super) struct Update<'a> {
    /// W and b to decay from; `None`: those to move.
    pub(super) at: Option<&'a [f32]>,
    /// W and b.
    pub(super) into: &'a mut [f32],
    pub(super) outputs: usize,
    pub(super) step: Step,
    pub(super) rows: Rows<'a>,
    pub(super) width: usize,
    pub(super) delta: &'a [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            at,
            into,
            outputs,
            step,
            rows,
            width,
            delta,
            scratch,
        } = self;
        let lanes = S::F32_LANES;
        let padded = outputs.next_multiple_of(lanes);
        let n = delta.len() / outputs;
        // scale·δ with zeros up to whole vectors, and behind it Σᵣ of it.
        scratch.clear();
        scratch.resize((n + 1) * padded, 0.0);
        let (scaled, total) = scratch.split_at_mut(n * padded);
        let pairs = scaled
            .chunks_exact_mut(padded)
            .zip(delta.chunks_exact(outputs));
        for (scaled, delta) in pairs {
            for ((scaled, total), delta) in scaled.iter_mut().zip(&mut *total).zip(delta) {
                *scaled = step.scale * delta;
                *total += *scaled;
            }
        }
        update_columns(
            simd,
            (at, into),
            outputs,
            step.decay,
            (rows.x, width, rows.varied),
            scaled,
        );
        update_columns(
            simd,
            (at, into),
            outputs,
            step.decay,
            (&rows.x[..width], width, rows.flat),
            total,
        );
    }
}

/// W[j] ← W[j] − decay·W_at[j] + Σᵣ x[r, j]·δ[r] over the columns j, δ padded.
#[inline(always)]
fn update_columns<S: Simd>(
    simd: S,
    (at, into): (Option<&[f32]>, &mut [f32]),
    outputs: usize,
    decay: f32,
    (x, width, columns): (&[f32], usize, &[u32]),
    delta: &[f32],
) {
    let lanes = S::F32_LANES;
    let padded = outputs.next_multiple_of(lanes);
    let n = delta.len() / padded;
    check(columns, width);
    assert!(x.len() >= n * width && delta.len() == n * padded);
    assert!(padded - outputs <= outputs);
    assert!(into.len() >= (width + 1) * outputs);
    assert!(at.is_none_or(|at| at.len() >= (width + 1) * outputs));
    let most = if lanes >= 16 { 10 } else { 5 };
    for (first, vectors) in strips(outputs, lanes) {
        let last = (outputs - first).min(vectors * lanes) - (vectors - 1) * lanes;
        // What a last vector reaches beyond its row does not decay.
        let decay = [simd.splat_f32s(decay), masked(simd, decay, last)];
        let mut rest = columns;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(most.min(rest.len()));
            let mut now = now;
            // SAFETY: every column is less than width, so x[r, column] exists for the n
            // rows, and a full vector at any strip of W[column] ends at most `outputs`
            // behind W, where b lies; δ has n padded rows.
            unsafe {
                let x = x.as_ptr();
                let delta = (delta.as_ptr().add(first), padded, n);
                let into = into.as_mut_ptr().add(first);
                let at = match at {
                    Some(at) => at.as_ptr().add(first),
                    None => into,
                };
                let of = (at, into, outputs);
                if now.len() == most {
                    match (most, vectors) {
                        (10, 2) => update::<S, 10, 2>(simd, x, width, now, delta, of, decay),
                        (10, _) => update::<S, 10, 1>(simd, x, width, now, delta, of, decay),
                        (_, 2) => update::<S, 5, 2>(simd, x, width, now, delta, of, decay),
                        (_, _) => update::<S, 5, 1>(simd, x, width, now, delta, of, decay),
                    }
                    now = &[];
                }
                for column in now.chunks(1) {
                    match vectors {
                        2 => update::<S, 1, 2>(simd, x, width, column, delta, of, decay),
                        _ => update::<S, 1, 1>(simd, x, width, column, delta, of, decay),
                    }
                }
            }
            rest = later;
        }
    }
}

/// `value` in the first `count` lanes, zero in the others.
#[inline(always)]
fn masked<S: Simd>(simd: S, value: f32, count: usize) -> S::f32s {
    let values = [value; 16];
    simd.partial_load_f32s(&values[..count.min(S::F32_LANES)])
}

/// One tile of [`update_columns`]: `I` rows of W, `V` vectors.
///
/// # Safety
/// There are `I` columns, each less than `width`; `x` has n rows of that width, δ n rows
/// of `V` vectors at its stride; `at` may be read and `into` be written for `V` whole
/// vectors in each column's row.
#[inline(always)]
unsafe fn update<S: Simd, const I: usize, const V: usize>(
    simd: S,
    x: *const f32,
    width: usize,
    columns: &[u32],
    (delta, stride, n): (*const f32, usize, usize),
    (at, into, outputs): (*const f32, *mut f32, usize),
    decay: [S::f32s; 2],
) {
    let columns: [usize; I] = std::array::from_fn(|i| columns[i] as usize);
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
                let x = simd.splat_f32s(*x.add(columns[i]));
                for v in 0..V {
                    sums[i][v] = simd.mul_add_e_f32s(x, here[v], sums[i][v]);
                }
            }
        }
    }
    // All is read before anything is written: a short row's vectors overlap the next
    // rows', and ascending order leaves each lane what its own row made of it.
    for i in 0..I {
        for v in 0..V {
            let place = columns[i] * outputs + v * S::F32_LANES;
            // SAFETY: as the caller promises.
            unsafe {
                let old = (into.add(place) as *const S::f32s).read_unaligned();
                let at = (at.add(place) as *const S::f32s).read_unaligned();
                let old = simd.negate_mul_add_e_f32s(decay[1 - (V - 1 - v).min(1)], at, old);
                sums[i][v] = simd.add_f32s(old, sums[i][v]);
            }
        }
    }
    for i in 0..I {
        for v in 0..V {
            let place = columns[i] * outputs + v * S::F32_LANES;
            // SAFETY: as the caller promises.
            unsafe { (into.add(place) as *mut S::f32s).write_unaligned(sums[i][v]) };
        }
    }
}
