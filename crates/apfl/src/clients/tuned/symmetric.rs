//! Positive definite matrices: L·Lᵀ = A.

/// The lower triangle L of a positive definite matrix.
pub(super) struct Factor {
    size: usize,
    lower: Vec<f64>,
}

impl Factor {
    /// Factors A, of which the lower triangle is read; `None` if it is not positive definite.
    pub(super) fn of(mut matrix: Vec<f64>, size: usize) -> Option<Self> {
        for i in 0..size {
            let (above, rest) = matrix.split_at_mut(i * size);
            let row = &mut rest[..size];
            for j in 0..i {
                let other = &above[j * size..][..=j];
                row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
            }
            let pivot = row[i] - dot(&row[..i], &row[..i]);
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            row[i] = pivot.sqrt();
        }
        Some(Self {
            size,
            lower: matrix,
        })
    }

    /// Solves A·x = b.
    pub(super) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let n = self.size;
        let mut x = b.to_vec();
        for i in 0..n {
            let row = &self.lower[i * n..][..=i];
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        backward(&self.lower, n, n, &mut x);
        x
    }

    /// Returns ln |A|.
    pub(super) fn ln_determinant(&self) -> f64 {
        let diagonal = (0..self.size).map(|i| self.lower[i * self.size + i].ln());
        2.0 * diagonal.sum::<f64>()
    }
}

/// Solves Lᵀ·x = x for the lower triangle of the first `size` rows with `stride` numbers each.
pub(super) fn backward(lower: &[f64], stride: usize, size: usize, x: &mut [f64]) {
    for i in (0..size).rev() {
        let row = &lower[i * stride..][..=i];
        x[i] /= row[i];
        let value = x[i];
        x[..i]
            .iter_mut()
            .zip(row)
            .for_each(|(x, l)| *x -= value * l);
    }
}

/// Returns ⟨a, b⟩.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums, which overlap.
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = a4.remainder().iter().zip(b4.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += a[k] * b[k];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [[4, 2], [2, 5]] = L·Lᵀ with L = [[2, 0], [1, 2]]; its determinant is 16, and
    /// A·(1, 2) = (8, 12).
    #[test]
    fn two_by_two_by_hand() {
        let factor = Factor::of(vec![4.0, 0.0, 2.0, 5.0], 2).unwrap();
        assert_eq!(factor.lower[2..], [1.0, 2.0]);
        assert!((factor.ln_determinant() - 16f64.ln()).abs() < 1e-12);
        let x = factor.solve(&[8.0, 12.0]);
        assert!((x[0] - 1.0).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12);
        assert!(Factor::of(vec![1.0, 0.0, 2.0, 1.0], 2).is_none());
        assert!(Factor::of(vec![f64::NAN], 1).is_none());
    }
}
