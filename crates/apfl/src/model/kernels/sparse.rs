//! The passes of a wide first layer on bytes that are mostly zero.
//!
//! A byte k means shift + k·scale, so a zero is the constant `shift`. That part of a product is the
//! same for all rows (a term of rank one). The rest has one term per nonzero byte: a fifth of all
//! in MNIST.
//!
//! Both passes read each row of W once, with the batch's rows in the first-level cache.

use pulp::{Simd, WithSimd};

use super::point::{Place, Point};
use super::tile::{At, Mixed, Weight, aligned, pad_and_sum, prefetch};
use crate::data::Scaling;
use crate::model::Step;

/// Rows of a batch per mask.
pub(super) const GROUP: usize = 32;

/// The smallest number of outputs of a wide layer: more than two of the widest vectors.
pub const WIDE: usize = 64;

/// Rows of W that are prefetched ahead.
const AHEAD: usize = 3;

/// A batch of bytes with masks of its nonzero bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'a> {
    /// The bytes, row by row.
    pub(super) bytes: &'a [u8],
    /// For every group of rows and every column, the rows with a nonzero byte.
    pub(super) masks: &'a [u32],
    /// k·scale for every channel and byte k.
    pub(super) products: &'a [[f32; 256]],
    pub(super) scaling: &'a Scaling,
    /// Columns.
    pub(super) width: usize,
}

/// Computes for every group of rows and every column the mask of nonzero rows. Returns the number
/// of nonzero bytes.
pub(super) fn find(bytes: &[u8], width: usize, masks: &mut Vec<u32>) -> usize {
    masks.clear();
    masks.resize((bytes.len() / width).div_ceil(GROUP) * width, 0);
    for (bytes, masks) in bytes
        .chunks(GROUP * width)
        .zip(masks.chunks_exact_mut(width))
    {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the CPU has these features.
            unsafe { avx512::mark(bytes, masks) };
            continue;
        }
        mark(bytes, masks);
    }
    masks.iter().map(|mask| mask.count_ones() as usize).sum()
}

/// Computes masks[j] ← the rows in which column j is not zero.
fn mark(bytes: &[u8], masks: &mut [u32]) {
    for (r, row) in bytes.chunks_exact(masks.len()).enumerate() {
        for (mask, byte) in masks.iter_mut().zip(row) {
            *mask |= u32::from(*byte != 0) << r;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    /// Does [`super::mark`] sixteen columns at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn mark(bytes: &[u8], masks: &mut [u32]) {
        let width = masks.len();
        for start in (0..width).step_by(16) {
            let lanes = ((1u32 << (width - start).min(16)) - 1) as u16;
            let mut rows = _mm512_setzero_si512();
            for (r, row) in bytes.chunks_exact(width).enumerate() {
                // SAFETY: masked to the columns that exist.
                let row = unsafe { _mm_maskz_loadu_epi8(lanes, row.as_ptr().add(start).cast()) };
                let bit = _mm512_set1_epi32(1 << r);
                rows = _mm512_mask_or_epi32(rows, _mm_test_epi8_mask(row, row), rows, bit);
            }
            // SAFETY: the same.
            unsafe { _mm512_mask_storeu_epi32(masks.as_mut_ptr().add(start).cast(), lanes, rows) };
        }
    }
}

impl<'a> Sparse<'a> {
    /// Returns the groups of up to [`GROUP`] rows: (first row, rows, bytes, masks).
    fn groups(self) -> impl Iterator<Item = (usize, usize, &'a [u8], &'a [u32])> {
        let bytes = self.bytes.chunks(GROUP * self.width);
        let masks = self.masks.chunks_exact(self.width);
        let rows = move |bytes: &[u8]| bytes.len() / self.width;
        let pairs = bytes.zip(masks).enumerate();
        pairs.map(move |(k, (bytes, masks))| (k * GROUP, rows(bytes), bytes, masks))
    }

    /// Returns the channels: (first column, columns, shift, products).
    fn channels(self) -> impl Iterator<Item = (usize, usize, f32, &'a [f32; 256])> {
        let plane = self.width / self.scaling.channels.len();
        let pairs = self.scaling.channels.iter().zip(self.products).enumerate();
        pairs.map(move |(k, ((_, shift), products))| (k * plane, plane, *shift, products))
    }
}

/// Splits the vectors of a row of W into chunks (first, vectors) of nearly equal size that fit
/// into registers.
pub(super) fn chunks(vectors: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = vectors.div_ceil(max);
    (0..count).map(move |k| {
        let first = k * vectors / count;
        (first, (k + 1) * vectors / count - first)
    })
}

/// Calls `$f::<S, V>` for V vectors, a chunk of a [`WIDE`] layer: 4 to 13 of the widest vectors, 3 to
/// 5 of others. No other number is compiled.
macro_rules! by_vectors {
    ($vectors:expr, $f:ident::<$s:ident>($($arg:expr),* $(,)?)) => {
        if const { $s::F32_LANES >= 16 } {
            match $vectors {
                4 => $f::<$s, 4>($($arg),*),
                5 => $f::<$s, 5>($($arg),*),
                6 => $f::<$s, 6>($($arg),*),
                7 => $f::<$s, 7>($($arg),*),
                8 => $f::<$s, 8>($($arg),*),
                9 => $f::<$s, 9>($($arg),*),
                10 => $f::<$s, 10>($($arg),*),
                11 => $f::<$s, 11>($($arg),*),
                12 => $f::<$s, 12>($($arg),*),
                13 => $f::<$s, 13>($($arg),*),
                other => unreachable!("{other} vectors"),
            }
        } else {
            match $vectors {
                3 => $f::<$s, 3>($($arg),*),
                4 => $f::<$s, 4>($($arg),*),
                5 => $f::<$s, 5>($($arg),*),
                other => unreachable!("{other} vectors"),
            }
        }
    };
}
pub(super) use by_vectors;

/// The largest number of vectors in registers: two rows of W, or one of sums, and some room.
pub(super) const fn max_vectors<S: Simd>() -> usize {
    if S::F32_LANES >= 16 { 13 } else { 5 }
}

/// Computes y[r] ← b + shift·Σⱼ W[j] + Σⱼ byte[r, j]·scale·W[j].
pub(super) struct Forward<'a> {
    pub(super) sparse: Sparse<'a>,
    /// W, then b.
    pub(super) layer: Point<'a>,
    pub(super) y: &'a mut Vec<f32>,
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            sparse,
            layer,
            y,
            scratch,
        } = self;
        let width = sparse.width;
        let n = sparse.bytes.len() / width;
        let outputs = layer.count() / (width + 1);
        let vectors = outputs.div_ceil(S::F32_LANES);
        let padded = vectors * S::F32_LANES;
        assert!(layer.count() == (width + 1) * outputs && outputs >= WIDE);
        // After the batch's rows, one row for the common part.
        let start = aligned(scratch, (n + 1) * padded);
        let sums = &mut scratch[start..start + (n + 1) * padded];
        let (rows, common) = sums.split_at_mut(n * padded);
        for (first, vectors) in chunks(vectors, max_vectors::<S>()) {
            for (row, count, bytes, masks) in sparse.groups() {
                let rows = &mut rows[row * padded..][..count * padded];
                let common = (row == 0).then_some(&mut *common);
                let sums = (rows, common, padded, first * S::F32_LANES);
                let group = (bytes, masks);
                match layer {
                    Point::At(at) => {
                        let weight = At(at.as_ptr());
                        by_vectors!(
                            vectors,
                            forward::<S>(simd, sparse, group, weight, outputs, sums)
                        );
                    }
                    Point::Mixture { alpha, v, w } => {
                        let weight = Mixed::of(simd, alpha, v, w);
                        by_vectors!(
                            vectors,
                            forward::<S>(simd, sparse, group, weight, outputs, sums)
                        );
                    }
                }
            }
        }
        for (o, common) in common[..outputs].iter_mut().enumerate() {
            *common += layer.get(width * outputs + o);
        }
        y.resize(n * outputs, 0.0);
        for (y, row) in y.chunks_exact_mut(outputs).zip(rows.chunks_exact(padded)) {
            for ((y, row), common) in y.iter_mut().zip(row).zip(&*common) {
                *y = row + common;
            }
        }
    }
}

/// Computes one group of rows, `V` vectors of outputs from `first` on. Adds the common part if
/// there is a row for it.
#[inline(always)]
fn forward<S: Simd, const V: usize>(
    simd: S,
    sparse: Sparse<'_>,
    (bytes, masks): (&[u8], &[u32]),
    weight: impl Weight<S>,
    outputs: usize,
    (rows, common, padded, first): (&mut [f32], Option<&mut [f32]>, usize, usize),
) {
    let width = sparse.width;
    let n = bytes.len() / width;
    assert!(rows.len() == n * padded && masks.len() == width && n <= GROUP);
    assert!(first + V * S::F32_LANES <= padded);
    let common = match common {
        Some(common) => {
            assert!(common.len() == padded);
            common.as_mut_ptr()
        }
        None => std::ptr::null_mut(),
    };
    let all = u32::MAX >> (GROUP - n);
    let rows = rows.as_mut_ptr();
    for (start, plane, shift, products) in sparse.channels() {
        let shift = simd.splat_f32s(shift);
        // Two columns at a time, whose sums are then loaded and stored once.
        for j in (start..start + plane).step_by(2) {
            let two = j + 1 < start + plane;
            let next = if two { j + 1 } else { j };
            // SAFETY: the columns are less than width, so a vector at any of W's rows ends
            // at most padded − outputs ≤ outputs past W, where b is; rows of bytes and
            // sums are below n, as the masks are cut to n bits.
            unsafe {
                let mut one = [simd.splat_f32s(0.0); V];
                let mut other = [simd.splat_f32s(0.0); V];
                for v in 0..V {
                    one[v] = weight.load(simd, j * outputs + first + v * S::F32_LANES);
                }
                if two {
                    for v in 0..V {
                        other[v] = weight.load(simd, next * outputs + first + v * S::F32_LANES);
                    }
                }
                if !common.is_null() {
                    add_two(simd, (shift, one), (shift, other), common.add(first));
                }
                let mut mask = (masks[j] | masks[next]) & all;
                while mask != 0 {
                    let r = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let x = products[*bytes.get_unchecked(r * width + j) as usize];
                    let z = products[*bytes.get_unchecked(r * width + next) as usize];
                    let (x, z) = (simd.splat_f32s(x), simd.splat_f32s(z));
                    add_two(simd, (x, one), (z, other), rows.add(r * padded + first));
                }
            }
        }
    }
}

/// Computes y ← y + x·one + z·other.
///
/// # Safety
/// `y` may be read and written for `V` vectors.
#[inline(always)]
unsafe fn add_two<S: Simd, const V: usize>(
    simd: S,
    (x, one): (S::f32s, [S::f32s; V]),
    (z, other): (S::f32s, [S::f32s; V]),
    y: *mut f32,
) {
    for v in 0..V {
        // SAFETY: as the caller promises.
        unsafe {
            let y = y.add(v * S::F32_LANES) as *mut S::f32s;
            let sum = simd.mul_add_e_f32s(x, one[v], y.read_unaligned());
            y.write_unaligned(simd.mul_add_e_f32s(z, other[v], sum));
        }
    }
}

/// Computes W[j] ← W[j] − decay·W_at[j] + scale·(shift·Σᵣ δ[r] + Σᵣ byte[r, j]·scaleⱼ·δ[r]).
pub(super) struct Update<'a> {
    pub(super) sparse: Sparse<'a>,
    /// The point from which W and b decay.
    pub(super) place: Place<'a>,
    /// W and b.
    pub(super) into: &'a mut [f32],
    pub(super) step: Step,
    pub(super) delta: &'a [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            sparse,
            place,
            into,
            step,
            delta,
            scratch,
        } = self;
        let width = sparse.width;
        let n = sparse.bytes.len() / width;
        let outputs = into.len() / (width + 1);
        let vectors = outputs.div_ceil(S::F32_LANES);
        let padded = vectors * S::F32_LANES;
        assert!(into.len() == (width + 1) * outputs && outputs >= WIDE);
        assert!(delta.len() == n * outputs);
        assert!(place.other_len().is_none_or(|len| len == into.len()));
        let (scaled, total) = pad_and_sum(scratch, delta, (outputs, padded), step.scale);
        for (row, count, bytes, masks) in sparse.groups() {
            // The common part and the decay are added once.
            let total = if row == 0 { total } else { &[] };
            let decay = if row == 0 { step.decay } else { 0.0 };
            let scaled = &scaled[row * padded..][..count * padded];
            for (first, vectors) in chunks(vectors, max_vectors::<S>()) {
                let first = first * S::F32_LANES;
                let decay = Decay::new(simd, decay, place);
                let group = (bytes, masks);
                let delta = (scaled, total, padded, first);
                by_vectors!(
                    vectors,
                    update::<S>(simd, sparse, group, delta, (into, outputs), decay)
                );
            }
        }
    }
}

/// Decay of W by a factor of share·W + rest·at, or of W if `at` is null.
#[derive(Clone, Copy)]
pub(super) struct Decay<S: Simd> {
    factor: Option<S::f32s>,
    share: S::f32s,
    rest: S::f32s,
    at: *const f32,
}

/// Updates by one group of rows, `V` vectors of outputs from `first` on. The last vector of a row
/// of W ends where the row ends.
#[inline(always)]
fn update<S: Simd, const V: usize>(
    simd: S,
    sparse: Sparse<'_>,
    (bytes, masks): (&[u8], &[u32]),
    (delta, total, padded, first): (&[f32], &[f32], usize, usize),
    (into, outputs): (&mut [f32], usize),
    decay: Decay<S>,
) {
    let width = sparse.width;
    let n = bytes.len() / width;
    let lanes = S::F32_LANES;
    assert!(delta.len() == n * padded && masks.len() == width && n <= GROUP);
    assert!(V > 1 && outputs >= first + (V - 1) * lanes && outputs >= 2 * lanes);
    assert!(padded >= outputs && (total.is_empty() || total.len() == padded));
    assert!(into.len() == (width + 1) * outputs);
    let all = u32::MAX >> (GROUP - n);
    let starts: [usize; V] = std::array::from_fn(|v| (first + v * lanes).min(outputs - lanes));
    for (start, plane, shift, products) in sparse.channels() {
        let mut common = [simd.splat_f32s(0.0); V];
        if !total.is_empty() {
            for (start, common) in starts.iter().zip(&mut common) {
                let total = simd.partial_load_f32s(&total[*start..][..lanes]);
                *common = simd.mul_f32s(simd.splat_f32s(shift), total);
            }
        }
        for j in start..start + plane {
            let mut sums = common;
            let mut mask = masks[j] & all;
            let last = starts[V - 1] - first;
            prefetch::<S, V>(into.as_ptr().wrapping_add((j + AHEAD) * outputs + first));
            // SAFETY: rows of bytes and δ are below n, as the masks are cut to n bits;
            // j is below width and no vector ends past `outputs` within its row, so
            // all lie within W and δ; `at` is null or as long as W.
            unsafe {
                while mask != 0 {
                    let r = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let x = products[*bytes.get_unchecked(r * width + j) as usize];
                    let x = simd.splat_f32s(x);
                    let delta = delta.as_ptr().add(r * padded + first);
                    for v in 0..V {
                        let at = if v + 1 < V { v * lanes } else { last };
                        let delta = (delta.add(at) as *const S::f32s).read_unaligned();
                        sums[v] = simd.mul_add_e_f32s(x, delta, sums[v]);
                    }
                }
                let row = into.as_mut_ptr().add(j * outputs + first);
                move_row(simd, row, last, decay.skip(j * outputs + first), sums);
            }
        }
    }
}

impl<S: Simd> Decay<S> {
    /// Creates a decay by `factor` at a place.
    #[inline(always)]
    pub(super) fn new(simd: S, factor: f32, place: Place<'_>) -> Self {
        let (share, at) = match place {
            Place::Here => (1.0, None),
            Place::There(at) => (0.0, Some(at)),
            Place::Mixed(alpha, w) => (alpha, Some(w)),
        };
        Self {
            factor: (factor != 0.0).then(|| simd.splat_f32s(factor)),
            share: simd.splat_f32s(share),
            rest: simd.splat_f32s(1.0 - share),
            at: at.map_or(std::ptr::null(), <[f32]>::as_ptr),
        }
    }

    /// Skips the first `count` numbers.
    #[inline(always)]
    pub(super) fn skip(self, count: usize) -> Self {
        if self.at.is_null() {
            self
        } else {
            Self {
                at: self.at.wrapping_add(count),
                ..self
            }
        }
    }
}

/// Computes row ← row − decay·row_at + sums, with the last vector at `last`. It may overlap the one
/// before, with equal results, as everything is read before anything is written.
///
/// # Safety
/// `V` vectors may be read and written at `row`, the last one at `last`, and be read at the
/// decay's place, unless it is null.
#[inline(always)]
pub(super) unsafe fn move_row<S: Simd, const V: usize>(
    simd: S,
    row: *mut f32,
    last: usize,
    decay: Decay<S>,
    mut sums: [S::f32s; V],
) {
    for v in 0..V {
        let at = if v + 1 < V { v * S::F32_LANES } else { last };
        // SAFETY: as the caller promises.
        unsafe {
            let old = (row.add(at) as *const S::f32s).read_unaligned();
            let mut new = old;
            if let Some(factor) = decay.factor {
                let point = if decay.at.is_null() {
                    old
                } else {
                    let at = (decay.at.add(at) as *const S::f32s).read_unaligned();
                    let own = simd.mul_f32s(decay.share, old);
                    simd.add_f32s(own, simd.mul_f32s(decay.rest, at))
                };
                new = simd.negate_mul_add_e_f32s(factor, point, old);
            }
            sums[v] = simd.add_f32s(new, sums[v]);
        }
    }
    for v in 0..V {
        let at = if v + 1 < V { v * S::F32_LANES } else { last };
        // SAFETY: as the caller promises.
        unsafe { (row.add(at) as *mut S::f32s).write_unaligned(sums[v]) };
    }
}
