//! Training losses weighted by class.

use std::sync::Arc;

use super::{Loss, Model, Network, Workspace};
use crate::data::{Batch, Labels};

/// Returns the weight n/(C·n_c) of every class c: n training examples of the federation, C classes,
/// n_c examples of class c. All weights are 1 for equally frequent classes.
pub fn balanced(counts: &[u64]) -> Vec<f32> {
    let n: u64 = counts.iter().sum();
    let weight = |count: &u64| match count {
        0 => 0.0, // a class without training examples
        count => (n as f64 / (counts.len() as f64 * *count as f64)) as f32,
    };
    counts.iter().map(weight).collect()
}

/// A model whose training loss weights every example by its class:
///
/// ```text
/// f(x; ξ) = 1/|ξ| · Σ_{(a, y) ∈ ξ} weight_y · ℓ(h(x; a), y) + (λ/2)‖x‖²
/// ```
///
/// Its scores are unweighted.
pub struct Weighted {
    /// The unweighted model.
    pub model: Arc<dyn Model>,
    /// The weight of every class.
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
    fn network(&self) -> &dyn Network {
        self.model.network()
    }
    fn loss(&self) -> Loss {
        self.model.loss()
    }
    fn l2(&self) -> f32 {
        self.model.l2()
    }
    fn differentiate(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let unweighted = self.model.differentiate(batch, ws);
        let Labels::Classes(y) = batch.targets else {
            return unweighted;
        };
        let width = self.network().outputs();
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
    fn with_evaluation_batch(&self, rows: usize) -> Option<Arc<dyn Model>> {
        let (model, weights) = (
            self.model.with_evaluation_batch(rows)?,
            self.weights.clone(),
        );
        Some(Arc::new(Self { model, weights }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Features, Targets};
    use crate::model::cnn::{Cnn, Widths};
    use crate::model::mlp::Mlp;
    use crate::model::{Augment, Costs, Extras};
    use crate::params::{Params, mix};

    #[test]
    fn weights_are_those_of_equal_shares() {
        // 8 examples, 6 and 2 of two classes: 8/(2·6) and 8/(2·2).
        assert_eq!(balanced(&[6, 2]), [2.0 / 3.0, 2.0]);
        assert_eq!(balanced(&[5, 5, 5]), [1.0, 1.0, 1.0]);
    }

    /// Returns the model with weight 2 for class 1.
    fn doubled(model: impl Model + 'static) -> Weighted {
        Weighted {
            model: Arc::new(model),
            weights: vec![1.0, 2.0],
        }
    }

    /// Returns distinct numbers of both signs.
    fn numbers(count: usize, first: f32) -> Params {
        (0..count).map(|k| (first + 2.3 * k as f32).sin()).collect()
    }

    fn examples(width: usize, x: Vec<f32>, y: &[u32]) -> Examples {
        Examples::new(width, Features::Floats(x), Targets::Classes(y.to_vec()))
    }

    /// An example of weight 2 counts as two of weight 1: Σ over {a, b, b} is 3/2 of the mean
    /// over {a, b} with weights 1 and 2.
    #[test]
    fn a_weight_of_two_is_the_example_twice() {
        let network = Mlp::new(2, &[3], 2, Loss::Softmax, 0.0);
        let plain: &dyn Model = &network;
        let weighted: &dyn Model = &doubled(network.clone());
        let at = numbers(plain.layout().len(), 0.5);
        let (a, b) = ([0.5, -1.0], [1.5, 0.25]);
        let mut grads = [at.clone(), at.clone()];
        let mut ws = Workspace::default();
        let twice = examples(2, [a, b, b].concat(), &[0, 1, 1]);
        let loss_plain = plain.gradient(&at, &twice.all(), &mut ws, &mut grads[0]);
        let once = examples(2, [a, b].concat(), &[0, 1]);
        let loss_weighted = weighted.gradient(&at, &once.all(), &mut ws, &mut grads[1]);
        assert!((1.5 * loss_plain - loss_weighted).abs() < 1e-6);
        for (a, b) in grads[0].iter().zip(&grads[1]) {
            assert!((1.5 * a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    /// A CNN reports its own costs, which do not follow from its biases.
    #[test]
    fn a_weighted_cnn_is_estimated_and_scored_as_the_plain_one() {
        let widths = Widths {
            channels: [2, 3],
            kernel: 3,
            dense: 4,
        };
        let extras = Extras {
            evaluation_batch: Some(16),
            augment: Augment::All,
            ..Extras::NONE
        };
        let plain = Cnn::new(&[1, 10, 10], widths, 2, Loss::Softmax, 0.0, extras).unwrap();
        let weighted = doubled(plain.clone());
        let network = weighted.network();
        assert_eq!(network.costs(), plain.costs());
        assert_ne!(
            network.costs().activations,
            Costs::of(plain.layout()).activations
        );
        assert_eq!(network.evaluation(), plain.evaluation());
        assert_eq!(network.augmented(), plain.augmented());
        assert_eq!(network.inputs(), plain.inputs());
    }

    /// Joint passes, mixed passes and norms of single examples use the weighted loss.
    #[test]
    fn the_networks_shortcuts_have_the_weighted_loss() {
        let x = numbers(5 * 7, 0.25);
        let examples = examples(5, x, &[0, 1, 1, 0, 1, 0, 1]);
        let batch = examples.all();
        let ws = &mut Workspace::default();
        for hidden in [&[][..], &[4]] {
            let weighted: &dyn Model = &doubled(Mlp::new(5, hidden, 2, Loss::Softmax, 0.1));
            let len = weighted.layout().len();
            let (v, w) = (numbers(len, 0.0), numbers(len, 1.0));
            let mut v_bar = v.clone();
            mix(&mut v_bar, 0.3, &v, &w);

            let (mut written, mut of_w) = (v.clone(), w.clone());
            let mixed = weighted.descend(Some(&v_bar), &mut written, 0.1, &batch, ws);
            let own = weighted.descend(None, &mut of_w, 0.2, &batch, ws);
            let (mut both_v, mut both_w) = (v.clone(), w.clone());
            let both = (&mut both_v[..], &mut both_w[..]);
            let losses = weighted.descend_both(0.3, both, (0.1, 0.2), &batch, ws);
            assert_eq!(losses, (mixed, own));
            assert_eq!((both_v, both_w), (written, of_w));

            // Weights follow from class counts, which are not protected by noise.
            assert!(weighted.example_norms().is_none());
        }
    }
}
