//! Computes fᵢ and its gradient in f64.

use apfl::data::{Examples, Features, Labels, Targets};
use apfl::model::{Loss, Model, Workspace};

/// The number of rows converted to f64 at once.
const ROWS: usize = 256;

/// Represents one client's objective: fᵢ(x) = mean loss over its examples + (λ/2)‖x‖².
#[derive(Clone, Copy)]
pub struct Objective<'a> {
    model: &'a dyn Model,
    examples: &'a Examples,
    linear: bool,
}

/// Represents the result of one pass over the examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// The mean loss, without the ℓ2 term.
    pub loss: f64,
    /// fᵢ: the mean loss and (λ/2)‖x‖².
    pub value: f64,
    /// (1/m) Σⱼ ‖∇ℓⱼ − ∇ℓ̄‖², the variance of one example's gradient; linear models only.
    pub variance: Option<f64>,
}

impl<'a> Objective<'a> {
    /// Creates the objective of a model on some examples. A linear model (one dense layer) is
    /// evaluated in f64; any other by its own f32 passes, summed in f64.
    pub fn new(model: &'a dyn Model, linear: bool, examples: &'a Examples) -> Self {
        Self {
            model,
            examples,
            linear,
        }
    }

    /// Returns the number of parameters.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.model.layout().len()
    }

    /// Computes grad ← ∇fᵢ(x), ℓ2 term included.
    pub fn evaluate(&self, x: &[f64], grad: &mut [f64]) -> Pass {
        grad.fill(0.0);
        let (loss, square) = if self.linear {
            self.linear_pass(x, grad)
        } else {
            self.network_pass(x, grad)
        };
        let variance = square.map(|square| (square - norm_squared(grad)).max(0.0));
        let l2 = f64::from(self.model.l2());
        axpy(grad, l2, x);
        Pass {
            loss,
            value: loss + 0.5 * l2 * norm_squared(x),
            variance,
        }
    }

    /// For z = x̃W: ∇ℓ = x̃ᵀδ with δ = ∂ℓ/∂z, so that ‖∇ℓ‖² = ‖x̃‖²·‖δ‖², where x̃ = (x, 1).
    /// Returns the mean loss and the mean of ‖∇ℓ‖².
    fn linear_pass(&self, at: &[f64], grad: &mut [f64]) -> (f64, Option<f64>) {
        let m = self.examples.len();
        let (inputs, outputs) = (self.examples.width(), self.model.outputs());
        let share = 1.0 / m as f64;
        let weights = inputs * outputs;
        let (mut loss, mut square) = (0.0, 0.0);
        let mut x = Vec::new();
        let mut z = vec![0.0; outputs];
        for start in (0..m).step_by(ROWS) {
            let batch = self.examples.batch(start, ROWS);
            let n = batch.len();
            rows(self.examples, start, n, &mut x);
            for (r, x) in x.chunks_exact(inputs).enumerate() {
                z.copy_from_slice(&at[weights..]);
                for (x, w) in x.iter().zip(at.chunks_exact(outputs)) {
                    axpy(&mut z, *x, w);
                }
                loss += differentiate(self.model.loss(), &mut z, &batch.targets, r);
                square += (norm_squared(x) + 1.0) * norm_squared(&z);
                z.iter_mut().for_each(|z| *z *= share);
                for (x, g) in x.iter().zip(grad.chunks_exact_mut(outputs)) {
                    axpy(g, *x, &z);
                }
                axpy(&mut grad[weights..], 1.0, &z);
            }
        }
        (loss * share, Some(square * share))
    }

    fn network_pass(&self, at: &[f64], grad: &mut [f64]) -> (f64, Option<f64>) {
        let m = self.examples.len();
        let l2 = f64::from(self.model.l2());
        let at: Vec<f32> = at.iter().map(|x| *x as f32).collect();
        let mut part = vec![0.0f32; at.len()];
        let mut ws = Workspace::default();
        let mut loss = 0.0;
        for start in (0..m).step_by(ROWS) {
            let batch = self.examples.batch(start, ROWS);
            let share = batch.len() as f64 / m as f64;
            loss += share * self.model.gradient(&at, &batch, &mut ws, &mut part);
            for ((sum, part), x) in grad.iter_mut().zip(&part).zip(&at) {
                *sum += share * (f64::from(*part) - l2 * f64::from(*x));
            }
        }
        (loss, None)
    }
}

/// `x` ← `n` rows from `start`, as f64.
pub(super) fn rows(examples: &Examples, start: usize, n: usize, x: &mut Vec<f64>) {
    let width = examples.width();
    let cells = start * width..(start + n) * width;
    x.clear();
    match examples.features() {
        Features::Floats(from) => x.extend(from[cells].iter().map(|x| f64::from(*x))),
        Features::Bytes(bytes, scaling) => {
            let mut numbers = vec![0.0; n * width];
            scaling.apply(&bytes[cells], width, &mut numbers);
            x.extend(numbers.into_iter().map(f64::from));
        }
    }
}

/// Computes z ← ∂ℓ/∂z of row `r` in f64. Returns ℓ.
fn differentiate(loss: Loss, z: &mut [f64], targets: &Labels<'_>, r: usize) -> f64 {
    let sign = |targets: &Labels<'_>| match targets {
        Labels::Classes(y) if y[r] == 1 => 1.0,
        _ => -1.0,
    };
    match loss {
        Loss::Softmax => {
            let Labels::Classes(y) = targets else {
                unreachable!("the plan pairs values with squared error")
            };
            let y = y[r] as usize;
            let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let score = z[y];
            let sum: f64 = z.iter().map(|z| (z - top).exp()).sum();
            z.iter_mut().for_each(|z| *z = (*z - top).exp() / sum);
            z[y] -= 1.0;
            top + sum.ln() - score
        }
        Loss::Logistic => {
            let y = sign(targets);
            let margin = y * z[0];
            let e = (-margin.abs()).exp();
            let miss = if margin > 0.0 { e } else { 1.0 } / (1.0 + e);
            z[0] = -y * miss;
            (-margin).max(0.0) + e.ln_1p()
        }
        Loss::SquaredHinge => {
            let y = sign(targets);
            let gap = (1.0 - y * z[0]).max(0.0);
            z[0] = -2.0 * y * gap;
            gap * gap
        }
        Loss::SquaredError => {
            let mut sum = 0.0;
            for (k, z) in z.iter_mut().enumerate() {
                *z -= match targets {
                    Labels::Values(t) => f64::from(t[r]),
                    Labels::Classes(c) => f64::from(u8::from(c[r] as usize == k)),
                };
                sum += 0.5 * *z * *z;
            }
            sum
        }
        other => unreachable!("no theory for the loss {other:?}"),
    }
}

/// Returns the share of every class among the targets; empty for regression.
pub(super) fn label_distribution(targets: &Targets, classes: usize) -> Vec<f64> {
    let Targets::Classes(labels) = targets else {
        return Vec::new();
    };
    let mut shares = vec![0.0; classes];
    for label in labels {
        shares[*label as usize] += 1.0 / labels.len() as f64;
    }
    shares
}

/// y ← y + a·x
pub(super) fn axpy(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// ⟨a, b⟩
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// ‖a‖²
pub(super) fn norm_squared(a: &[f64]) -> f64 {
    dot(a, a)
}

/// ‖a − b‖²
pub(super) fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// Converts to f64.
pub(super) fn to_f64(a: &[f32]) -> Vec<f64> {
    a.iter().map(|x| f64::from(*x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use apfl::model::mlp::Mlp;

    fn classes(k: u32) -> Examples {
        let x = vec![
            0.3, -1.2, 0.7, 2.0, 0.1, 0.4, -0.9, 0.5, 1.5, 0.2, -0.3, 0.8,
        ];
        let y = (0..6).map(|r| r % k).collect();
        Examples::new(2, Features::Floats(x), Targets::Classes(y))
    }

    /// The gradient is the central difference of the value, for every loss, and loss and
    /// gradient are those of the f32 model.
    #[test]
    fn the_gradient_matches_the_value_and_the_model() {
        let values = Examples::new(
            1,
            Features::Floats(vec![0.5, -1.0, 2.0]),
            Targets::Values(vec![1.0, 0.0, -2.0]),
        );
        for (loss, outputs, examples) in [
            (Loss::Softmax, 3, classes(3)),
            (Loss::Logistic, 1, classes(2)),
            (Loss::SquaredHinge, 1, classes(2)),
            (Loss::SquaredError, 3, classes(3)),
            (Loss::SquaredError, 1, values),
        ] {
            let model = Mlp::new(examples.width(), &[], outputs, loss, 0.1);
            let f = Objective::new(&model, true, &examples);
            let x: Vec<f64> = (0..f.len()).map(|j| 0.3 - 0.17 * j as f64).collect();
            let mut g = vec![0.0; f.len()];
            let mut ignored = vec![0.0; f.len()];
            let pass = f.evaluate(&x, &mut g);
            for j in 0..f.len() {
                let mut at = x.clone();
                at[j] += 1e-5;
                let up = f.evaluate(&at, &mut ignored).value;
                at[j] -= 2e-5;
                let down = f.evaluate(&at, &mut ignored).value;
                assert!((g[j] - (up - down) / 2e-5).abs() < 1e-8, "{loss:?} {j}");
            }
            let network = Objective::new(&model, false, &examples).evaluate(&x, &mut ignored);
            assert!((network.loss - pass.loss).abs() < 1e-6, "{loss:?}");
            assert!((network.value - pass.value).abs() < 1e-6);
            assert!(distance_squared(&g, &ignored) < 1e-12);
        }
    }

    /// One feature x, target t, prediction wx + b with w = b = 0: ∇ℓ = −t·(x, 1).
    /// Examples (1, 1) and (3, −1): gradients (−1, −1) and (3, 1), mean (1, 0), each at
    /// squared distance 5 from it.
    #[test]
    fn the_variance_of_one_examples_gradient() {
        let examples = Examples::new(
            1,
            Features::Floats(vec![1.0, 3.0]),
            Targets::Values(vec![1.0, -1.0]),
        );
        let model = Mlp::new(1, &[], 1, Loss::SquaredError, 0.5);
        let f = Objective::new(&model, true, &examples);
        let mut g = vec![0.0; 2];
        let pass = f.evaluate(&[0.0, 0.0], &mut g);
        assert_eq!(g, [1.0, 0.0]);
        assert_eq!(pass.variance, Some(5.0));
        assert_eq!((pass.loss, pass.value), (0.5, 0.5));
    }
}
