//! Rows in as many coordinates as they have rank.
//!
//! With pivoted Cholesky K = X·Xᵀ = C·Cᵀ, where C has a row of r coordinates for every row of X.
//! Weights Xᵀa in the rows' span have X·Xᵀa = C·β and ‖Xᵀa‖ = ‖β‖, where a is zero but for the r
//! pivots and C_pᵀ·a_p = β with the pivots' rows C_p, a lower triangle. So a ridge on the weights
//! is a ridge on β.

use super::symmetric::{backward, dot};

/// Directions with a smaller share of the largest squared norm are rounding errors of f32.
const TOLERANCE: f64 = 1e-10;

/// Some rows in coordinates of their span.
pub(super) struct Span {
    x: Vec<f64>,
    features: usize,
    /// The number of rows.
    pub rows: usize,
    /// The number of coordinates.
    pub rank: usize,
    /// C, with `stride` numbers per row, of which the first `rank` are coordinates.
    coordinates: Vec<f64>,
    stride: usize,
    pivots: Vec<usize>,
}

impl Span {
    /// Computes the coordinates of rows with that many features.
    pub(super) fn of(x: &[f32], features: usize) -> Self {
        Self::of_numbers(x.iter().map(|x| f64::from(*x)).collect(), features)
    }

    /// Does [`Span::of`] for numbers in f64.
    pub(super) fn of_numbers(x: Vec<f64>, features: usize) -> Self {
        let rows = x.len() / features;
        let row = |i: usize| &x[i * features..][..features];
        let stride = rows.min(features);
        let mut coordinates = vec![0.0; rows * stride];
        let mut left: Vec<f64> = (0..rows).map(|i| dot(row(i), row(i))).collect();
        let largest = left.iter().copied().fold(0.0, f64::max);
        let mut pivots = Vec::new();
        for k in 0..stride {
            let mut pivot = 0;
            for (i, value) in left.iter().enumerate() {
                if *value > left[pivot] {
                    pivot = i;
                }
            }
            if left[pivot].is_nan() || left[pivot] <= TOLERANCE * largest {
                break;
            }
            let root = left[pivot].sqrt();
            let own = coordinates[pivot * stride..][..k].to_vec();
            pivots.push(pivot);
            for i in 0..rows {
                let value = if i == pivot {
                    root
                } else if left[i] == 0.0 {
                    0.0 // an earlier pivot, or a row of zeros
                } else {
                    let before = &coordinates[i * stride..][..k];
                    (dot(row(i), row(pivot)) - dot(before, &own)) / root
                };
                coordinates[i * stride + k] = value;
                left[i] = (left[i] - value * value).max(0.0);
            }
            left[pivot] = 0.0;
        }
        Self {
            x,
            features,
            rows,
            rank: pivots.len(),
            coordinates,
            stride,
            pivots,
        }
    }

    /// Returns the coordinates of a row.
    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.coordinates[i * self.stride..][..self.rank]
    }

    /// Returns the mean of the rows' squared norms; 1 if all are zero.
    pub(super) fn mean_square(&self) -> f64 {
        let squares = (0..self.rows).map(|i| dot(self.row(i), self.row(i)));
        let mean = squares.sum::<f64>() / self.rows as f64;
        if mean > 0.0 { mean } else { 1.0 }
    }

    /// Returns the weights of β.
    pub(super) fn weights(&self, beta: &[f64]) -> Vec<f64> {
        let triangle: Vec<f64> = (self.pivots.iter())
            .flat_map(|pivot| self.row(*pivot).to_vec())
            .collect();
        let mut share = beta.to_vec();
        backward(&triangle, self.rank, self.rank, &mut share);
        let mut weights = vec![0.0; self.features];
        for (pivot, share) in self.pivots.iter().zip(share) {
            let row = &self.x[pivot * self.features..][..self.features];
            weights
                .iter_mut()
                .zip(row)
                .for_each(|(w, x)| *w += share * x);
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rows in a plane of four dimensions: two coordinates, in which products are those of
    /// the rows, and the weights of β have β's norm and outputs.
    #[test]
    fn coordinates_keep_products() {
        let x = [
            [1.0f32, 2.0, 0.0, 1.0],
            [0.0, 1.0, 3.0, -1.0],
            [1.0, 3.0, 3.0, 0.0],
        ];
        let span = Span::of(x.as_flattened(), 4);
        assert_eq!(span.rank, 2);
        let product =
            |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
        for i in 0..3 {
            for j in 0..3 {
                let found = dot(span.row(i), span.row(j));
                assert!((found - product(&x[i], &x[j])).abs() < 1e-9, "{i} {j}");
            }
        }
        let beta = [0.7, -1.3];
        let weights = span.weights(&beta);
        assert!((dot(&weights, &weights) - dot(&beta, &beta)).abs() < 1e-9);
        for (i, row) in x.iter().enumerate() {
            let output: f64 = row
                .iter()
                .zip(&weights)
                .map(|(x, w)| f64::from(*x) * w)
                .sum();
            assert!((output - dot(span.row(i), &beta)).abs() < 1e-9);
        }
    }
}
