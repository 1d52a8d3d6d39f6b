//! Classes that are rare count for more in training.

use std::sync::Arc;

use super::{Evaluation, Layout, Loss, Model, Step, Workspace};
use crate::data::{Batch, Labels};
use crate::metrics::Tally;
use crate::params::Params;
use crate::rng::Stream;

/// n/(C·n_c) for every class: n training examples of the federation, C classes, n_c of them of
/// class c. All weights are 1 where classes are equally common.
pub fn balanced(counts: &[u64]) -> Vec<f32> {
    let n: u64 = counts.iter().sum();
    let weight = |count: &u64| match count {
        0 => 0.0, // of a class that nobody trains on
        count => (n as f64 / (counts.len() as f64 * *count as f64)) as f32,
    };
    counts.iter().map(weight).collect()
}

/// A model whose training loss weighs every example by its class:
///
/// ```text
/// f(x; ξ) = 1/|ξ| · Σ_{(a, y) ∈ ξ} weight_y · ℓ(h(x; a), y) + (λ/2)‖x‖²
/// ```
///
/// Its scores are those of the model itself.
pub struct Weighted {
    /// The model itself.
    pub model: Arc<dyn Model>,
    /// A weight for every class.
    pub weights: Vec<f32>,
}

impl std::fmt::Debug for Weighted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weighted")
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

impl Model for Weighted {
    fn layout(&self) -> &Layout {
        self.model.layout()
    }
    fn inputs(&self) -> Option<usize> {
        self.model.inputs()
    }
    fn outputs(&self) -> usize {
        self.model.outputs()
    }
    fn loss(&self) -> Loss {
        self.model.loss()
    }
    fn l2(&self) -> f32 {
        self.model.l2()
    }
    fn flops(&self) -> u64 {
        self.model.flops()
    }
    fn backward_flops(&self) -> u64 {
        self.model.backward_flops()
    }
    fn starts_at_zero(&self) -> bool {
        self.model.starts_at_zero()
    }
    fn initial(&self, rng: &mut Stream) -> Params {
        self.model.initial(rng)
    }
    fn augmented(&self) -> Option<[usize; 3]> {
        self.model.augmented()
    }
    fn evaluation(&self) -> Evaluation {
        self.model.evaluation()
    }
    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        self.model.forward(at, batch, ws);
    }
    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.model.backward(at, into, step, batch, ws);
    }
    fn differentiate(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let plain = self.model.differentiate(batch, ws);
        let Labels::Classes(y) = batch.targets else {
            return plain;
        };
        let width = self.outputs();
        let mut loss = 0.0;
        let rows = ws.outputs.chunks_exact(width).zip(y);
        for ((z, y), delta) in rows.zip(ws.delta.chunks_exact_mut(width)) {
            let weight = self.weights[*y as usize];
            delta.iter_mut().for_each(|d| *d *= weight);
            let one = Labels::Classes(std::slice::from_ref(y));
            loss += f64::from(weight) * self.loss().tally(z, width, &one).loss;
        }
        loss / y.len() as f64
    }
    fn tally(&self, batch: &Batch<'_>, outputs: &[f32]) -> Tally {
        self.model.tally(batch, outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Features, Targets};
    use crate::model::mlp::Mlp;

    #[test]
    fn weights_are_those_of_equal_shares() {
        // 8 examples, 6 and 2 of two classes: 8/(2·6) and 8/(2·2).
        assert_eq!(balanced(&[6, 2]), [2.0 / 3.0, 2.0]);
        assert_eq!(balanced(&[5, 5, 5]), [1.0, 1.0, 1.0]);
    }

    /// An example of weight 2 counts as two of weight 1: Σ over {a, b, b} is 3/2 of the mean
    /// over {a, b} with weights 1 and 2.
    #[test]
    fn a_weight_of_two_is_the_example_twice() {
        let unpenalized = Mlp::new(2, &[3], 2, Loss::Softmax, 0.0);
        let at: Params = (0..unpenalized.layout().len())
            .map(|k| 0.1 * (k as f32 - 6.0))
            .collect();
        let rows = |which: &[usize]| {
            let x = [[0.5, -1.0], [1.5, 0.25]];
            let x: Vec<f32> = which.iter().flat_map(|k| x[*k]).collect();
            let y = which.iter().map(|k| *k as u32).collect();
            Examples::new(2, Features::Floats(x), Targets::Classes(y))
        };
        let weighted = Weighted {
            model: Arc::new(Mlp::new(2, &[3], 2, Loss::Softmax, 0.0)),
            weights: vec![1.0, 2.0],
        };
        let mut grads = [at.clone(), at.clone()];
        let mut ws = Workspace::default();
        let twice = rows(&[0, 1, 1]);
        let a = unpenalized.gradient(&at, &twice.all(), &mut ws, &mut grads[0]);
        let once = rows(&[0, 1]);
        let b = weighted.gradient(&at, &once.all(), &mut ws, &mut grads[1]);
        assert!((1.5 * a - b).abs() < 1e-6, "{a} {b}");
        for (a, b) in grads[0].iter().zip(&grads[1]) {
            assert!((1.5 * a - b).abs() < 1e-6, "{a} {b}");
        }
    }
}
