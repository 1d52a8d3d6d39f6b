//! What rules make of vectors, worked out by hand.

use apfl::aggregation::Aggregation;

use super::{KRUM, TRIMMED};

fn vectors(rows: &[&[f32]]) -> Vec<Vec<f32>> {
    rows.iter().map(|row| row.to_vec()).collect()
}

/// Column 1 sorted: −9 1 2 4 100. Column 2: 0 0 3 5 7. Of five the third; of the first
/// four (1 2 4 100 and 0 3 5 7) the mean of the middle two: 3 and 4.
#[test]
fn the_median_of_every_coordinate() {
    let five = vectors(&[&[4., 7.], &[1., 3.], &[100., 0.], &[2., 5.], &[-9., 0.]]);
    assert_eq!(Aggregation::Median.combine(&five), [2.0, 3.0]);
    assert_eq!(Aggregation::Median.combine(&five[..4]), [3.0, 4.0]);
}

/// One of five cut at each end (0.2·5): (1 + 2 + 4)/3 and (0 + 3 + 5)/3; two of five
/// (0.4·5) leave the median; of three, 0.2·3 cuts none: (4 + 1 + 100)/3 = 35.
#[test]
fn the_mean_without_the_extremes() {
    let five = vectors(&[&[4., 7.], &[1., 3.], &[100., 0.], &[2., 5.], &[-9., 0.]]);
    let third = |sum: f64| (sum / 3.0) as f32;
    assert_eq!(TRIMMED.combine(&five), [third(7.0), third(8.0)]);
    let most = Aggregation::TrimmedMean { trim: 0.4 };
    assert_eq!(most.combine(&five), [2.0, 3.0]);
    assert_eq!(TRIMMED.combine(&five[..3]), [35.0, third(10.0)]);
}

/// Five points on a line, f = ⌊0.2·5⌋ = 1, so each is scored by its 5 − 1 − 2 = 2 nearest:
/// at 0: 1 + 9 = 10; at 1: 1 + 4 = 5; at 3: 4 + 4 = 8; at 5: 4 + 16 = 20; at 50: 45² + 47².
#[test]
fn krum_takes_the_update_with_the_nearest_neighbours() {
    let line = vectors(&[&[3., 0.], &[50., 0.], &[0., 0.], &[5., 0.], &[1., 0.]]);
    assert_eq!(KRUM.combine(&line), [1.0, 0.0]);
    // With f = 0 the three nearest count: 0: 1+9+25 = 35; 1: 1+4+16 = 21; 3: 4+4+9 = 17.
    let none = Aggregation::Krum { byzantine: 0.0 };
    assert_eq!(none.combine(&line), [3.0, 0.0]);
    assert!(KRUM.check(5).is_ok());
    let message = Aggregation::Krum { byzantine: 0.4 }.check(5).unwrap_err();
    let message = message.to_string();
    assert!(
        message.contains("K = 5 and f = 2") && message.contains("at least 7"),
        "{message}"
    );
}

/// On a line the smallest sum of distances is at the median. In the plane, of the corners
/// of a square and any point within it, the crossing of the diagonals has no smaller
/// distance to opposite corners. And the point that sees the sides of a triangle under
/// 120° each: of (−√3, 0), (√3, 0), (0, 3), equilateral of side 2√3, the centre (0, 1).
#[test]
fn the_geometric_median_of_figures() {
    let rule = Aggregation::GeometricMedian;
    let close = |found: Vec<f32>, expected: [f32; 2]| {
        for (x, y) in found.iter().zip(expected) {
            assert!((x - y).abs() < 1e-4, "{found:?}, expected {expected:?}");
        }
    };
    let line = vectors(&[&[0., 0.], &[1000., 0.], &[2., 0.], &[1., 0.], &[-7., 0.]]);
    close(rule.combine(&line), [1.0, 0.0]);
    let square = vectors(&[&[0., 0.], &[2., 0.], &[2., 2.], &[0., 2.]]);
    close(rule.combine(&square), [1.0, 1.0]);
    let root = 3f32.sqrt();
    let triangle = vectors(&[&[-root, 0.], &[root, 0.], &[0., 3.]]);
    close(rule.combine(&triangle), [0.0, 1.0]);
    // The third corner drawn far out along its axis: both others still see it under 120°.
    let far = vectors(&[&[-root, 0.], &[root, 0.], &[0., 3000.]]);
    close(rule.combine(&far), [0.0, 1.0]);
}
