//! A client's own tuned fit: the baseline that joining is compared with.
//!
//! For linear models it is a ridge on the weights that the client's own evidence (marginal
//! likelihood) chooses, computed in f64 from its training rows. Training alone takes the rate, the
//! number of steps and λ of the federation, which need not suit one client by itself.
//!
//! The weights of a ridge are combinations of the rows, so that the fit has as many unknowns as
//! the rows have rank (`span.rs`), however many features there are.

mod classes;
mod regression;
mod span;
mod symmetric;

use crate::data::{Examples, Labels};
use crate::model::{Loss, Model};
use crate::params::Params;
use span::Span;

/// The limit on rows · rank² · outputs, the cost of a Newton step: about 0.05 s.
const MAX_WORK: f64 = 5e7;

/// Returns the parameters of the tuned fit to some rows. `None` if the model is not one dense
/// layer with a likelihood as its loss (softmax, logistic, squared error), or the fit is too large.
pub fn fit(model: &dyn Model, rows: &Examples) -> Option<Params> {
    let (inputs, outputs) = one_layer(model)?;
    let batch = rows.all();
    let n = batch.len();
    let rank = inputs.min(n) as f64;
    if n == 0 || rows.width() != inputs || n as f64 * rank * rank * outputs as f64 > MAX_WORK {
        return None;
    }
    let mut buffer = Vec::new();
    let x = batch.numbers(&mut buffer);
    // Intercept and weights of every output.
    let columns: Vec<(f64, Vec<f64>)> = match (model.loss(), batch.targets) {
        (Loss::SquaredError, Labels::Values(y)) if outputs == 1 => {
            vec![regression::fit(x, y, inputs)?]
        }
        (Loss::Logistic, Labels::Classes(y)) if outputs == 1 => {
            classes::fit(&Span::of(x, inputs), y, 2)?
        }
        (Loss::Softmax, Labels::Classes(y)) if outputs == 2 => {
            // z₁ − z₀ is the logit; each output takes half of it.
            let (bias, weights) = classes::fit(&Span::of(x, inputs), y, 2)?.pop()?;
            let scaled = |by: f64| (by * bias, weights.iter().map(|w| by * w).collect());
            vec![scaled(-0.5), scaled(0.5)]
        }
        (Loss::Softmax, Labels::Classes(y)) => classes::fit(&Span::of(x, inputs), y, outputs)?,
        _ => return None,
    };
    let mut params = vec![0.0f32; (inputs + 1) * outputs];
    for (k, (bias, weights)) in columns.iter().enumerate() {
        for (j, weight) in weights.iter().enumerate() {
            params[j * outputs + k] = *weight as f32;
        }
        params[inputs * outputs + k] = *bias as f32;
    }
    params.iter().all(|p| p.is_finite()).then_some(params)
}

/// Returns (inputs, outputs) if the model is one dense layer: W by inputs and outputs, then b.
fn one_layer(model: &dyn Model) -> Option<(usize, usize)> {
    let network = model.network();
    let [weight, bias] = &network.layout().tensors[..] else {
        return None;
    };
    let outputs = network.outputs();
    let plain = network.is_linear()
        && network.evaluation().is_plain()
        && weight.name == "layer1.weight"
        && weight.shape.len() == 2
        && weight.shape[1] == outputs
        && bias.shape == [outputs]
        && network.extras().head_bias;
    plain.then(|| (weight.shape[0], outputs))
}

/// Returns the item with the largest evidence among fits of ever weaker ridges; stops after two
/// that are worse. `None` if no evidence is finite.
fn best<T>(fits: impl Iterator<Item = Option<(f64, T)>>) -> Option<T> {
    let mut best: Option<(f64, T)> = None;
    let mut worse = 0;
    for fit in fits {
        let Some((evidence, fit)) = fit.filter(|(evidence, _)| evidence.is_finite()) else {
            break;
        };
        if best.as_ref().is_none_or(|(most, _)| evidence > *most) {
            best = Some((evidence, fit));
            worse = 0;
        } else {
            worse += 1;
            if worse == 2 {
                break;
            }
        }
    }
    best.map(|(_, fit)| fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mlp;

    /// Regression through two features, one of them in other units: the outputs are those of the
    /// normal equations with the ridge, which is weak where the rows fit a line.
    #[test]
    fn a_line_is_found() {
        let x: Vec<f32> = (0..40)
            .flat_map(|k| [(k % 7) as f32, (k % 5) as f32])
            .collect();
        let y: Vec<f32> = x.chunks(2).map(|x| 3.0 + 2.0 * x[0] - x[1]).collect();
        let rows = Examples::values(2, x, y).unwrap();
        let model = Mlp::new(2, &[], 1, Loss::SquaredError, 0.0);
        let params = fit(&model, &rows).unwrap();
        for (found, expected) in params.iter().zip([2.0, -1.0, 3.0]) {
            assert!((found - expected).abs() < 1e-3, "{params:?}");
        }
    }

    /// Without features that vary there are only intercepts: the classes' frequencies, but for
    /// the prior of an intercept. One class of three is absent and becomes improbable.
    #[test]
    fn intercepts_are_the_classes_frequencies() {
        let y: Vec<u32> = (0..400).map(|k| u32::from(k % 4 == 0)).collect();
        let rows = Examples::classes(1, vec![0.0; 400], y).unwrap();
        let two = Mlp::new(1, &[], 2, Loss::Softmax, 1e-4);
        let params = fit(&two, &rows).unwrap();
        let logit = f64::from(params[3] - params[2]);
        assert!((logit - (1.0f64 / 3.0).ln()).abs() < 1e-2, "{logit}");
        let one = Mlp::new(1, &[], 1, Loss::Logistic, 1e-4);
        assert!((f64::from(fit(&one, &rows).unwrap()[1]) - logit).abs() < 1e-6);
        let three = Mlp::new(1, &[], 3, Loss::Softmax, 1e-4);
        let [a, b, c] = fit(&three, &rows).unwrap()[3..] else {
            panic!("three biases")
        };
        assert!(((b - a) - (1.0f32 / 3.0).ln()).abs() < 2e-2, "{a} {b}");
        assert!(c < b - 4.0, "{c}");
    }

    /// A network, a loss that is no likelihood, and a fit beyond the limit have none.
    #[test]
    fn other_models_have_no_tuned_fit() {
        let rows = Examples::classes(2, vec![1.0, 0.0, 0.0, 1.0], vec![0, 1]).unwrap();
        let network = Mlp::new(2, &[3], 2, Loss::Softmax, 0.0);
        let hinge = Mlp::new(2, &[], 1, Loss::SquaredHinge, 0.0);
        assert!(fit(&network, &rows).is_none() && fit(&hinge, &rows).is_none());
        let wide = Examples::classes(500, vec![1.0; 500 * 500], vec![0; 500]).unwrap();
        let model = Mlp::new(500, &[], 2, Loss::Softmax, 0.0);
        assert!(fit(&model, &wide).is_none());
        assert!(fit(&Mlp::new(2, &[], 2, Loss::Softmax, 0.0), &rows).is_some());
    }
}
