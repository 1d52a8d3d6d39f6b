//! A narrow layer's passes at w and at the mixture αv + (1−α)w together, as every step of
//! APFL takes them: a number of the batch is loaded once for both products, and w is read
//! once. Sum by sum the arithmetic of one pass after the other, so the same bits.
//!
//! For vectors of sixteen numbers, which hold a row of such a layer.

use std::arch::x86_64::*;

use super::dense::NARROW;

mod add;
mod update;

pub(super) use add::{Points, add_both};
pub(super) use update::UpdateBoth;

const LANES: usize = 16;

/// Whether there is a way to do both at once for so many outputs.
pub(super) fn fits(outputs: usize) -> bool {
    (NARROW..=LANES).contains(&outputs) && is_x86_feature_detected!("avx512f")
}

/// αv + (1−α)w, to the same bits as [`crate::params::mix`].
#[inline]
#[target_feature(enable = "avx512f")]
fn mixed(alpha: f32, v: __m512, w: __m512) -> __m512 {
    let own = _mm512_mul_ps(_mm512_set1_ps(alpha), v);
    _mm512_add_ps(own, _mm512_mul_ps(_mm512_set1_ps(1.0 - alpha), w))
}

/// The lanes of a row.
#[inline]
fn within(outputs: usize) -> u16 {
    u16::MAX >> (LANES - outputs)
}
