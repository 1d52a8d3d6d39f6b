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

/// Rows of W that are asked for before they are used: a wide matrix comes from afar.
const AHEAD: usize = 12;

/// Where a tile's vectors lie within the outputs: (first, vectors).
fn strips(outputs: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let vectors = outputs.div_ceil(lanes);
    (0..vectors)
        .step_by(2)
        .map(move |v| (v * lanes, 2.min(vectors - v)))
}

/// Asks for the cache lines of `V` vectors and the one they may reach into.
#[inline(always)]
fn prefetch<S: Simd, const V: usize>(from: *const f32) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..=(V * S::F32_LANES).div_ceil(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(16 * line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

#[inline(always)]
fn check(columns: &[u32], inputs: usize) {
    let most = columns.iter().fold(0, |most, column| most.max(*column));
    assert!((most as usize) < inputs || columns.is_empty());
}

/// y[r] ← y[r] + Σₖ x[r, k]·W[columns[k]].
pub(super) struct Add<'a> {
    pub(super) x: &'a [f32],
    pub(super) columns: &'a [u32],
    /// W, and b behind it.
    pub(super) layer: &'a [f32],
    pub(super) inputs: usize,
    pub(super) y: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            x,
            columns,
            layer,
            inputs,
            y,
        } = self;
        if columns.is_empty() {
            return;
        }
        let lanes = S::F32_LANES;
        let (width, outputs) = (columns.len(), layer.len() / (inputs + 1));
        let n = x.len() / width;
        check(columns, inputs);
        assert!(x.len() == n * width && y.len() >= n * outputs);
        assert!(layer.len() == (inputs + 1) * outputs);
        assert!(outputs.next_multiple_of(lanes) - outputs <= outputs);
        for start in (0..width).step_by(DEPTH) {
            let columns = &columns[start..width.min(start + DEPTH)];
            for (first, vectors) in strips(outputs, lanes) {
                let strip = (outputs - first).min(vectors * lanes);
                let mask = simd.mask_between_m32s(0, (strip - (vectors - 1) * lanes) as u32);
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
                    // SAFETY: rows row..row+rows of x and y exist, and x has a number for
                    // every column; every column is less than inputs, so a full vector at
                    // any strip of W[column] ends at most `outputs` behind W, where b
                    // lies; y is masked to its own strip.
                    unsafe {
                        let x = x.as_ptr().add(row * width + start);
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
                            (_, 2) => add_row::<S, 2>(simd, x, w, columns, to),
                            (_, _) => add_row::<S, 1>(simd, x, w, columns, to),
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
/// `x` has `R` rows at the stride `width`, with a number for every column; `w` may be
/// read for `V` whole vectors in each column's row, `y` be written in `R` rows for `V`
/// vectors, the last one masked.
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
    for (k, &column) in columns.iter().enumerate() {
        if V > 1 {
            let soon = columns[(k + AHEAD).min(columns.len() - 1)];
            prefetch::<S, V>(w.wrapping_add(soon as usize * outputs));
        }
        // SAFETY: as the caller promises.
        unsafe {
            let w = w.add(column as usize * outputs) as *const S::f32s;
            let x = x.add(k);
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
        // SAFETY: as the caller promises.
        unsafe { add_to(simd, sums[r], y.add(r * outputs), mask) };
    }
}

/// [`add`] for a single row: its columns in four groups, so that no sum waits for the
/// one before.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
unsafe fn add_row<S: Simd, const V: usize>(
    simd: S,
    x: *const f32,
    w: *const f32,
    columns: &[u32],
    (y, outputs, mask): (*mut f32, usize, MemMask<S::m32s>),
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; 4];
    let (fours, rest) = columns.as_chunks::<4>();
    let term = |sum: S::f32s, k: usize, column: u32, v: usize| {
        // SAFETY: as the caller promises.
        unsafe {
            let w = w.add(column as usize * outputs) as *const S::f32s;
            let x = simd.splat_f32s(*x.add(k));
            simd.mul_add_e_f32s(x, w.add(v).read_unaligned(), sum)
        }
    };
    for (k, columns) in fours.iter().enumerate() {
        for c in 0..4 {
            for v in 0..V {
                sums[c][v] = term(sums[c][v], 4 * k + c, columns[c], v);
            }
        }
    }
    for (c, &column) in rest.iter().enumerate() {
        for v in 0..V {
            sums[c][v] = term(sums[c][v], 4 * fours.len() + c, column, v);
        }
    }
    let mut total = sums[0];
    for v in 0..V {
        let low = simd.add_f32s(sums[0][v], sums[1][v]);
        total[v] = simd.add_f32s(low, simd.add_f32s(sums[2][v], sums[3][v]));
    }
    // SAFETY: as the caller promises.
    unsafe { add_to(simd, total, y, mask) };
}

/// y ← y + sums, the last vector under the mask.
///
/// # Safety
/// `y` may be read and written so.
#[inline(always)]
unsafe fn add_to<S: Simd, const V: usize>(
    simd: S,
    sums: [S::f32s; V],
    y: *mut f32,
    mask: MemMask<S::m32s>,
) {
    for v in 0..V {
        // SAFETY: as the caller promises.
        unsafe {
            let y = y.add(v * S::F32_LANES);
            if v + 1 < V {
                let y = y as *mut S::f32s;
                y.write_unaligned(simd.add_f32s(y.read_unaligned(), sums[v]));
            } else {
                let old = simd.mask_load_ptr_f32s(mask, y);
                simd.mask_store_ptr_f32s(mask, y, simd.add_f32s(old, sums[v]));
            }
        }
    }
}

/// W[j] ← W[j] − decay·W_at[j] + scale·Σᵣ x[r, j]·δ[r]; for a constant input the sum is
/// x[j]·Σᵣ δ[r].
pub(super) struct Update<'a> {
    /// W and b to decay from; `None`: those to move.
    pub(super) at: Option<&'a [f32]>,
    /// W and b.
    pub(super) into: &'a mut [f32],
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) step: Step,
    pub(super) rows: Rows<'a>,
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
            inputs,
            step,
            rows,
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
        let shape = (inputs, outputs);
        let (x, columns) = (rows.x, rows.varied);
        update_columns(simd, (at, into), shape, step.decay, (x, columns), scaled);
        let (x, columns) = (rows.constants, rows.constant);
        update_columns(simd, (at, into), shape, step.decay, (x, columns), total);
    }
}

/// W[j] ← W[j] − decay·W_at[j] + Σᵣ x[r, k]·δ[r] over the columns j = columns[k], δ padded.
#[inline(always)]
fn update_columns<S: Simd>(
    simd: S,
    (at, into): (Option<&[f32]>, &mut [f32]),
    (inputs, outputs): (usize, usize),
    decay: f32,
    (x, columns): (&[f32], &[u32]),
    delta: &[f32],
) {
    let width = columns.len();
    let lanes = S::F32_LANES;
    let padded = outputs.next_multiple_of(lanes);
    let n = delta.len() / padded;
    check(columns, inputs);
    assert!(x.len() >= n * width && delta.len() == n * padded);
    assert!(padded - outputs <= outputs);
    assert!(into.len() == (inputs + 1) * outputs);
    assert!(at.is_none_or(|at| at.len() == into.len()));
    let most = if lanes >= 16 { 10 } else { 5 };
    for (first, vectors) in strips(outputs, lanes) {
        let last = (outputs - first).min(vectors * lanes) - (vectors - 1) * lanes;
        // What a last vector reaches beyond its row does not decay.
        let lanes_of_decay = [simd.splat_f32s(decay), masked(simd, decay, last)];
        let decay = (decay != 0.0, lanes_of_decay);
        // Every other tile first: the last row of one tile reaches into the first of the
        // next, and a load that waits for such a store is slow.
        let whole = width / most;
        let tiles = (0..whole).step_by(2).chain((1..whole).step_by(2));
        let tiles = tiles.map(|tile| (tile * most, most));
        let mut rest = whole * most;
        let rests = std::iter::from_fn(|| {
            let size = [5, 2, 1].into_iter().find(|size| rest + size <= width)?;
            rest += size;
            Some((rest - size, size))
        });
        for (k, size) in tiles.chain(rests) {
            let columns = &columns[k..];
            // SAFETY: x has a number for every column in n rows; every column is less
            // than inputs, so a full vector at any strip of W[column] ends at most
            // `outputs` behind W, where b lies; δ has n padded rows.
            unsafe {
                let x = x.as_ptr().add(k);
                let delta = (delta.as_ptr().add(first), padded, n);
                let into = into.as_mut_ptr().add(first);
                let at = match at {
                    Some(at) => at.as_ptr().add(first),
                    None => std::ptr::null(),
                };
                let of = (at, into, outputs);
                match (size, vectors) {
                    (10, 2) => update::<S, 10, 2>(simd, x, width, columns, delta, of, decay),
                    (10, _) => update::<S, 10, 1>(simd, x, width, columns, delta, of, decay),
                    (5, 2) => update::<S, 5, 2>(simd, x, width, columns, delta, of, decay),
                    (5, _) => update::<S, 5, 1>(simd, x, width, columns, delta, of, decay),
                    (2, 2) => update::<S, 2, 2>(simd, x, width, columns, delta, of, decay),
                    (2, _) => update::<S, 2, 1>(simd, x, width, columns, delta, of, decay),
                    (_, 2) => update::<S, 1, 2>(simd, x, width, columns, delta, of, decay),
                    (_, _) => update::<S, 1, 1>(simd, x, width, columns, delta, of, decay),
                }
            }
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
    (decays, decay): (bool, [S::f32s; 2]),
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
    // All is read before anything is written: a short row's vectors overlap the next
    // rows', and ascending order leaves each lane what its own row made of it.
    for i in 0..I {
        for v in 0..V {
            let place = columns[i] * outputs + v * S::F32_LANES;
            // SAFETY: as the caller promises.
            unsafe {
                let old = (into.add(place) as *const S::f32s).read_unaligned();
                let mut new = old;
                if decays {
                    let at = match at.is_null() {
                        true => old,
                        false => (at.add(place) as *const S::f32s).read_unaligned(),
                    };
                    let decay = decay[1 - (V - 1 - v).min(1)];
                    new = simd.negate_mul_add_e_f32s(decay, at, old);
                }
                sums[i][v] = simd.add_f32s(new, sums[i][v]);
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
