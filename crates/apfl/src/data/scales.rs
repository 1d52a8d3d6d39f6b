//! The scales of a table's features.

use super::Normalization;

/// Mean and deviation of every feature over the training rows.
fn moments(x: &[f32], width: usize, train: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let rows = || train.iter().map(|row| &x[*row as usize * width..][..width]);
    let count = train.len() as f64;
    let mut mean = vec![0.0; width];
    for row in rows() {
        mean.iter_mut()
            .zip(row)
            .for_each(|(m, x)| *m += f64::from(*x));
    }
    mean.iter_mut().for_each(|m| *m /= count);
    let mut deviation = vec![0.0; width];
    for row in rows() {
        for ((d, m), x) in deviation.iter_mut().zip(&mean).zip(row) {
            *d += (f64::from(*x) - m).powi(2);
        }
    }
    deviation.iter_mut().for_each(|d| *d = (*d / count).sqrt());
    (mean, deviation)
}

/// Shifts and scales every feature to mean 0 and deviation 1 over the training rows.
pub(super) fn standardize(x: &mut [f32], width: usize, train: &[u32]) -> Normalization {
    let (mean, mut deviation) = moments(x, width, train);
    for d in deviation.iter_mut().filter(|d| **d == 0.0) {
        *d = 1.0;
    }
    for row in x.chunks_exact_mut(width) {
        for ((x, m), d) in row.iter_mut().zip(&mean).zip(&deviation) {
            *x = ((f64::from(*x) - m) / d) as f32;
        }
    }
    Normalization::Standardized { mean, deviation }
}

/// A word of warning where features' scales differ by more than a hundred.
pub(super) fn scale_warning(x: &[f32], names: &[&str], train: &[u32]) -> Option<String> {
    let (mean, deviation) = moments(x, names.len(), train);
    let scale = |j: &usize| mean[*j].abs().max(deviation[*j]);
    let varying = || (0..mean.len()).filter(|j| deviation[*j] > 0.0);
    let largest = varying().max_by(|a, b| scale(a).total_cmp(&scale(b)))?;
    let smallest = varying().min_by(|a, b| scale(a).total_cmp(&scale(b)))?;
    (scale(&largest) > 100.0 * scale(&smallest)).then(|| {
        format!(
            "warning: the scales of the features differ by a factor of {:.0} ('{}' about {:.3}, \
             '{}' about {:.3}): training will be slow or unstable; data.standardize = true mends it",
            scale(&largest) / scale(&smallest),
            names[largest],
            scale(&largest),
            names[smallest],
            scale(&smallest),
        )
    })
}
