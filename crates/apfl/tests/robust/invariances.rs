//! What holds for a rule whatever the vectors.

use apfl::aggregation::Aggregation;
use apfl::params::Mean;
use proptest::prelude::*;

use super::{KRUM, RULES, TRIMMED};

#[test]
fn equal_updates_stay_what_they_are_to_the_bit() {
    let x = vec![0.1f32, -3.3e-8, 7.7e9, 1e-40, 0.0];
    for k in [1, 2, 5, 10, 97] {
        for rule in RULES.into_iter().chain([Aggregation::Mean]) {
            let combined = rule.combine(&vec![x.clone(); k]);
            assert_eq!(combined, x, "{rule}, {k}");
        }
    }
}

#[test]
fn one_update_full_of_nan_or_infinity_changes_no_rule() {
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut models = vec![vec![1.0, 2.0]; 5];
        models[2] = vec![bad; 2];
        for rule in RULES {
            assert_eq!(rule.combine(&models), [1.0, 2.0], "{rule}, {bad}");
        }
    }
    // Where all are bad, what comes out is as long as a model, and not finite.
    for rule in RULES {
        let combined = rule.combine(&vec![vec![f32::NAN; 3]; 5]);
        assert!(combined.len() == 3 && combined[0].is_nan(), "{rule}");
    }
}

fn cohort() -> impl Strategy<Value = Vec<Vec<f32>>> {
    (3usize..9, 1usize..6)
        .prop_flat_map(|(k, d)| prop::collection::vec(prop::collection::vec(-10f32..10.0, d), k))
}

fn near(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// Whether Krum's choice is clear enough that rounding does not change it.
fn clear(models: &[Vec<f32>]) -> bool {
    let f = (0.2 * models.len() as f64 + 1e-9) as usize;
    let score = |i: usize| {
        let mut d: Vec<f64> = (0..models.len())
            .filter(|j| *j != i)
            .map(|j| {
                let pairs = models[i].iter().zip(&models[j]);
                pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
            })
            .collect();
        d.sort_by(f64::total_cmp);
        d[..(models.len() - f - 2).max(1)].iter().sum::<f64>()
    };
    let mut scores: Vec<f64> = (0..models.len()).map(score).collect();
    scores.sort_by(f64::total_cmp);
    scores[1] - scores[0] > 1e-3
}

proptest! {
    #[test]
    fn the_order_of_the_clients_does_not_matter(models in cohort(), turn in 1usize..8) {
        let mut turned = models.clone();
        let by = turn % models.len();
        turned.rotate_left(by);
        turned.swap(0, 1);
        prop_assert_eq!(Aggregation::Median.combine(&models), Aggregation::Median.combine(&turned));
        prop_assert_eq!(TRIMMED.combine(&models), TRIMMED.combine(&turned));
        let z = Aggregation::GeometricMedian.combine(&models);
        prop_assert!(near(&z, &Aggregation::GeometricMedian.combine(&turned), 1e-3));
        if clear(&models) {
            prop_assert_eq!(KRUM.combine(&models), KRUM.combine(&turned));
        }
    }

    #[test]
    fn moving_all_moves_the_result(models in cohort(), by in -8f32..8.0) {
        let moved: Vec<Vec<f32>> =
            models.iter().map(|m| m.iter().map(|x| x + by).collect()).collect();
        for rule in RULES {
            if rule == KRUM && !clear(&models) {
                continue;
            }
            let expected: Vec<f32> = rule.combine(&models).iter().map(|x| x + by).collect();
            let found = rule.combine(&moved);
            prop_assert!(near(&found, &expected, 2e-3), "{rule}: {found:?}, {expected:?}");
        }
    }

    #[test]
    fn nothing_trimmed_is_the_mean(models in cohort()) {
        let mut mean = Mean::default();
        models.iter().for_each(|model| mean.add(1.0, model));
        let mean = mean.value().unwrap();
        let trimmed = Aggregation::TrimmedMean { trim: 0.0 }.combine(&models);
        prop_assert!(near(&trimmed, &mean, 1e-5));
    }

    /// Whatever the one bad update of five is, median and trimmed mean stay between the
    /// honest ones, Krum is one of them or the bad one lies among them, and the geometric
    /// median is no farther from the honest ones' centre than 2(K−f)/(K−2f) times the
    /// farthest of them (Minsker, 2015, lemma 2.1, with ν's share on top).
    #[test]
    fn one_bad_client_has_little_say(
        honest in prop::collection::vec(prop::collection::vec(-1f32..1.0, 3), 4),
        bad in prop::collection::vec(-1e6f32..1e6, 3),
        place in 0usize..5,
    ) {
        let mut models = honest.clone();
        models.insert(place, bad.clone());
        for rule in [Aggregation::Median, TRIMMED] {
            for (j, x) in rule.combine(&models).iter().enumerate() {
                let column = honest.iter().map(|model| model[j]);
                let low = column.clone().fold(f32::INFINITY, f32::min);
                let high = column.fold(f32::NEG_INFINITY, f32::max);
                prop_assert!((low..=high).contains(x), "{rule}");
            }
        }
        let far = bad.iter().any(|x| x.abs() > 10.0);
        prop_assert!(!far || honest.contains(&KRUM.combine(&models)));
        let z = Aggregation::GeometricMedian.combine(&models);
        // The honest ones are within √3 of 0, and 2·4/3·√3 < 4.62.
        let norm = z.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        prop_assert!(norm < 4.63, "{z:?}");
    }
}
