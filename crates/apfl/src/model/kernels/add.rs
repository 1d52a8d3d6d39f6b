//! Rows times a weight matrix: the forward pass of a dense layer.

use pulp::{MemMask, Simd, WithSimd};

use super::point::Point;
use super::tile::{At, Mixed, Weight, check_columns, strips};

/// Numbers of W that stay in the first-level cache while all rows of x are processed.
const DEPTH: usize = 128 * 32;

/// Returns the number of columns that are summed before they are added to y.
pub(super) fn depth(outputs: usize, lanes: usize) -> usize {
    DEPTH / outputs.min(2 * lanes)
}

/// Rows of W that are prefetched ahead, because a wide matrix is not in a near cache.
const AHEAD: usize = 12;

/// Computes y[r] ← y[r] + Σₖ x[r, k]·W[columns[k]].
pub(super) struct Add<'a> {
    pub(super) x: &'a [f32],
    pub(super) columns: &'a [u32],
    /// W, then b.
    pub(super) layer: Point<'a>,
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
        let (width, outputs) = (columns.len(), layer.count() / (inputs + 1));
        let n = x.len() / width;
        check_columns(columns, inputs);
        assert!(x.len() == n * width && y.len() >= n * outputs);
        assert!(layer.count() == (inputs + 1) * outputs);
        assert!(outputs.next_multiple_of(lanes) - outputs <= outputs);
        let shape = (n, outputs, width);
        match layer {
            Point::At(at) => add_tiles(simd, x, columns, At(at.as_ptr()), shape, y),
            Point::Mixture { alpha, v, w } => {
                add_tiles(simd, x, columns, Mixed::of(simd, alpha, v, w), shape, y);
            }
        }
    }
}

/// Computes all tiles of [`Add`], which has checked its shapes.
#[inline(always)]
fn add_tiles<S: Simd>(
    simd: S,
    x: &[f32],
    columns: &[u32],
    layer: impl Weight<S>,
    (n, outputs, width): (usize, usize, usize),
    y: &mut [f32],
) {
    let lanes = S::F32_LANES;
    let depth = depth(outputs, lanes);
    for start in (0..width).step_by(depth) {
        let columns = &columns[start..width.min(start + depth)];
        for (first, vectors) in strips(outputs, lanes) {
            let strip = (outputs - first).min(vectors * lanes);
            let mask = simd.mask_between_m32s(0, (strip - (vectors - 1) * lanes) as u32);
            let mut row = 0;
            // As many rows at a time as there are registers for.
            while row < n {
                let max_rows = match (lanes >= 16, vectors) {
                    (true, 1) => 20,
                    (true, _) => 10,
                    (false, _) => 5,
                };
                let rows = match (n - row).min(max_rows) {
                    20 => 20,
                    10.. => 10,
                    5.. => 5,
                    2.. => 2,
                    _ => 1,
                };
                // SAFETY: rows row..row+rows of x and y exist, and x has a number for
                // every column; every column is less than inputs, so a full vector at
                // any strip of W[column] ends at most `outputs` past W, where b
                // is; y is masked to its own strip.
                unsafe {
                    let x = x.as_ptr().add(row * width + start);
                    let w = layer.skip(first);
                    let y = y.as_mut_ptr().add(row * outputs + first);
                    let to = (y, outputs, mask);
                    match (rows, vectors) {
                        (20, _) => add::<S, 20, 1>(simd, x, width, w, columns, to),
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

/// Computes one tile of [`Add`]: `R` rows, `V` vectors, the last one masked.
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
    w: impl Weight<S>,
    columns: &[u32],
    (y, outputs, mask): (*mut f32, usize, MemMask<S::m32s>),
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    if V == 1 {
        // Narrow: two columns at a time, so that a row of x is addressed once.
        let (pairs, rest) = columns.as_chunks::<2>();
        for (k, pair) in pairs.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe {
                add_columns::<S, R, 2, V>(simd, x.add(2 * k), width, w, pair, outputs, &mut sums)
            };
        }
        for (k, one) in rest.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe {
                let x = x.add(2 * pairs.len() + k);
                add_columns::<S, R, 1, V>(simd, x, width, w, &[*one], outputs, &mut sums);
            }
        }
    } else {
        for (k, &column) in columns.iter().enumerate() {
            let ahead = columns[(k + AHEAD).min(columns.len() - 1)];
            w.prefetch::<V>(ahead as usize * outputs);
            // SAFETY: as the caller promises.
            unsafe {
                let x = x.add(k);
                let mut here = [simd.splat_f32s(0.0); V];
                for v in 0..V {
                    here[v] = w.load(simd, column as usize * outputs + v * S::F32_LANES);
                }
                for r in 0..R {
                    let x = simd.splat_f32s(*x.add(r * width));
                    for v in 0..V {
                        sums[r][v] = simd.mul_add_e_f32s(x, here[v], sums[r][v]);
                    }
                }
            }
        }
    }
    for r in 0..R {
        // SAFETY: as the caller promises.
        unsafe { add_to(simd, sums[r], y.add(r * outputs), mask) };
    }
}

/// Computes sums[r] ← sums[r] + Σ_c x[r, c]·W[columns[c]], one vector wide.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
unsafe fn add_columns<S: Simd, const R: usize, const C: usize, const V: usize>(
    simd: S,
    x: *const f32,
    width: usize,
    w: impl Weight<S>,
    columns: &[u32; C],
    outputs: usize,
    sums: &mut [[S::f32s; V]; R],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut here = [simd.splat_f32s(0.0); C];
        for c in 0..C {
            here[c] = w.load(simd, columns[c] as usize * outputs);
        }
        for r in 0..R {
            let x = x.add(r * width);
            for c in 0..C {
                sums[r][0] = simd.mul_add_e_f32s(simd.splat_f32s(*x.add(c)), here[c], sums[r][0]);
            }
        }
    }
}

/// Does [`add`] for a single row, with the columns in four groups, so that no sum waits for the
/// previous one.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
unsafe fn add_row<S: Simd, const V: usize>(
    simd: S,
    x: *const f32,
    w: impl Weight<S>,
    columns: &[u32],
    (y, outputs, mask): (*mut f32, usize, MemMask<S::m32s>),
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; 4];
    let (fours, rest) = columns.as_chunks::<4>();
    let term = |sum: S::f32s, k: usize, column: u32, v: usize| {
        // SAFETY: as the caller promises.
        unsafe {
            let w = w.load(simd, column as usize * outputs + v * S::F32_LANES);
            simd.mul_add_e_f32s(simd.splat_f32s(*x.add(k)), w, sum)
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

/// Computes y ← y + sums, with the last vector masked.
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
