//! Convolution by the fast Fourier transform, with a bound on its rounding error.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

/// The unit roundoff: the largest relative error of one operation.
pub(super) const UNIT: f64 = f64::EPSILON / 2.0;

/// The error of one stage of a transform, in units, relative to the 2-norm. Higham (2002,
/// theorem 24.2) has, for log₂ n stages, η = μ + 4u(√2 + μ) each, where μ is the error of the
/// twiddle factors: at most 14u where their angles are computed as (2π/n)·k. That makes 20; stages
/// that are taken two or three together do fewer operations, not more.
const STAGE: f64 = 32.0;

/// Returns the `steps`-fold circular convolution of x, whose length is a power of two, and a bound
/// on the error of any cell. With X the spectrum of x and e = γ√n‖x‖₂, γ = log₂ n · 32u,
///
/// ```text
/// |X̂ₖ − Xₖ| ≤ ‖X̂ − X‖₂ ≤ γ‖X‖₂ = e
/// |X̂ₖᵀ − Xₖᵀ| ≤ (|X̂ₖ| + e)ᵀ − |X̂ₖ|ᵀ                      the binomial theorem
/// |p̂ₛ − pₛ| ≤ (1/n) Σₖ (|X̂ₖᵀ − Xₖᵀ| + power·|X̂ₖ|ᵀ) + γ‖p‖₂
/// ```
///
/// where `power` is the relative error of e^(T ln|X̂|) and T·arg X̂.
pub(super) fn convolved(x: &[f64], steps: u64) -> (Vec<f64>, f64) {
    let n = x.len();
    let t = steps as f64;
    let gamma = STAGE * UNIT * (n as f64).log2().max(1.0);
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let e = gamma * (n as f64).sqrt() * norm * (1.0 + 1e-9);
    // Logarithm and argument are off by 2 units each, of at most |T ln|X̂|| < 750 and πT.
    let power = UNIT * (16.0 * t + 4000.0);

    let mut planner = FftPlanner::new();
    let mut spectrum: Vec<Complex<f64>> = x.iter().map(|x| Complex::new(*x, 0.0)).collect();
    planner.plan_fft_forward(n).process(&mut spectrum);
    let (mut off, mut squares) = (0.0, 0.0);
    for k in 0..=n / 2 {
        let (size, angle) = (spectrum[k].norm(), spectrum[k].arg());
        let length = (t * size.ln()).exp();
        let most = (t * (size + e).ln()).exp();
        // The spectrum of real numbers has all but two cells twice.
        let twice = if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
        // most − length, without the difference: most·(1 − (|X̂|/(|X̂| + e))ᵀ).
        let powered = most * -(-t * (e / size).ln_1p()).exp_m1();
        off += twice * (powered + power * most);
        squares += twice * length * length;
        let value = Complex::from_polar(length, t * angle);
        spectrum[k] = value;
        spectrum[(n - k) % n] = value.conj();
    }
    planner.plan_fft_inverse(n).process(&mut spectrum);
    let scale = n as f64;
    let sum: Vec<f64> = spectrum.iter().map(|p| (p.re / scale).max(0.0)).collect();
    let largest = sum.iter().copied().fold(0.0, f64::max);
    let off = off / scale + (gamma + 4.0 * UNIT) * (squares / scale).sqrt() + UNIT * largest;
    (sum, off * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    /// Against the sum term by term, which is exact to 1e-13 where all are positive.
    #[test]
    fn no_cell_is_off_by_more_than_it_says() {
        let mut rng = crate::rng::stream(7, crate::rng::Purpose::Theory, 0, 0);
        for (n, width, steps) in [(64, 64, 3), (256, 9, 40), (512, 512, 5), (1024, 2, 700)] {
            let mut x = vec![0.0; n];
            x[..width].fill_with(|| rng.random::<f64>());
            let total: f64 = x.iter().sum();
            x.iter_mut().for_each(|x| *x /= total);
            let mut exact = vec![0.0; n];
            exact[0] = 1.0;
            for _ in 0..steps {
                let mut next = vec![0.0; n];
                for (i, a) in exact.iter().enumerate() {
                    for (j, b) in x.iter().enumerate().filter(|(_, b)| **b > 0.0) {
                        next[(i + j) % n] += a * b;
                    }
                }
                exact = next;
            }
            let (found, off) = convolved(&x, steps);
            let farthest = found.iter().zip(&exact).map(|(a, b)| (a - b).abs());
            let farthest = farthest.fold(0.0, f64::max);
            let peak = exact.iter().copied().fold(0.0, f64::max);
            assert!(
                farthest <= off,
                "{n} {width} {steps}: {farthest} above {off}"
            );
            assert!(off < 1e-7 * peak, "{n} {width} {steps}: {off} is no use");
        }
    }

    /// Spectra of known vectors: one cell has size 1 everywhere, all alike 1 and then 0.
    #[test]
    fn sums_that_are_known() {
        let mut one = vec![0.0; 16];
        one[3] = 1.0;
        let (sum, off) = convolved(&one, 5);
        assert!((sum[15] - 1.0).abs() <= off && off < 1e-11, "{off}");
        let (sum, off) = convolved(&[0.125; 8], 1000);
        assert!(sum.iter().all(|p| (p - 0.125).abs() <= off));
    }
}
