//! The backward passes over the positive maxima: patches for the filters' derivative, filters for
//! the images' derivative.

use pulp::{Simd, WithSimd};

use super::{Conv, ConvSpace};

/// Vectors of a filter row that are held in registers at a time.
const CHUNK: usize = 10;

/// The largest number of floats that stay in the first-level cache when read repeatedly.
const CACHED_FLOATS: usize = 6 << 10;

/// Calls `$f::<S, R, C>` for C vectors of R filter rows at a time. Rows of a single vector are
/// processed five at a time, to have enough independent sums.
macro_rules! by_vectors {
    ($rows:expr, $vectors:expr, $f:ident::<$s:ident>($($arg:expr),* $(,)?)) => {
        match ($rows, $vectors) {
            (5, 1) => $f::<$s, 5, 1>($($arg),*),
            (_, 1) => $f::<$s, 1, 1>($($arg),*),
            (_, 2) => $f::<$s, 1, 2>($($arg),*),
            (_, 3) => $f::<$s, 1, 3>($($arg),*),
            (_, 4) => $f::<$s, 1, 4>($($arg),*),
            (_, 5) => $f::<$s, 1, 5>($($arg),*),
            (_, 6) => $f::<$s, 1, 6>($($arg),*),
            (_, 7) => $f::<$s, 1, 7>($($arg),*),
            (_, 8) => $f::<$s, 1, 8>($($arg),*),
            (_, 9) => $f::<$s, 1, 9>($($arg),*),
            (_, _) => $f::<$s, 1, CHUNK>($($arg),*),
        }
    };
}

pub(super) struct Accumulate<'a> {
    pub(super) conv: &'a Conv,
    pub(super) into: &'a mut [f32],
    pub(super) scale: f32,
    pub(super) x: &'a [f32],
    pub(super) delta: &'a [f32],
    pub(super) space: &'a mut ConvSpace,
}

impl WithSimd for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            conv,
            into,
            scale,
            x,
            delta,
            space,
        } = self;
        let (outputs, kernel, run) = (conv.outputs, conv.kernel, conv.run());
        let vectors = run.div_ceil(S::F32_LANES);
        let wide = vectors * S::F32_LANES;
        let ConvSpace {
            pooled,
            argmax,
            sums,
            list,
            counts,
            ..
        } = space;
        sums.clear();
        sums.resize(outputs * kernel * wide, 0.0);
        let together = if vectors == 1 && kernel >= 5 { 5 } else { 1 };
        // The positive maxima of an image, filter by filter: (start, δ).
        let places = conv.pooled_height() * conv.pooled_width();
        list.resize(places * outputs, (0, 0.0));
        counts.resize(outputs, 0);
        let (_, bias) = into.split_at_mut(outputs * conv.patch());
        let len = conv.output_len();
        for (n, delta) in delta.chunks_exact(len).enumerate() {
            let image = &x[n * conv.input_len()..];
            let (pooled, argmax) = (&pooled[n * len..][..len], &argmax[n * len..][..len]);
            counts.fill(0);
            let rows = delta
                .chunks_exact(outputs)
                .zip(pooled.chunks_exact(outputs))
                .zip(argmax.chunks_exact(outputs));
            for ((delta, pooled), argmax) in rows {
                let outputs_here = delta.iter().zip(pooled).zip(argmax).zip(&mut *counts);
                for (o, (((d, y), start), count)) in outputs_here.enumerate() {
                    // Written in any case, which avoids a branch.
                    list[o * places + *count as usize] = (*start, *d);
                    *count += u32::from(*y > 0.0);
                }
            }
            for (o, sums) in sums.chunks_exact_mut(kernel * wide).enumerate() {
                let list = &list[o * places..][..counts[o] as usize];
                let total = list.iter().fold(0.0, |total, (_, d)| total + d);
                bias[o] += scale * total;
                let sums = S::as_mut_simd_f32s(sums).0;
                let mut row = 0;
                while row < kernel {
                    let rows = if row + together <= kernel {
                        together
                    } else {
                        1
                    };
                    for first in (0..vectors).step_by(CHUNK) {
                        let image = &image[row * conv.stride() + first * S::F32_LANES..];
                        let sums = &mut sums[row * vectors + first..];
                        by_vectors!(
                            rows,
                            vectors - first,
                            add_patches::<S>(simd, image, conv.stride(), list, sums, vectors)
                        );
                    }
                    row += rows;
                }
            }
        }
        let rows = into.chunks_exact_mut(run).zip(sums.chunks_exact(wide));
        for (into, sums) in rows.take(outputs * kernel) {
            for (w, sum) in into.iter_mut().zip(sums) {
                *w += scale * sum;
            }
        }
    }
}

/// Computes sums[r, c] += Σ δ·image[start + r·stride + c·lanes ..] over the list.
#[inline(always)]
fn add_patches<S: Simd, const R: usize, const C: usize>(
    simd: S,
    image: &[f32],
    stride: usize,
    list: &[(u32, f32)],
    sums: &mut [S::f32s],
    vectors: usize,
) {
    let mut held = [[simd.splat_f32s(0.0); C]; R];
    for r in 0..R {
        for c in 0..C {
            held[r][c] = sums[r * vectors + c];
        }
    }
    for &(start, d) in list {
        let d = simd.splat_f32s(d);
        for (r, held) in held.iter_mut().enumerate() {
            let patch = &image[start as usize + r * stride..][..C * S::F32_LANES];
            let patch = S::as_simd_f32s(patch).0;
            for c in 0..C {
                held[c] = simd.mul_add_e_f32s(d, patch[c], held[c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            sums[r * vectors + c] = held[r][c];
        }
    }
}

pub(super) struct Propagate<'a> {
    pub(super) conv: &'a Conv,
    pub(super) weight: &'a [f32],
    pub(super) delta: &'a [f32],
    pub(super) space: &'a mut ConvSpace,
    pub(super) back: &'a mut [f32],
}

impl WithSimd for Propagate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            conv,
            weight,
            delta,
            space,
            back,
        } = self;
        let (outputs, kernel, run) = (conv.outputs, conv.kernel, conv.run());
        let vectors = run.div_ceil(S::F32_LANES);
        let wide = vectors * S::F32_LANES;
        let ConvSpace {
            pooled,
            argmax,
            packed,
            list,
            counts,
            ..
        } = space;
        // Filter rows, padded with zeros to whole vectors: (k, outputs, wide).
        packed.clear();
        packed.resize(kernel * outputs * wide, 0.0);
        for (k, filter_row) in weight.chunks_exact(run).enumerate() {
            let at = (k % kernel * outputs + k / kernel) * wide;
            packed[at..at + run].copy_from_slice(filter_row);
        }
        let packed = S::as_simd_f32s(packed).0;
        let max_vectors = if outputs * wide > CACHED_FLOATS {
            CHUNK / 2
        } else {
            CHUNK
        };
        // The positive maxima of an image, place by place: (filter, δ).
        let places = conv.height * conv.width;
        list.resize(places * outputs, (0, 0.0));
        counts.resize(places, 0);
        let len = conv.output_len();
        for (n, delta) in delta.chunks_exact(len).enumerate() {
            let (pooled, argmax) = (&pooled[n * len..][..len], &argmax[n * len..][..len]);
            counts.fill(0);
            for (j, ((d, y), start)) in delta.iter().zip(pooled).zip(argmax).enumerate() {
                if *y > 0.0 {
                    let place = *start as usize / conv.inputs;
                    list[place * outputs + counts[place] as usize] = ((j % outputs) as u32, *d);
                    counts[place] += 1;
                }
            }
            let back = &mut back[n * conv.input_len()..];
            let chunks = (0..vectors).step_by(max_vectors);
            for (row, first) in (0..kernel).flat_map(|row| chunks.clone().map(move |k| (row, k))) {
                // One filter row at a time, at most as much as the registers hold.
                let count = max_vectors.min(vectors - first);
                let filters = &packed[row * outputs * vectors + first..];
                for (place, &count_here) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
                    let list = &list[place * outputs..][..count_here as usize];
                    let at = place * conv.inputs + row * conv.stride() + first * S::F32_LANES;
                    by_vectors!(
                        1,
                        count,
                        add_filters::<S>(simd, filters, vectors, list, &mut back[at..])
                    );
                }
            }
        }
    }
}

/// Computes back[c·lanes ..] += Σ δ·filters[filter, c] over the list.
#[inline(always)]
fn add_filters<S: Simd, const R: usize, const C: usize>(
    simd: S,
    filters: &[S::f32s],
    vectors: usize,
    list: &[(u32, f32)],
    back: &mut [f32],
) {
    let mut held = [simd.splat_f32s(0.0); C];
    for &(filter, d) in list {
        let d = simd.splat_f32s(d);
        let filter = &filters[filter as usize * vectors..][..C];
        for c in 0..C {
            held[c] = simd.mul_add_e_f32s(d, filter[c], held[c]);
        }
    }
    let back = S::as_mut_simd_f32s(&mut back[..C * S::F32_LANES]).0;
    for c in 0..C {
        back[c] = simd.add_f32s(back[c], held[c]);
    }
}
