//! Converts bytes to numbers and separates the columns that are constant within a batch.

use pulp::{Arch, Simd, WithSimd};

use super::rows::Columns;
use crate::data::Scaling;

#[cfg(target_arch = "x86_64")]
mod avx512;

/// Splits the columns of byte rows into varying and constant ones, and converts both to numbers:
/// byte·scale + shift.
pub fn compact(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
    assert!(width > 0 && bytes.len().is_multiple_of(width) && !bytes.is_empty());
    assert!(!scaling.channels.is_empty() && width.is_multiple_of(scaling.channels.len()));
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the CPU has these features; there is a row, all are whole, and so are the
        // channels.
        return unsafe { avx512::split(bytes, width, scaling, to) };
    }
    plain(bytes, width, scaling, to);
}

/// Does [`compact`] on any CPU.
fn plain(bytes: &[u8], width: usize, scaling: &Scaling, to: &mut Columns) {
    to.differs.clear();
    to.differs.resize(width, 0);
    let varied = Arch::new().dispatch(Differences {
        bytes,
        width,
        differs: &mut to.differs,
    });
    let rows = bytes.len() / width;
    to.x.resize(rows * varied, 0.0);
    to.varied.resize(varied, 0);
    to.constants.resize(width - varied, 0.0);
    to.constant.resize(width - varied, 0);
    split(bytes, width, scaling, to, varied);
}

/// Computes per column the bits in which some row differs from the first. Returns the number of
/// columns with any. Not a closure, which, if not inlined, would be compiled for the narrowest
/// vectors.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_split_and_scaled() {
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
    fn vectors_agree_with_the_plain_loop() {
        let scaling = Scaling {
            channels: vec![(0.1, -0.3), (0.2, 0.7), (0.3, 0.0)],
        };
        for (rows, plane) in [(1, 1), (3, 16), (4, 17), (7, 50), (2, 131)] {
            let width = 3 * plane;
            let byte = |k: usize| match k * 7919 % 5 {
                0 | 1 => (k * 31 % 256) as u8,
                _ => 0,
            };
            let bytes: Vec<u8> = (0..rows * width).map(byte).collect();
            let (mut one, mut two) = (Columns::default(), Columns::default());
            compact(&bytes, width, &scaling, &mut one);
            plain(&bytes, width, &scaling, &mut two);
            assert_eq!(one.x, two.x);
            assert_eq!((&one.varied, &one.constant), (&two.varied, &two.constant));
            assert_eq!(one.constants, two.constants);
            assert!(one.varied.len() < width || rows == 1);
        }
    }
}
