//! eˣ for many numbers at once.

use pulp::Arch;

/// Computes x ← eˣ for numbers up to 88, within two units in the last place. Below −64 the result
/// is 0 (e⁻⁶⁴ = 1.6e-28). NaN stays NaN.
///
/// Next to the 1 of a softmax the omitted values do not change any sum. If kept, they would soon be
/// subnormal (below 1e-38), which many CPUs process a hundred times slower; a diverged model
/// produces many of them.
pub fn exp(x: &mut [f32]) {
    Arch::new().dispatch(|| x.iter_mut().for_each(|x| *x = exp_one(*x)));
}

/// Computes eˣ = 2ᵏ·eʳ with x = k·ln 2 + r and |r| ≤ ½ ln 2. eʳ is its Taylor series; the first
/// omitted term, r⁸/8!, is below 6e-9.
#[inline(always)]
fn exp_one(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to a whole number, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts; k times the first, short one is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let vanishes = x < -64.0;
    let x = if vanishes { -64.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let mut series = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        series = series * r + term;
    }
    let series = series * (r * r) + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if vanishes { 0.0 } else { series * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_two_units_in_the_last_place() {
        let mut x: Vec<f32> = (0..=200_000).map(|k| -64.0 + k as f32 * 7.6e-4).collect();
        x.extend([0.0, -0.0, 1e-30, -1e-30, f32::EPSILON]);
        let expected: Vec<f64> = x.iter().map(|x| f64::from(*x).exp()).collect();
        exp(&mut x);
        for (x, expected) in x.iter().zip(expected) {
            let nearest = expected as f32;
            let unit = f64::from(nearest.next_up() - nearest);
            assert!(
                (f64::from(*x) - expected).abs() <= 2.0 * unit,
                "expected {expected}, found {x}"
            );
        }
    }

    #[test]
    fn the_edges_of_the_range() {
        let mut x = [0.0, -64.0, -64.01, f32::NEG_INFINITY, f32::NAN];
        exp(&mut x);
        assert_eq!((x[0], x[2], x[3]), (1.0, 0.0, 0.0));
        assert!(x[1] > 1.5e-28 && x[1] < 1.7e-28);
        assert!(x[4].is_nan());
    }
}
