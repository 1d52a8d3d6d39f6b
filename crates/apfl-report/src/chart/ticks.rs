//! Round tick values along an axis.

/// Returns about `count` multiples of 1, 2 or 5 times a power of ten in [low, high].
pub fn linear(low: f64, high: f64, count: usize) -> Vec<f64> {
    let step = step(low, high, count);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    // Ends outside by a rounding error are kept.
    let first = first - f64::from((first - 1.0) * step >= low - 1e-9 * step);
    let last = last + f64::from((last + 1.0) * step <= high + 1e-9 * step);
    let intervals = ((last - first) as usize).min(4 * count);
    (0..=intervals).map(|k| (first + k as f64) * step).collect()
}

/// Returns the distance between ticks.
pub fn step(low: f64, high: f64, count: usize) -> f64 {
    let rough = (high - low) / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    // The nearest by ratio: thresholds at about √2, √10 and √50.
    power
        * match rough / power {
            r if r < 1.415 => 1.0,
            r if r < 3.163 => 2.0,
            r if r < 7.072 => 5.0,
            _ => 10.0,
        }
}

/// Returns the powers of ten in [low, high]; if these are few, also 2 and 5 times them; if these
/// are few too, linear ticks.
pub fn logarithmic(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |t: &f64| *t >= low * 0.999_999 && *t <= high * 1.000_001;
    let every = |factors: &[f64], stride: usize| -> Vec<f64> {
        (from..=to)
            .step_by(stride)
            .flat_map(|e| factors.iter().map(move |f| f * 10_f64.powi(e)))
            .filter(inside)
            .collect()
    };
    for factors in [&[1.0, 2.0, 5.0][..], &[1.0]] {
        let ticks = every(factors, 1);
        if ticks.len() < 3 && factors.len() == 3 {
            return linear(low, high, count);
        }
        if ticks.len() <= count + 1 {
            return ticks;
        }
    }
    every(&[1.0], ((to - from) as usize).div_ceil(count.max(1)).max(1))
}

/// Formats a tick, where ticks are `step` apart.
pub fn label(value: f64, step: f64, percent: bool) -> String {
    if percent {
        return format!("{}%", label(100.0 * value, 100.0 * step, false));
    }
    let value = if value.abs() < 1e-9 * step {
        0.0
    } else {
        value
    };
    if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:e}")
            .split_once('e')
            .map(|(digits, power)| {
                let digits: f64 = digits.parse().unwrap_or(0.0);
                format!("{}e{power}", (digits * 100.0).round() / 100.0)
            })
            .unwrap_or_default();
    }
    let decimals = (-(step * 1.000_001).log10().floor()).clamp(0.0, 8.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(f, w)| (f - w).abs() <= 1e-9 * w.abs().max(1e-9))
    }

    #[test]
    fn ticks_are_round() {
        assert!(near(&linear(0.0, 1.0, 5), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]));
        assert!(near(
            &linear(1.0, 100.0, 5),
            &[20.0, 40.0, 60.0, 80.0, 100.0]
        ));
        assert!(near(&linear(-3.0, 4.0, 3), &[-2.0, 0.0, 2.0, 4.0]));
        assert!(near(&linear(0.3, 0.9, 3), &[0.4, 0.6, 0.8]));
        assert!(near(
            &linear(0.0, 250.0, 5),
            &[0.0, 50.0, 100.0, 150.0, 200.0, 250.0]
        ));
    }

    #[test]
    fn logarithmic_ticks() {
        assert!(near(&logarithmic(0.01, 10.0, 5), &[0.01, 0.1, 1.0, 10.0]));
        let two_decades = [1.0, 2.0, 5.0, 10.0];
        assert!(near(&logarithmic(0.9, 11.0, 6), &two_decades));
        // Within one decade the ticks are linear.
        assert!(near(
            &logarithmic(10.0, 12.0, 4),
            &[10.0, 10.5, 11.0, 11.5, 12.0]
        ));
        // Forty decades do not make forty ticks.
        let many = logarithmic(1e-20, 1e20, 5);
        assert!(many.len() <= 7 && many.len() >= 3, "{many:?}");
    }

    #[test]
    fn extreme_ranges_do_not_hang() {
        for (low, high) in [
            (0.0, 1e300),
            (1e16, 1e16 + 2.0),
            (-1e-300, 1e-300),
            (-1e300, 1e300),
        ] {
            assert!(linear(low, high, 5).len() <= 21, "{low} {high}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label(0.30000000000000004, 0.1, false), "0.3");
        assert_eq!(label(0.25, 0.05, true), "25%");
        assert_eq!(label(0.975, 0.005, true), "97.5%");
        assert_eq!(label(2e7, 5e6, false), "2e7");
        assert_eq!(label(-1e-20, 0.5, false), "0.0");
        assert_eq!(label(100.0, 20.0, false), "100");
    }
}
