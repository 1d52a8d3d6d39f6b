//! Peak floating-point rate of this core, to compare benchmarks with.

use std::hint::black_box;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

/// Independent sums, enough to keep two units busy over the latency of one addition.
const SUMS: usize = 20;

/// Computes a·b + c `count` times in every lane of every sum.
struct MultiplyAdd {
    count: u64,
}

impl WithSimd for MultiplyAdd {
    type Output = u64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> u64 {
        let a = black_box(simd.splat_f32s(0.999));
        let b = black_box(simd.splat_f32s(0.001));
        let mut sums = [simd.splat_f32s(1.0); SUMS];
        for _ in 0..self.count {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, a, b);
            }
        }
        black_box(sums);
        2 * self.count * (SUMS * S::F32_LANES) as u64
    }
}

/// Measures the peak f32 operations per second of this thread: the best of several tries within
/// `seconds`.
pub fn peak_flops(seconds: f64) -> f64 {
    let started = Instant::now();
    let mut best = 0.0f64;
    while started.elapsed().as_secs_f64() < seconds {
        let try_started = Instant::now();
        let flops = Arch::new().dispatch(MultiplyAdd { count: 100_000 });
        best = best.max(flops as f64 / try_started.elapsed().as_secs_f64());
    }
    best
}
