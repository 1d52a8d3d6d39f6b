//! Matrix products and the passes of a dense layer. The only module with `unsafe`.
//!
//! Matrices are row-major. A dense layer's weight has the shape (inputs, outputs):
//! y = x·W + b. The passes pick the CPU's widest vectors at run time, by `pulp`; layers too
//! narrow for them use the `gemm-f32` crate. A pass always runs on one thread, so that the order
//! of a sum does not depend on the number of threads.

// Tiles of registers are indexed, which unrolls their loops.
#![allow(clippy::needless_range_loop)]

mod add;
#[cfg(target_arch = "x86_64")]
mod both;
mod compact;
pub mod conv;
mod dense;
pub mod exp;
pub mod hidden;
pub mod lines;
pub mod norm;
pub mod peak;
pub mod point;
mod propagate;
pub mod rows;
pub mod sparse;
mod tile;
mod update;
#[cfg(test)]
mod widths;

pub use dense::Dense;
use point::Place;
pub use rows::numbers;

/// Returns the number of floats in this CPU's vectors. Other widths give other last bits.
pub fn lanes() -> usize {
    struct Lanes;
    impl pulp::WithSimd for Lanes {
        type Output = usize;
        fn with_simd<S: pulp::Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    pulp::Arch::new().dispatch(Lanes)
}

/// Describes the vectors of this CPU.
pub fn describe_vectors() -> &'static str {
    match lanes() {
        16 => "of 16 numbers (AVX-512)",
        8 => "of 8 numbers (AVX2)",
        4 => "of 4 numbers",
        _ => "none",
    }
}

/// Computes dst ← keep·dst + scale·A·B for an (m, k)-matrix A and a (k, n)-matrix B, each given
/// with its (row, column) strides; dst is row-major (m, n).
#[allow(clippy::too_many_arguments)]
fn product(
    dst: &mut [f32],
    (m, n, k): (usize, usize, usize),
    a: &[f32],
    (a_row, a_column): (usize, usize),
    b: &[f32],
    (b_row, b_column): (usize, usize),
    keep: bool,
    scale: f32,
) {
    let last = |rows: usize, columns: usize, (row, column): (usize, usize)| match rows * columns {
        0 => 0,
        _ => (rows - 1) * row + (columns - 1) * column + 1,
    };
    assert!(dst.len() >= m * n);
    assert!(a.len() >= last(m, k, (a_row, a_column)));
    assert!(b.len() >= last(k, n, (b_row, b_column)));
    // The kernel writes along columns: contiguous rows are the columns of the transposed
    // product, dstᵀ = bᵀ·aᵀ. (A single column is both.)
    type Matrix = (*const f32, usize, usize);
    let (a, b): (Matrix, Matrix) = if n > 1 {
        ((b.as_ptr(), b_row, b_column), (a.as_ptr(), a_row, a_column))
    } else {
        ((a.as_ptr(), a_column, a_row), (b.as_ptr(), b_column, b_row))
    };
    let (m, n, dst_column, dst_row) = if n > 1 { (n, m, n, 1) } else { (m, n, 1, n) };
    let multiply = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: the assertions above keep every index (i·row + j·column) of the three
    // matrices inside its slice; dst is borrowed mutably and so overlaps neither.
    unsafe {
        multiply(
            m,
            n,
            k,
            dst.as_mut_ptr(),
            dst_column as isize,
            dst_row as isize,
            keep,
            a.0,
            a.1 as isize,
            a.2 as isize,
            b.0,
            b.1 as isize,
            b.2 as isize,
            1.0,
            scale,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

/// Computes into ← into − factor·(point of `place`) within `range`. The arithmetic does not depend
/// on the place, so an equal copy gives equal bits.
pub fn decay(place: Place<'_>, into: &mut [f32], range: std::ops::Range<usize>, factor: f32) {
    if factor == 0.0 {
        return;
    }
    let place = place.part(range.clone());
    for (k, x) in into[range].iter_mut().enumerate() {
        *x -= factor * place.get(k, *x);
    }
}

/// Computes x ← max(x, 0).
pub fn relu(x: &mut [f32]) {
    // Not `max`, which would turn NaN into 0.
    x.iter_mut()
        .for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x });
}

/// Computes x ← factor·x.
pub fn scale(x: &mut [f32], factor: f32) {
    if factor != 1.0 {
        x.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Sets δ to 0 where the rectified `y` is not positive.
pub fn relu_backward(delta: &mut [f32], y: &[f32]) {
    for (d, y) in delta.iter_mut().zip(y) {
        *d = if *y > 0.0 { *d } else { 0.0 };
    }
}
