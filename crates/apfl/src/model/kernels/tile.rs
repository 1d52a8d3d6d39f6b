//! Products of a few rows with a weight matrix, without copying the matrix.
//!
//! A tile of sums stays in registers while columns (or rows) are added to it. A vector at the end
//! of a matrix row reaches into the next row, or into the bias after the last one: what is read
//! there is not used, and what is written there is the old value.

use pulp::Simd;

/// Returns the vectors of each tile within the outputs: (first, vectors).
pub(super) fn strips(outputs: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let vectors = outputs.div_ceil(lanes);
    (0..vectors)
        .step_by(2)
        .map(move |v| (v * lanes, 2.min(vectors - v)))
}

/// Prefetches the cache line of a number.
#[inline(always)]
pub(super) fn prefetch_line(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches the cache lines of `V` vectors and the one that they may reach into.
#[inline(always)]
pub(super) fn prefetch<S: Simd, const V: usize>(from: *const f32) {
    for line in 0..=(V * S::F32_LANES).div_ceil(16) {
        prefetch_line(from.wrapping_add(16 * line));
    }
}

/// Asserts that every column is one of the inputs.
#[inline(always)]
pub(super) fn check_columns(columns: &[u32], inputs: usize) {
    let max = columns.iter().fold(0, |max, column| max.max(*column));
    assert!((max as usize) < inputs || columns.is_empty());
}

/// Makes room for `len` zeros that start on a cache line, and returns their offset.
pub(super) fn aligned(buffer: &mut Vec<f32>, len: usize) -> usize {
    buffer.clear();
    buffer.resize(len + 16, 0.0);
    // If the alignment is unknown, as under an interpreter, it is only slower.
    buffer.as_ptr().align_offset(64).min(16)
}

/// Returns scale·δ, padded with zeros to whole vectors.
#[inline(always)]
pub(super) fn pad<'a>(
    buffer: &'a mut Vec<f32>,
    delta: &[f32],
    (outputs, padded): (usize, usize),
    scale: f32,
) -> &'a [f32] {
    let len = delta.len() / outputs * padded;
    let start = aligned(buffer, len);
    let rows = buffer[start..start + len].chunks_exact_mut(padded);
    for (to, from) in rows.zip(delta.chunks_exact(outputs)) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = scale * from;
        }
    }
    &buffer[start..start + len]
}

/// Returns [`pad`] and the sum Σᵣ of its rows.
#[inline(always)]
pub(super) fn pad_and_sum<'a>(
    buffer: &'a mut Vec<f32>,
    delta: &[f32],
    (outputs, padded): (usize, usize),
    scale: f32,
) -> (&'a [f32], &'a [f32]) {
    let n = delta.len() / outputs;
    let start = aligned(buffer, (n + 1) * padded);
    let (scaled, total) = buffer[start..start + (n + 1) * padded].split_at_mut(n * padded);
    let pairs = scaled
        .chunks_exact_mut(padded)
        .zip(delta.chunks_exact(outputs));
    for (scaled, delta) in pairs {
        for ((scaled, total), delta) in scaled.iter_mut().zip(&mut *total).zip(delta) {
            *scaled = scale * delta;
            *total += *scaled;
        }
    }
    (scaled, total)
}

/// Source of W.
pub(super) trait Weight<S: Simd>: Copy {
    /// Skips the first `count` numbers.
    fn skip(self, count: usize) -> Self;

    /// Prefetches `V` vectors at `place`, which may be any address.
    fn prefetch<const V: usize>(self, place: usize);

    /// Loads a vector.
    ///
    /// # Safety
    /// A whole vector may be read at `place`.
    unsafe fn load(self, simd: S, place: usize) -> S::f32s;
}

/// W as stored.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) *const f32);

impl<S: Simd> Weight<S> for At {
    #[inline(always)]
    fn skip(self, count: usize) -> Self {
        At(self.0.wrapping_add(count))
    }

    #[inline(always)]
    fn prefetch<const V: usize>(self, place: usize) {
        prefetch::<S, V>(self.0.wrapping_add(place));
    }

    #[inline(always)]
    unsafe fn load(self, _: S, place: usize) -> S::f32s {
        // SAFETY: as the caller promises.
        unsafe { (self.0.add(place) as *const S::f32s).read_unaligned() }
    }
}

/// The mixture α·v + (1 − α)·w, to the same bits as [`crate::params::mix`].
#[derive(Clone, Copy)]
pub(super) struct Mixed<S: Simd> {
    v: *const f32,
    w: *const f32,
    alpha: S::f32s,
    rest: S::f32s,
}

impl<S: Simd> Mixed<S> {
    #[inline(always)]
    pub(super) fn of(simd: S, alpha: f32, v: &[f32], w: &[f32]) -> Self {
        assert_eq!(v.len(), w.len());
        Self {
            v: v.as_ptr(),
            w: w.as_ptr(),
            alpha: simd.splat_f32s(alpha),
            rest: simd.splat_f32s(1.0 - alpha),
        }
    }
}

impl<S: Simd> Weight<S> for Mixed<S> {
    #[inline(always)]
    fn skip(self, count: usize) -> Self {
        Self {
            v: self.v.wrapping_add(count),
            w: self.w.wrapping_add(count),
            ..self
        }
    }

    #[inline(always)]
    fn prefetch<const V: usize>(self, place: usize) {
        prefetch::<S, V>(self.v.wrapping_add(place));
        prefetch::<S, V>(self.w.wrapping_add(place));
    }

    #[inline(always)]
    unsafe fn load(self, simd: S, place: usize) -> S::f32s {
        // SAFETY: as the caller promises.
        unsafe {
            let v = (self.v.add(place) as *const S::f32s).read_unaligned();
            let w = (self.w.add(place) as *const S::f32s).read_unaligned();
            simd.add_f32s(simd.mul_f32s(self.alpha, v), simd.mul_f32s(self.rest, w))
        }
    }
}
