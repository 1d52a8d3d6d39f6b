//! Losses over a model's outputs.

use super::kernels::exp::exp;
use crate::data::Labels;
use crate::metrics::Tally;

/// A loss ℓ(z, y) over the outputs z of one example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Cross-entropy of softmax(z): log Σₖ exp(zₖ) − z_y.
    Softmax,
    /// Binary logistic, y = ±1 (class 1 is +1): log(1 + exp(−y·z)).
    Logistic,
    /// Squared hinge, y = ±1 (class 1 is +1): max(0, 1 − y·z)².
    SquaredHinge,
    /// Squared error ½‖z − t‖²; t is the value, or the class as a unit vector.
    SquaredError,
}

impl Loss {
    /// Returns the number of outputs that the loss needs for `classes` classes (0: regression).
    pub fn outputs(self, classes: usize) -> usize {
        match self {
            Loss::Softmax => classes,
            Loss::Logistic | Loss::SquaredHinge => 1,
            Loss::SquaredError => classes.max(1),
        }
    }

    /// Computes delta ← ∂(mean ℓ)/∂z, row by row. Returns the mean of ℓ.
    #[doc(hidden)]
    pub fn differentiate(self, z: &[f32], targets: &Labels<'_>, delta: &mut Vec<f32>) -> f64 {
        delta.resize(z.len(), 0.0);
        let mut sum = 0.0;
        let n = rows(targets);
        let share = 1.0 / n as f32;
        let width = z.len() / n;
        if let (Loss::Softmax, Labels::Classes(y)) = (self, targets) {
            return softmax(z, width, y, delta);
        }
        for (r, (z, d)) in z
            .chunks_exact(width)
            .zip(delta.chunks_exact_mut(width))
            .enumerate()
        {
            sum += match (self, targets) {
                (Loss::Softmax, Labels::Classes(_)) => unreachable!("handled above"),
                (Loss::Logistic, Labels::Classes(y)) => {
                    let (loss, slope) = logistic(z[0], sign(y[r]));
                    d[0] = share * slope;
                    loss
                }
                (Loss::SquaredHinge, Labels::Classes(y)) => {
                    let y = sign(y[r]);
                    let gap = hinge(y * z[0]);
                    d[0] = share * (-2.0 * y * gap);
                    f64::from(gap).powi(2)
                }
                (Loss::SquaredError, targets) => {
                    let mut loss = 0.0;
                    for (k, (z, d)) in z.iter().zip(d).enumerate() {
                        let e = z - target(targets, r, k);
                        *d = share * e;
                        loss += 0.5 * f64::from(e).powi(2);
                    }
                    loss
                }
                (_, Labels::Values(_)) => unreachable!("the plan pairs values with squared error"),
            };
        }
        sum / n as f64
    }

    /// Returns the sums from which scores are computed.
    #[doc(hidden)]
    pub fn tally(self, z: &[f32], width: usize, targets: &Labels<'_>) -> Tally {
        let mut tally = Tally::default();
        let mut powers = Vec::with_capacity(width);
        for (r, z) in z.chunks_exact(width).enumerate() {
            tally.examples += 1;
            match (self, targets) {
                (Loss::Softmax, Labels::Classes(y)) => {
                    let (top, sum) = log_sum_exp(z, &mut powers);
                    tally.loss += f64::from(top) + sum.ln() - f64::from(z[y[r] as usize]);
                    tally.correct += u64::from(predicted_class(z) == y[r]);
                }
                (Loss::Logistic | Loss::SquaredHinge, Labels::Classes(y)) => {
                    tally.loss += match self {
                        Loss::Logistic => logistic(z[0], sign(y[r])).0,
                        _ => f64::from(hinge(sign(y[r]) * z[0])).powi(2),
                    };
                    tally.correct += u64::from(predicted_class(z) == y[r]);
                }
                (Loss::SquaredError, targets) => {
                    let squares = z.iter().enumerate();
                    let squares =
                        squares.map(|(k, z)| f64::from(z - target(targets, r, k)).powi(2));
                    let square: f64 = squares.sum();
                    tally.loss += 0.5 * square;
                    match targets {
                        Labels::Classes(y) => {
                            tally.correct += u64::from(predicted_class(z) == y[r])
                        }
                        Labels::Values(_) => tally.squared_error += square,
                    }
                }
                (_, Labels::Values(_)) => unreachable!("the plan pairs values with squared error"),
            }
        }
        tally
    }

    /// Converts one example's outputs for display: probabilities of the classes if the loss has
    /// them, else scores; for regression the value.
    #[doc(hidden)]
    pub fn display_scores(self, z: &[f32], classes: usize) -> Vec<f64> {
        match self {
            Loss::Softmax => {
                let (top, sum) = log_sum_exp(z, &mut Vec::new());
                let share = |z: &f32| f64::from(z - top).exp() / sum;
                z.iter().map(share).collect()
            }
            Loss::Logistic => {
                let p = 1.0 / (1.0 + f64::from(-z[0]).exp());
                vec![1.0 - p, p]
            }
            Loss::SquaredHinge => vec![f64::from(-z[0]), f64::from(z[0])],
            Loss::SquaredError if classes == 0 => vec![f64::from(z[0])],
            Loss::SquaredError => z.iter().map(|z| f64::from(*z)).collect(),
        }
    }
}

impl Loss {
    /// Returns whether [`Loss::display_scores`] returns probabilities.
    #[doc(hidden)]
    pub fn has_probabilities(self) -> bool {
        matches!(self, Loss::Softmax | Loss::Logistic)
    }

    /// Computes for every class (with two classes: the second only) a score that ranks examples
    /// and its logit log p/(1−p):
    ///
    /// ```text
    /// softmax          zₖ − log Σ_{j≠k} exp zⱼ          both
    /// logistic, hinge  z                                both
    /// squared error    zₖ                               log zₖ/(1−zₖ), zₖ within 10⁻⁹ of 0 … 1
    /// ```
    pub(crate) fn ranking_scores(self, z: &[f32], classes: usize, out: &mut Vec<(f64, f64)>) {
        out.clear();
        match self {
            Loss::Softmax => softmax_logits(z, out),
            Loss::Logistic | Loss::SquaredHinge => {
                return out.push((f64::from(z[0]), f64::from(z[0])));
            }
            Loss::SquaredError => out.extend(z.iter().map(|z| {
                let p = f64::from(*z).clamp(1e-9, 1.0 - 1e-9);
                (f64::from(*z), (p / (1.0 - p)).ln())
            })),
        }
        if classes == 2 {
            out.remove(0);
        }
    }
}

/// Appends zₖ − log Σ_{j≠k} exp zⱼ of every class, twice. The sum is that of the classes before k
/// plus that of the classes after k, relative to the largest output; it is computed on its own for
/// the largest output itself, which may be far from all others.
fn softmax_logits(z: &[f32], out: &mut Vec<(f64, f64)>) {
    let largest = predicted_class(z) as usize;
    let top = z[largest];
    out.extend(z.iter().map(|z| (f64::from(z - top).exp(), 0.0)));
    let mut after = 0.0;
    for (power, sum) in out.iter_mut().rev() {
        *sum = after;
        after += *power;
    }
    let mut before = 0.0;
    for ((power, after), z) in out.iter_mut().zip(z) {
        let others = before + *after;
        before += *power;
        let logit = f64::from(*z) - (f64::from(top) + others.ln());
        (*power, *after) = (logit, logit);
    }
    let others = || z.iter().enumerate().filter(|(k, _)| *k != largest);
    let second = others().map(|(_, z)| *z).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = others().map(|(_, z)| f64::from(z - second).exp()).sum();
    let logit = f64::from(top) - (f64::from(second) + sum.ln());
    out[largest] = (logit, logit);
}

fn rows(targets: &Labels<'_>) -> usize {
    match targets {
        Labels::Classes(c) => c.len(),
        Labels::Values(v) => v.len(),
    }
}

fn sign(class: u32) -> f32 {
    if class == 1 { 1.0 } else { -1.0 }
}

fn target(targets: &Labels<'_>, row: usize, output: usize) -> f32 {
    match targets {
        Labels::Values(v) => v[row],
        Labels::Classes(c) if c[row] as usize == output => 1.0,
        Labels::Classes(_) => 0.0,
    }
}

/// Returns the class of the largest output, the first of equals. A single output is positive for
/// class 1.
pub(crate) fn predicted_class(z: &[f32]) -> u32 {
    if let [z] = z {
        return u32::from(*z > 0.0);
    }
    let mut best = 0;
    for (k, value) in z.iter().enumerate() {
        if *value > z[best] {
            best = k;
        }
    }
    best as u32
}

/// Returns max z and Σ exp(z − max z).
fn log_sum_exp(z: &[f32], powers: &mut Vec<f32>) -> (f32, f64) {
    let top = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    powers.clear();
    powers.extend(z.iter().map(|z| z - top));
    exp(powers);
    (top, powers.iter().map(|p| f64::from(*p)).sum())
}

/// Computes delta ← (softmax(z) − unit(y))/n. Returns the mean of log Σₖ exp(zₖ) − z_y.
fn softmax(z: &[f32], width: usize, y: &[u32], delta: &mut [f32]) -> f64 {
    let share = 1.0 / y.len() as f32;
    let mut loss = 0.0;
    for ((z, d), y) in z
        .chunks_exact(width)
        .zip(delta.chunks_exact_mut(width))
        .zip(y)
    {
        let mut top = z[0];
        z.iter().for_each(|z| top = if *z > top { *z } else { top });
        d.iter_mut().zip(z).for_each(|(d, z)| *d = z - top);
        loss += f64::from(top) - f64::from(z[*y as usize]);
    }
    exp(delta);
    let mut product = 1.0f64;
    for (r, (d, y)) in delta.chunks_exact_mut(width).zip(y).enumerate() {
        let sum: f32 = d.iter().sum();
        let factor = share / sum;
        d.iter_mut().for_each(|d| *d *= factor);
        d[*y as usize] -= share;
        // Σ ln s = ln Π s, so sixteen rows need one logarithm: 1 ≤ s ≤ width.
        product *= f64::from(sum);
        if r % 16 == 15 {
            loss += product.ln();
            product = 1.0;
        }
    }
    (loss + product.ln()) / y.len() as f64
}

/// Returns max(0, 1 − margin), and NaN for NaN.
fn hinge(margin: f32) -> f32 {
    let gap = 1.0 - margin;
    if gap < 0.0 { 0.0 } else { gap }
}

/// Returns log(1 + exp(−y·z)) and its derivative in z, without overflow.
fn logistic(z: f32, y: f32) -> (f64, f32) {
    let margin = f64::from(y * z);
    let e = (-margin.abs()).exp();
    let loss = (-margin).max(0.0) + e.ln_1p();
    let miss = if margin > 0.0 {
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + e)
    };
    // `max` turns NaN into 0.
    let loss = if margin.is_nan() { f64::NAN } else { loss };
    (loss, -y * miss as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits against the definition, with the sum over the other classes written out.
    #[test]
    fn logits_of_softmax_are_those_of_one_class_against_the_others() {
        let near = [0.5, -1.0, 2.0, 0.25, 1.75];
        let mut found = Vec::new();
        Loss::Softmax.ranking_scores(&near, 5, &mut found);
        for (k, (score, logit)) in found.iter().enumerate() {
            let others = (0..5).filter(|j| *j != k);
            let sum: f64 = others.map(|j| f64::from(near[j]).exp()).sum();
            let expected = f64::from(near[k]) - sum.ln();
            assert!((logit - expected).abs() < 1e-12 && score == logit, "{k}");
        }
        // Far ahead: log(e⁰ + e⁰) = log 2 stays, though e⁻²⁰⁰⁰ is 0.
        Loss::Softmax.ranking_scores(&[0.0, 2000.0, 0.0], 3, &mut found);
        assert_eq!(found[1].0, 2000.0 - 2f64.ln());
        assert_eq!(found[0].0, -2000.0);
        // With two classes the second alone: z₁ − z₀.
        Loss::Softmax.ranking_scores(&[1.5, -0.25], 2, &mut found);
        assert_eq!(found, [(-1.75, -1.75)]);
    }
}
