//! The joint forward pass: rows times both matrices.

use std::arch::x86_64::*;

use super::super::add::depth;
use super::super::tile::check_columns;
use super::{LANES, is_supported, mixed, row_lanes};

/// The points of both passes: layers of W, then b.
#[derive(Clone, Copy)]
pub(in super::super) struct Points<'a> {
    pub(in super::super) alpha: f32,
    pub(in super::super) v: &'a [f32],
    pub(in super::super) w: &'a [f32],
    pub(in super::super) inputs: usize,
    pub(in super::super) outputs: usize,
}

/// Computes y₀[r] ← y₀[r] + Σₖ x[r, k]·W[columns[k]] for W of w, and y₁ likewise for the mixture.
pub(in super::super) fn add_both(at: Points<'_>, x: &[f32], columns: &[u32], y: [&mut [f32]; 2]) {
    let (width, outputs) = (columns.len(), at.outputs);
    if columns.is_empty() {
        return;
    }
    let n = x.len() / width;
    check_columns(columns, at.inputs);
    assert!(is_supported(outputs) && x.len() == n * width);
    assert!(y.iter().all(|y| y.len() >= n * outputs));
    let len = (at.inputs + 1) * outputs;
    assert!(at.w.len() == len && at.v.len() == len);
    let depth = depth(outputs, LANES);
    let y = y.map(<[f32]>::as_mut_ptr);
    for start in (0..width).step_by(depth) {
        let columns = &columns[start..width.min(start + depth)];
        let mut row = 0;
        while row < n {
            let rows = match n - row {
                10.. => 10,
                5.. => 5,
                2.. => 2,
                _ => 1,
            };
            // SAFETY: the CPU has AVX-512; rows row..row+rows of x and both y exist, and x
            // has a number for every column; every column is less than inputs, so a
            // vector at W[column] ends within b at the latest, as LANES ≤ 2·outputs.
            unsafe {
                let x = x.as_ptr().add(row * width + start);
                let y = y.map(|y| y.add(row * outputs));
                match rows {
                    10 => add::<10>(at, x, width, columns, y),
                    5 => add::<5>(at, x, width, columns, y),
                    2 => add::<2>(at, x, width, columns, y),
                    _ => add_row(at, x, columns, y),
                }
            }
            row += rows;
        }
    }
}

/// Computes one tile of [`add_both`]: `R` rows at both points.
///
/// # Safety
/// The CPU has AVX-512. `x` has `R` rows at the stride `width`, with a number for every
/// column; v and w may be read for a vector in each column's row, both y be read and
/// written in `R` rows.
#[target_feature(enable = "avx512f")]
unsafe fn add<const R: usize>(
    at: Points<'_>,
    x: *const f32,
    width: usize,
    columns: &[u32],
    y: [*mut f32; 2],
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    let (pairs, rest) = columns.as_chunks::<2>();
    for (k, pair) in pairs.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe { add_columns(at, x.add(2 * k), width, pair, &mut sums) };
    }
    for (k, one) in rest.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe { add_columns(at, x.add(2 * pairs.len() + k), width, &[*one], &mut sums) };
    }
    for r in 0..R {
        for p in 0..2 {
            // SAFETY: as the caller promises.
            unsafe { add_to(sums[r][p], y[p].add(r * at.outputs), at.outputs) };
        }
    }
}

/// Computes sums[r] ← sums[r] + Σ_c x[r, c]·W[columns[c]] at both points.
///
/// # Safety
/// As for [`add`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_columns<const R: usize, const C: usize>(
    at: Points<'_>,
    x: *const f32,
    width: usize,
    columns: &[u32; C],
    sums: &mut [[__m512; 2]; R],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut here = [[_mm512_setzero_ps(); 2]; C];
        for c in 0..C {
            here[c] = load(at, columns[c]);
        }
        for r in 0..R {
            let x = x.add(r * width);
            for c in 0..C {
                let x = _mm512_set1_ps(*x.add(c));
                for p in 0..2 {
                    sums[r][p] = _mm512_fmadd_ps(x, here[c][p], sums[r][p]);
                }
            }
        }
    }
}

/// Does [`add`] for a single row, with the columns in four groups, so that no sum waits for the
/// previous one.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx512f")]
unsafe fn add_row(at: Points<'_>, x: *const f32, columns: &[u32], y: [*mut f32; 2]) {
    let mut sums = [[_mm512_setzero_ps(); 2]; 4];
    let (fours, rest) = columns.as_chunks::<4>();
    for (k, columns) in fours.iter().enumerate() {
        for c in 0..4 {
            // SAFETY: as the caller promises.
            unsafe { add_columns(at, x.add(4 * k + c), 0, &[columns[c]], one(&mut sums[c])) };
        }
    }
    for (c, &column) in rest.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            add_columns(
                at,
                x.add(4 * fours.len() + c),
                0,
                &[column],
                one(&mut sums[c]),
            )
        };
    }
    for p in 0..2 {
        let low = _mm512_add_ps(sums[0][p], sums[1][p]);
        let total = _mm512_add_ps(low, _mm512_add_ps(sums[2][p], sums[3][p]));
        // SAFETY: as the caller promises.
        unsafe { add_to(total, y[p], at.outputs) };
    }
}

fn one<T>(x: &mut T) -> &mut [T; 1] {
    std::array::from_mut(x)
}

/// Loads a row of w, and of the mixture to the same bits as [`crate::params::mix`].
///
/// # Safety
/// The CPU has AVX-512; v and w may be read for a vector in that column's row.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(at: Points<'_>, column: u32) -> [__m512; 2] {
    let place = column as usize * at.outputs;
    // SAFETY: as the caller promises.
    let (v, w) = unsafe {
        let v = _mm512_loadu_ps(at.v.as_ptr().add(place));
        (v, _mm512_loadu_ps(at.w.as_ptr().add(place)))
    };
    [w, mixed(at.alpha, v, w)]
}

/// Computes y ← y + sum for a row.
///
/// # Safety
/// The CPU has AVX-512; `y` may be read and written for a row.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_to(sum: __m512, y: *mut f32, outputs: usize) {
    let mask = row_lanes(outputs);
    // SAFETY: as the caller promises.
    unsafe {
        let old = _mm512_maskz_loadu_ps(mask, y);
        _mm512_mask_storeu_ps(y, mask, _mm512_add_ps(old, sum));
    }
}
