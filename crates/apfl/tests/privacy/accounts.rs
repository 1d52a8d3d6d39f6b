//! ε and σ against the values of other libraries, and what must hold of any.

use apfl::privacy::{Accountant, Cost, Mechanism, noise_for};
use proptest::prelude::*;

fn cost(noise: f64, sampling: f64, steps: u64, delta: f64) -> Cost {
    Mechanism { noise, sampling }.cost(steps, delta)
}

/// σ, q, steps and δ.
type Setting = (f64, f64, u64, f64);

/// (σ, q, steps, δ), the PRV accountant's bound, which includes its error of 0.01, and
/// dp-accounting's PLD at an interval of 1e-4.
const ROWS: [(Setting, f64, f64); 7] = [
    ((0.8, 0.001, 100, 1e-6), 0.270403, 0.260339),
    ((1.5, 0.05, 100, 1e-6), 1.953853, 1.943736),
    ((2.0, 0.2, 100, 1e-6), 5.672056, 5.661788),
    ((1.5, 0.05, 1000, 1e-6), 6.209969, 6.199695),
    ((0.8, 0.001, 20_000, 1e-6), 1.296009, 1.286152),
    ((2.0, 0.05, 50_000, 1e-6), 45.236996, 45.225844),
    ((1.5, 0.04, 2249, 1e-5), 6.777395712, 6.767051),
];

#[test]
fn loss_distributions_are_within_the_bounds_of_others() {
    for ((noise, sampling, steps, delta), prv, pld) in ROWS {
        let found = cost(noise, sampling, steps, delta).pld;
        let row = (noise, sampling, steps, delta);
        assert!(
            (prv - 0.02..=prv).contains(&found),
            "{row:?}: {found}, PRV has {prv}"
        );
        assert!(
            (found / pld - 1.0).abs() < 5e-3,
            "{row:?}: {found}, theirs {pld}"
        );
    }
}

#[test]
fn renyi_divergences_are_those_of_others() {
    let found = cost(1.5, 0.04, 2250, 1e-5).rdp;
    assert!((found - 7.32911117143).abs() < 1e-6, "{found}");
    let found = cost(4.530877117, 1.0, 1, 1e-6).rdp;
    assert!((found - 1.0).abs() < 1e-6, "{found}");
}

#[test]
fn the_noise_for_an_epsilon_is_that_of_others() {
    let noise = noise_for(1.0, 0.01, 1, 1e-5).unwrap();
    assert!((noise / 0.67379294682 - 1.0).abs() < 1e-3, "{noise}");
    // And it keeps its word.
    for (epsilon, sampling, steps, delta) in [
        (1.0, 0.01, 1, 1e-5),
        (8.0, 0.1, 100, 1e-5),
        (0.5, 1.0, 100, 1e-6),
        (2.0, 0.02, 3000, 1e-7),
    ] {
        let noise = noise_for(epsilon, sampling, steps, delta).unwrap();
        let found = cost(noise, sampling, steps, delta).epsilon();
        assert!(
            found <= epsilon && found > 0.999 * epsilon,
            "{found} of {epsilon}"
        );
    }
    assert_eq!(noise_for(1e-9, 1.0, 1_000_000, 1e-12), None);
}

/// Φ(1/(2σ) − εσ) − e^ε Φ(−1/(2σ) − εσ) = δ, with Φ by its own definition: a sum of densities.
#[test]
fn a_step_without_sampling_has_the_exact_delta() {
    let cdf = |x: f64| {
        let (from, cells) = (-40.0, 400_000);
        let width = (x - from) / f64::from(cells);
        let density = |z: f64| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let middles = (0..cells).map(|k| density(from + width * (f64::from(k) + 0.5)));
        width * middles.sum::<f64>()
    };
    for (noise, delta) in [(0.7, 1e-3), (1.0, 1e-5), (3.0, 1e-6)] {
        let found = cost(noise, 1.0, 1, delta).pld;
        let half = 0.5 / noise;
        let exact = cdf(half - found * noise) - found.exp() * cdf(-half - found * noise);
        assert!(
            (exact / delta - 1.0).abs() < 1e-3,
            "σ {noise}: {exact} for {delta}"
        );
    }
}

#[test]
fn the_ends_are_what_they_must_be() {
    assert_eq!(cost(1.0, 0.5, 0, 1e-5).epsilon(), 0.0);
    assert_eq!(cost(1.0, 0.0, 10, 1e-5).epsilon(), 0.0);
    assert_eq!(cost(0.0, 0.5, 1, 1e-5).epsilon(), f64::INFINITY);
    // Sampling with certainty is no sampling, and a rate next to it costs next to that.
    let all = cost(2.0, 1.0, 10, 1e-5);
    let nearly = cost(2.0, 0.9999, 10, 1e-5);
    assert!(
        (all.pld / nearly.pld - 1.0).abs() < 2e-3,
        "{all:?} {nearly:?}"
    );
    assert!(
        (all.rdp / nearly.rdp - 1.0).abs() < 2e-3,
        "{all:?} {nearly:?}"
    );
    // Rates and noises at the ends of what is allowed have an account too.
    for (noise, sampling) in [(0.01, 0.5), (0.3, 1e-9), (1e6, 0.5), (1.0, 1.0 - 1e-12)] {
        let found = cost(noise, sampling, 3, 1e-5).epsilon();
        assert!(
            found.is_finite() && found >= 0.0,
            "{noise} {sampling}: {found}"
        );
    }
    // The loss distributions are the tighter account.
    assert!(all.pld < all.rdp);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// More steps or a higher rate cost more, more noise or a larger δ less; to the width of
    /// the grid, which follows from them.
    #[test]
    fn epsilon_is_monotone_in_every_argument(
        noise in 0.6f64..4.0,
        sampling in 0.002f64..0.9,
        steps in 1u64..400,
        delta in 1e-9f64..1e-3,
    ) {
        let here = cost(noise, sampling, steps, delta);
        let not_above = |less: Cost, more: Cost| {
            less.rdp <= more.rdp * (1.0 + 1e-6) && less.pld <= more.pld * 1.001 + 1e-6
        };
        prop_assert!(not_above(here, cost(noise, sampling, steps + 1 + steps / 4, delta)));
        prop_assert!(not_above(here, cost(noise, (1.1 * sampling).min(1.0), steps, delta)));
        prop_assert!(not_above(cost(1.1 * noise, sampling, steps, delta), here));
        prop_assert!(not_above(cost(noise, sampling, steps, 2.0 * delta), here));
        // On one grid it rises with every step.
        let account = Accountant::new(Mechanism { noise, sampling }, steps + 3, delta);
        let along: Vec<f64> = (steps..steps + 3).map(|t| account.cost(t).epsilon()).collect();
        prop_assert!(along.is_sorted_by(|a, b| *a <= b * (1.0 + 1e-6)), "{along:?}");
    }
}
