//! Regression with a ridge by its evidence, in closed form.
//!
//! y = b + C·β + ε with β ~ N(0, σ²/κ·I), ε ~ N(0, σ²) and a flat prior on b, so that rows and y are
//! centered. With A = CᵀC + κI and σ² at its best,
//!
//! ```text
//! ln evidence = −(n−1)/2·ln s² + (r/2)·ln κ − ½·ln|A|,   s² = ‖y − Cβ‖² + κ‖β‖²,   β = A⁻¹Cᵀy
//! ```

use super::best;
use super::span::Span;
use super::symmetric::{Factor, dot};

/// Returns intercept and weights.
pub(super) fn fit(x: &[f32], y: &[f32], features: usize) -> Option<(f64, Vec<f64>)> {
    let n = y.len();
    let mut means = vec![0.0; features];
    for row in x.chunks_exact(features) {
        means
            .iter_mut()
            .zip(row)
            .for_each(|(m, x)| *m += f64::from(*x));
    }
    means.iter_mut().for_each(|m| *m /= n as f64);
    let center = y.iter().map(|y| f64::from(*y)).sum::<f64>() / n as f64;
    let y: Vec<f64> = y.iter().map(|y| f64::from(*y) - center).collect();
    let centered = x.chunks_exact(features).flat_map(|row| {
        let each = row.iter().zip(&means);
        each.map(|(x, m)| f64::from(*x) - m).collect::<Vec<_>>()
    });
    let span = Span::of_numbers(centered.collect(), features);
    let r = span.rank;
    if r == 0 || dot(&y, &y) == 0.0 {
        return Some((center, vec![0.0; features]));
    }
    let mut squares = vec![0.0; r * r];
    let mut products = vec![0.0; r];
    for (i, y) in y.iter().enumerate() {
        let row = span.row(i);
        for (j, c) in row.iter().enumerate() {
            products[j] += c * y;
            let line = &mut squares[j * r..][..=j];
            line.iter_mut()
                .zip(row)
                .for_each(|(s, other)| *s += c * other);
        }
    }
    let unit = span.mean_square() * n as f64 / r as f64;
    let fits = (-10..=20).map(|k| {
        let kappa = unit * 0.5f64.powi(k);
        let mut matrix = squares.clone();
        (0..r).for_each(|j| matrix[j * r + j] += kappa);
        let factor = Factor::of(matrix, r)?;
        let beta = factor.solve(&products);
        let errors = y.iter().enumerate();
        let errors = errors.map(|(i, y)| (y - dot(span.row(i), &beta)).powi(2));
        let sum = errors.sum::<f64>() + kappa * dot(&beta, &beta);
        let evidence = -0.5 * (n as f64 - 1.0) * sum.ln() + 0.5 * r as f64 * kappa.ln()
            - 0.5 * factor.ln_determinant();
        Some((evidence, beta))
    });
    let weights = span.weights(&best(fits)?);
    Some((center - dot(&weights, &means), weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One feature −1 and 1 (ten rows each) with y = x ± 1: CᵀC = Cᵀy = 20 and yᵀy = 40, so that
    /// the slope is 20/(20 + κ) and s² = 40 − 400/(20 + κ); the grid is 20·2^−k.
    #[test]
    fn the_ridge_of_one_feature_by_hand() {
        let x: Vec<f32> = (0..20)
            .map(|k| if k % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let y: Vec<f32> = (0..20)
            .map(|k| x[k] + if k % 4 < 2 { 1.0 } else { -1.0 })
            .collect();
        let evidence = |kappa: f64| {
            let sum = 40.0 - 400.0 / (20.0 + kappa);
            -9.5 * sum.ln() + 0.5 * kappa.ln() - 0.5 * (20.0 + kappa).ln()
        };
        let grid = (-10..=20).map(|k| 20.0 * 0.5f64.powi(k));
        let kappa = grid
            .max_by(|a, b| evidence(*a).total_cmp(&evidence(*b)))
            .unwrap();
        let (bias, weights) = fit(&x, &y, 1).unwrap();
        assert!(bias.abs() < 1e-9);
        assert!(
            (weights[0] - 20.0 / (20.0 + kappa)).abs() < 1e-9,
            "{weights:?}, κ = {kappa}"
        );
        assert!(
            kappa > 0.1 && kappa < 20.0,
            "neither end of the grid: {kappa}"
        );
    }

    /// A label without relation to the feature gets a strong ridge; a constant one its mean.
    #[test]
    fn noise_and_constants() {
        let x: Vec<f32> = (0..40).map(|k| (k % 2) as f32).collect();
        let y: Vec<f32> = (0..40).map(|k| (k / 2 % 2) as f32).collect();
        let (bias, weights) = fit(&x, &y, 1).unwrap();
        assert!(weights[0].abs() < 1e-9 && (bias - 0.5).abs() < 1e-9);
        let (bias, weights) = fit(&x, &[7.0; 40], 1).unwrap();
        assert_eq!((bias, weights), (7.0, vec![0.0]));
    }
}
