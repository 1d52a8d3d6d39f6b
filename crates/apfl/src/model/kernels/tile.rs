//! Products of a few rows with a weight matrix, straight from where it lies.
//!
//! A tile of sums stays in registers while the columns (or rows) that add to it pass by.
//! A vector at the end of a matrix row reaches into the next row, or into the bias behind
//! the last one: what is read there is not used, and what is written there is what stood
//! there.

use pulp::Simd;

/// Where a tile's vectors lie within the outputs: (first, vectors).
pub(super) fn strips(outputs: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let vectors = outputs.div_ceil(lanes);
    (0..vectors)
        .step_by(2)
        .map(move |v| (v * lanes, 2.min(vectors - v)))
}

/// Asks for the cache lines of `V` vectors and the one they may reach into.
#[inline(always)]
pub(super) fn prefetch<S: Simd, const V: usize>(from: *const f32) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..=(V * S::F32_LANES).div_ceil(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(16 * line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// Every column is one of the inputs.
#[inline(always)]
pub(super) fn check(columns: &[u32], inputs: usize) {
    let most = columns.iter().fold(0, |most, column| most.max(*column));
    assert!((most as usize) < inputs || columns.is_empty());
}
