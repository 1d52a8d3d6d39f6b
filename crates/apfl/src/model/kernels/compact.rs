//! Bytes to numbers, without the columns that a batch holds constant.

use pulp::{Arch, Simd, WithSimd};

use super::rows::{Block, Columns};
use crate::data::Scaling;

/// Splits the columns of byte rows into those that vary and those that do not, and turns
/// both into numbers: byte·scale + shift.
pub fn compact(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
    assert!(width > 0 && bytes.len().is_multiple_of(width) && !bytes.is_empty());
    assert!(!scaling.channels.is_empty() && width.is_multiple_of(scaling.channels.len()));
    to.differs.clear();
    to.differs.resize(width, 0);
    let varied = Arch::new().dispatch(Differences {
        bytes,
        width,
        differs: &mut to.differs,
    });
    let rows = bytes.len() / width;
    // A vector's worth of room, for whoever writes whole vectors.
    to.x.resize(rows * varied + WIDEST, 0.0);
    to.varied.resize(varied + WIDEST, 0);
    to.constants.resize(width - varied + WIDEST, 0.0);
    to.constant.resize(width - varied + WIDEST, 0);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
    {
        // SAFETY: the CPU has these features; the buffers are as large as is asked for.
        unsafe { avx512::split(bytes, width, scaling, to) };
        return trim(to, rows, varied, width);
    }
    split(bytes, width, scaling, to, varied);
    trim(to, rows, varied, width);
}

const WIDEST: usize = 16;

/// Per column, the bits in which some row differs from the first. Gives how many columns
/// have any. Not a closure, which would be compiled for the narrowest vectors where it is
/// not inlined.
struct Differences<'a> {
    bytes: &'a [u8],
    width: usize,
    differs: &'a mut [u8],
}

impl WithSimd for Differences<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        const TOGETHER: usize = 128;
        let (width, differs) = (self.width, self.differs);
        let (first, rows) = self.bytes.split_at(width);
        for start in (0..width).step_by(TOGETHER) {
            let end = width.min(start + TOGETHER);
            let (differs, first) = (&mut differs[start..end], &first[start..end]);
            for row in rows.chunks_exact(width) {
                for ((differs, byte), first) in differs.iter_mut().zip(&row[start..end]).zip(first)
                {
                    *differs |= byte ^ first;
                }
            }
        }
        let varies = differs.iter().map(|differs| u32::from(*differs != 0));
        varies.sum::<u32>() as usize
    }
}

fn trim(to: &mut Columns, rows: usize, varied: usize, width: usize) {
    to.x.truncate(rows * varied);
    to.varied.truncate(varied);
    to.constants.truncate(width - varied);
    to.constant.truncate(width - varied);
}

fn split(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns, varied: usize) {
    let plane = width / scaling.channels.len();
    let (mut v, mut c) = (0, 0);
    for j in 0..width {
        let (scale, shift) = scaling.channels[j / plane];
        if to.differs[j] == 0 {
            to.constant[c] = j as u32;
            to.constants[c] = f32::from(bytes[j]) * scale + shift;
            c += 1;
        } else {
            to.varied[v] = j as u32;
            v += 1;
        }
    }
    for (r, row) in bytes.chunks_exact(width).enumerate() {
        let x = &mut to.x[r * varied..(r + 1) * varied];
        for (x, &j) in x.iter_mut().zip(&to.varied) {
            let (scale, shift) = scaling.channels[j as usize / plane];
            *x = f32::from(row[j as usize]) * scale + shift;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{Block, Columns, Scaling, WIDEST};

    /// As [`super::split`], sixteen columns at a time.
    ///
    /// # Safety
    /// `to.differs` has `width` entries; the other buffers have room for what comes in,
    /// and for one more vector.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn split(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
        let plane = width / scaling.channels.len();
        let varies = to.varied.len() - WIDEST;
        let (mut v, mut c) = (0, 0);
        to.blocks.clear();
        for (channel, &(scale, shift)) in scaling.channels.iter().enumerate() {
            for start in (channel * plane..(channel + 1) * plane).step_by(16) {
                let lanes = lanes((channel + 1) * plane - start);
                // SAFETY: masked to the columns that exist; v and c never exceed the
                // columns of their kind, and a vector more is there to be written.
                unsafe {
                    let differs = load(to.differs.as_ptr().add(start), lanes);
                    let varied = _mm_test_epi8_mask(differs, differs);
                    let constant = lanes & !varied;
                    let numbers =
                        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
                    let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(start as i32));
                    let x = scaled(load(bytes.as_ptr().add(start), lanes), scale, shift);
                    let at = to.varied.as_mut_ptr().add(v).cast();
                    _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(varied, numbers));
                    let at = to.constant.as_mut_ptr().add(c).cast();
                    _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(constant, numbers));
                    let at = to.constants.as_mut_ptr().add(c);
                    _mm512_storeu_ps(at, _mm512_maskz_compress_ps(constant, x));
                    if varied != 0 {
                        to.blocks.push(Block {
                            start,
                            at: v,
                            varied,
                            channel,
                        });
                    }
                    v += varied.count_ones() as usize;
                    c += constant.count_ones() as usize;
                }
            }
        }
        if is_x86_feature_detected!("avx512vbmi2") {
            // SAFETY: the CPU has these features.
            return unsafe { squeeze(bytes, width, scaling, to) };
        }
        for (r, row) in bytes.chunks_exact(width).enumerate() {
            for block in &to.blocks {
                let (scale, shift) = scaling.channels[block.channel];
                // SAFETY: masked to columns that exist; this row's numbers start at
                // r·varies, the next block or row mends what is written too far, and
                // behind the last one is room for a vector.
                unsafe {
                    let x = load(row.as_ptr().add(block.start), block.varied);
                    let x = _mm512_maskz_compress_ps(block.varied, scaled(x, scale, shift));
                    _mm512_storeu_ps(to.x.as_mut_ptr().add(r * varies + block.at), x);
                }
            }
        }
    }

    /// Fills `to.x`: every row's bytes are drawn together 64 at a time, then turned into
    /// numbers.
    ///
    /// # Safety
    /// As for [`split`], after it has found the columns.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2")]
    unsafe fn squeeze(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
        let varies = to.varied.len() - WIDEST;
        let plane = width / scaling.channels.len();
        let Columns {
            x,
            varied,
            differs,
            squeezing: (masks, ends, together),
            ..
        } = to;
        masks.clear();
        masks.extend((0..width).step_by(64).map(|start| {
            // SAFETY: masked to the columns that exist.
            unsafe {
                let at = differs.as_ptr().add(start).cast();
                let differs = _mm512_maskz_loadu_epi8(lanes64(width - start), at);
                _mm512_test_epi8_mask(differs, differs)
            }
        }));
        // Where each channel's columns end among those that vary.
        let columns = &varied[..varies];
        ends.clear();
        let channels = 1..=scaling.channels.len();
        ends.extend(channels.map(|k| columns.partition_point(|j| (*j as usize) < k * plane)));
        // A vector of room behind the bytes of a row.
        together.resize(varies + 64, 0);
        for (r, row) in bytes.chunks_exact(width).enumerate() {
            let mut at = 0;
            for (k, &mask) in masks.iter().enumerate() {
                // SAFETY: masked to columns that exist; at most `varies` bytes came
                // before, and 64 more may be written.
                unsafe {
                    let bytes = _mm512_maskz_loadu_epi8(mask, row.as_ptr().add(64 * k).cast());
                    let bytes = _mm512_maskz_compress_epi8(mask, bytes);
                    _mm512_storeu_epi8(together.as_mut_ptr().add(at).cast(), bytes);
                }
                at += mask.count_ones() as usize;
            }
            let mut start = 0;
            for (&end, &(scale, shift)) in ends.iter().zip(&scaling.channels) {
                for k in (start..end).step_by(16) {
                    // SAFETY: k < varies: 16 bytes may be read there, and 16 numbers
                    // be written: the next channel or row mends what is too far, and
                    // behind the last one is room for a vector.
                    unsafe {
                        let bytes = _mm_loadu_si128(together.as_ptr().add(k).cast());
                        let at = x.as_mut_ptr().add(r * varies + k);
                        _mm512_storeu_ps(at, scaled(bytes, scale, shift));
                    }
                }
                start = end;
            }
        }
    }

    /// The mask of the first `count` lanes, at most 64.
    fn lanes64(count: usize) -> u64 {
        u64::MAX >> (64 - count.min(64))
    }

    /// The mask of the first `count` lanes, at most sixteen.
    fn lanes(count: usize) -> u16 {
        ((1u32 << count.min(16)) - 1) as u16
    }

    /// # Safety
    /// The bytes of the mask's lanes can be read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(bytes: *const u8, lanes: u16) -> __m128i {
        // SAFETY: as the caller promises.
        unsafe { _mm_maskz_loadu_epi8(lanes, bytes.cast()) }
    }

    /// byte·scale + shift, rounded twice as in plain arithmetic.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn scaled(bytes: __m128i, scale: f32, shift: f32) -> __m512 {
        let x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
        let x = _mm512_mul_ps(x, _mm512_set1_ps(scale));
        _mm512_add_ps(x, _mm512_set1_ps(shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_told_apart_and_scaled() {
        let scaling = Scaling {
            channels: vec![(0.5, -1.0), (2.0, 0.0)],
        };
        // Two rows of two channels with three pixels each; pixels 1, 2 and 5 vary.
        let bytes = [4, 6, 0, 1, 0, 3, 4, 8, 2, 1, 0, 9];
        let mut columns = Columns::default();
        for _ in 0..2 {
            compact(&bytes, 6, &scaling, &mut columns);
            assert_eq!(columns.varied, [1, 2, 5]);
            assert_eq!(columns.constant, [0, 3, 4]);
            assert_eq!(columns.x, [2.0, -1.0, 6.0, 3.0, 0.0, 18.0]);
            assert_eq!(columns.constants, [1.0, 2.0, 0.0]);
        }
    }

    #[test]
    fn vectors_do_what_the_plain_loop_does() {
        let scaling = Scaling {
            channels: vec![(0.1, -0.3), (0.2, 0.7), (0.3, 0.0)],
        };
        for (rows, plane) in [(1, 1), (3, 16), (4, 17), (7, 50)] {
            let width = 3 * plane;
            let byte = |k: usize| match k * 7919 % 5 {
                0 | 1 => (k * 31 % 256) as u8,
                _ => 0,
            };
            let bytes: Vec<u8> = (0..rows * width).map(byte).collect();
            let (mut one, mut two) = (Columns::default(), Columns::default());
            compact(&bytes, width, &scaling, &mut one);
            two.differs = one.differs.clone();
            two.blocks = one.blocks.clone();
            two.squeezing = one.squeezing.clone();
            let varied = one.varied.len();
            two.x.resize(rows * varied, 0.0);
            two.varied.resize(varied, 0);
            two.constants.resize(width - varied, 0.0);
            two.constant.resize(width - varied, 0);
            split(&bytes, width, &scaling, &mut two, varied);
            assert_eq!(one, two);
            assert!(one.varied.len() < width || rows == 1);
        }
    }
}
