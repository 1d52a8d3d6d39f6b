//! [`compact`](super::compact) with AVX-512, up to 64 columns at a time.

use std::arch::x86_64::*;

use super::super::rows::Columns;
use crate::data::Scaling;

/// Room for one vector, because whole vectors are written.
const ROOM: usize = 16;

/// Does [`super::plain`] with vectors.
///
/// # Safety
/// The CPU has these features; there is at least one row, all are `width` long, and the channels
/// are equal parts of it.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) unsafe fn split(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
    // SAFETY: as the caller promises.
    unsafe { find(bytes, width, &mut to.masks) };
    let varies: usize = to.masks.iter().map(|mask| mask.count_ones() as usize).sum();
    let rows = bytes.len() / width;
    to.x.resize(rows * varies + ROOM, 0.0);
    to.varied.resize(varies + ROOM, 0);
    to.constants.resize(width - varies + ROOM, 0.0);
    to.constant.resize(width - varies + ROOM, 0);
    let plane = width / scaling.channels.len();
    let (mut v, mut c) = (0, 0);
    for (channel, &(scale, shift)) in scaling.channels.iter().enumerate() {
        for start in (channel * plane..(channel + 1) * plane).step_by(16) {
            let lanes = lanes((channel + 1) * plane - start) as u16;
            let varied = bits(&to.masks, start) & lanes;
            let constant = lanes & !varied;
            // SAFETY: masked to the columns that exist; v and c never exceed the columns of
            // their kind, and a vector more is there to be written.
            unsafe {
                let numbers =
                    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
                let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(start as i32));
                let at = to.varied.as_mut_ptr().add(v).cast();
                _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(varied, numbers));
                let at = to.constant.as_mut_ptr().add(c).cast();
                _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(constant, numbers));
                let first = _mm_maskz_loadu_epi8(lanes, bytes.as_ptr().add(start).cast());
                let first = scaled(first, scale, shift);
                let at = to.constants.as_mut_ptr().add(c);
                _mm512_storeu_ps(at, _mm512_maskz_compress_ps(constant, first));
            }
            v += varied.count_ones() as usize;
            c += constant.count_ones() as usize;
        }
    }
    // The end of each channel among the varying columns.
    let columns = &to.varied[..varies];
    let channels = 1..=scaling.channels.len();
    let ends = channels.map(|k| columns.partition_point(|j| (*j as usize) < k * plane));
    to.ends.clear();
    to.ends.extend(ends);
    // Room for a vector after the last row.
    to.varied_bytes.resize(rows * varies + 64, 0);
    if is_x86_feature_detected!("avx512vbmi2") {
        // SAFETY: the CPU has it; masks and room are as required.
        unsafe { gather_varied(bytes, width, &to.masks, &mut to.varied_bytes) };
    } else {
        let mut at = 0;
        for row in bytes.chunks_exact(width) {
            for &j in columns {
                to.varied_bytes[at] = row[j as usize];
                at += 1;
            }
        }
    }
    for row in 0..rows {
        let mut start = 0;
        for (&end, &(scale, shift)) in to.ends.iter().zip(&scaling.channels) {
            for k in (row * varies + start..row * varies + end).step_by(16) {
                // SAFETY: k is below rows·varies: 16 bytes may be read there, and 16 numbers be
                // written: the next channel or row overwrites the excess, and there is room for a
                // vector after the last one.
                unsafe {
                    let bytes = _mm_loadu_si128(to.varied_bytes.as_ptr().add(k).cast());
                    _mm512_storeu_ps(to.x.as_mut_ptr().add(k), scaled(bytes, scale, shift));
                }
            }
            start = end;
        }
    }
    to.x.truncate(rows * varies);
    to.varied.truncate(varies);
    to.constants.truncate(width - varies);
    to.constant.truncate(width - varies);
}

/// Computes a bit per column: whether some row differs from the first.
///
/// # Safety
/// As for [`split`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn find(bytes: &[u8], width: usize, masks: &mut Vec<u64>) {
    let (first, rows) = bytes.split_at(width);
    masks.clear();
    for start in (0..width).step_by(64) {
        let lanes = lanes(width - start);
        // SAFETY: masked to the columns that exist.
        let load =
            |row: &[u8]| unsafe { _mm512_maskz_loadu_epi8(lanes, row.as_ptr().add(start).cast()) };
        let first = load(first);
        let mut differs = _mm512_setzero_si512();
        for row in rows.chunks_exact(width) {
            differs = _mm512_or_si512(differs, _mm512_xor_si512(load(row), first));
        }
        masks.push(_mm512_test_epi8_mask(differs, differs));
    }
}

/// Gathers the bytes of the masks' columns, row by row without gaps. All are gathered before any
/// becomes a number: a load that waits for stores that cover it in parts is slow.
///
/// # Safety
/// The CPU has these features. Rows are whole, the masks belong to columns of `width`;
/// `varied_bytes` has room for the masks' columns of all rows and 64 bytes more.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn gather_varied(bytes: &[u8], width: usize, masks: &[u64], varied_bytes: &mut [u8]) {
    let mut at = varied_bytes.as_mut_ptr();
    for row in bytes.chunks_exact(width) {
        for (k, &mask) in masks.iter().enumerate() {
            // SAFETY: masked to columns that exist; all bytes before this one had room, and
            // 64 more may be written.
            unsafe {
                let bytes = _mm512_maskz_loadu_epi8(mask, row.as_ptr().add(64 * k).cast());
                _mm512_storeu_epi8(at.cast(), _mm512_maskz_compress_epi8(mask, bytes));
                at = at.add(mask.count_ones() as usize);
            }
        }
    }
}

/// Returns the mask of the first `count` lanes, at most 64.
fn lanes(count: usize) -> u64 {
    u64::MAX >> (64 - count.min(64))
}

/// Returns sixteen bits from `start` on; bits after the last are 0.
fn bits(masks: &[u64], start: usize) -> u16 {
    let (word, bit) = (start / 64, start % 64);
    let next = masks.get(word + 1).map_or(0, |next| *next);
    ((u128::from(next) << 64 | u128::from(masks[word])) >> bit) as u16
}

/// Returns byte·scale + shift, rounded twice as in plain arithmetic.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn scaled(bytes: __m128i, scale: f32, shift: f32) -> __m512 {
    let x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
    let x = _mm512_mul_ps(x, _mm512_set1_ps(scale));
    _mm512_add_ps(x, _mm512_set1_ps(shift))
}
