//! Joint passes of a narrow layer at w and at the mixture αv + (1−α)w, as in every step of APFL:
//! a number of the batch is loaded once for both products, and w is read once. The sums have the
//! arithmetic of separate passes, so the bits are the same.
//!
//! They use vectors of sixteen numbers, which hold a row of such a layer.

use std::arch::x86_64::*;

use super::dense::NARROW;

mod add;
mod update;

pub(super) use add::{Points, add_both};
pub(super) use update::UpdateBoth;

const LANES: usize = 16;

/// Returns whether joint passes are available for this number of outputs.
pub(super) fn is_supported(outputs: usize) -> bool {
    (NARROW..=LANES).contains(&outputs) && is_x86_feature_detected!("avx512f")
}

/// Returns αv + (1−α)w, to the same bits as [`crate::params::mix`].
#[inline]
#[target_feature(enable = "avx512f")]
fn mixed(alpha: f32, v: __m512, w: __m512) -> __m512 {
    let own = _mm512_mul_ps(_mm512_set1_ps(alpha), v);
    _mm512_add_ps(own, _mm512_mul_ps(_mm512_set1_ps(1.0 - alpha), w))
}

/// Returns the mask of a row's lanes.
#[inline]
fn row_lanes(outputs: usize) -> u16 {
    u16::MAX >> (LANES - outputs)
}
