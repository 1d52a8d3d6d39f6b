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

/// Asks for the cache line of a number.
#[inline(always)]
pub(super) fn ask(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for the cache lines of `V` vectors and the one they may reach into.
#[inline(always)]
pub(super) fn prefetch<S: Simd, const V: usize>(from: *const f32) {
    for line in 0..=(V * S::F32_LANES).div_ceil(16) {
        ask(from.wrapping_add(16 * line));
    }
}

/// Every column is one of the inputs.
#[inline(always)]
pub(super) fn check(columns: &[u32], inputs: usize) {
    let most = columns.iter().fold(0, |most, column| most.max(*column));
    assert!((most as usize) < inputs || columns.is_empty());
}

/// `len` numbers that start on a cache line within `room`, all zero, and where they start.
pub(super) fn aligned(room: &mut Vec<f32>, len: usize) -> usize {
    room.clear();
    room.resize(len + 16, 0.0);
    // No telling where, as under an interpreter: then it is only slower.
    room.as_ptr().align_offset(64).min(16)
}

/// scale·δ with zeros up to whole vectors.
#[inline(always)]
pub(super) fn pad<'a>(
    room: &'a mut Vec<f32>,
    delta: &[f32],
    (outputs, padded): (usize, usize),
    scale: f32,
) -> &'a [f32] {
    let len = delta.len() / outputs * padded;
    let start = aligned(room, len);
    let rows = room[start..start + len].chunks_exact_mut(padded);
    for (to, from) in rows.zip(delta.chunks_exact(outputs)) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = scale * from;
        }
    }
    &room[start..start + len]
}

/// [`pad`], and Σᵣ of the rows.
#[inline(always)]
pub(super) fn pad_and_sum<'a>(
    room: &'a mut Vec<f32>,
    delta: &[f32],
    (outputs, padded): (usize, usize),
    scale: f32,
) -> (&'a [f32], &'a [f32]) {
    let n = delta.len() / outputs;
    let start = aligned(room, (n + 1) * padded);
    let (scaled, total) = room[start..start + (n + 1) * padded].split_at_mut(n * padded);
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

/// Where W is read.
pub(super) trait Weight<S: Simd>: Copy {
    /// The same from `count` numbers on.
    fn skip(self, count: usize) -> Self;

    /// Asks for `V` vectors at `place`, wherever that is.
    fn soon<const V: usize>(self, place: usize);

    /// # Safety
    /// A whole vector may be read at `place`.
    unsafe fn load(self, simd: S, place: usize) -> S::f32s;
}

/// As it is written down.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) *const f32);

impl<S: Simd> Weight<S> for At {
    #[inline(always)]
    fn skip(self, count: usize) -> Self {
        At(self.0.wrapping_add(count))
    }

    #[inline(always)]
    fn soon<const V: usize>(self, place: usize) {
        prefetch::<S, V>(self.0.wrapping_add(place));
    }

    #[inline(always)]
    unsafe fn load(self, _: S, place: usize) -> S::f32s {
        // SAFETY: as the caller promises.
        unsafe { (self.0.add(place) as *const S::f32s).read_unaligned() }
    }
}

/// α·v + (1 − α)·w, to the same bits as [`crate::params::mix`].
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
    fn soon<const V: usize>(self, place: usize) {
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
