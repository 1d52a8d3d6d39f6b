//! Dense networks with ReLU: `mlp`, and `logistic`, which is one without hidden layers.

use super::kernels::{Dense, numbers, relu, relu_backward};
use super::{Layout, Loss, Model, Step, Workspace};
use crate::data::{Batch, Rows};

/// inputs – hidden … – outputs, with biases, ReLU between, a loss and an ℓ2 term.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Dense>,
    layout: Layout,
    loss: Loss,
    l2: f32,
}

impl Mlp {
    /// A network of those widths.
    pub fn new(inputs: usize, hidden: &[usize], outputs: usize, loss: Loss, l2: f32) -> Self {
        let mut widths = vec![inputs];
        widths.extend_from_slice(hidden);
        widths.push(outputs);
        let mut layout = Layout::default();
        let mut layers = Vec::new();
        for (k, pair) in widths.windows(2).enumerate() {
            layers.push(Dense {
                inputs: pair[0],
                outputs: pair[1],
                offset: layout.len(),
            });
            layout.push(format!("layer{}.weight", k + 1), pair, pair[0]);
            layout.push(format!("layer{}.bias", k + 1), &pair[1..], pair[0]);
        }
        Self {
            layers,
            layout,
            loss,
            l2,
        }
    }

    /// Softmax regression: no hidden layer.
    pub fn logistic(inputs: usize, classes: usize, l2: f32) -> Self {
        Self::new(inputs, &[], classes, Loss::Softmax, l2)
    }
}

impl Model for Mlp {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn l2(&self) -> f32 {
        self.l2
    }

    fn flops(&self) -> u64 {
        let layer = |l: &Dense| 2 * l.inputs as u64 * l.outputs as u64;
        self.layers.iter().map(layer).sum()
    }

    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        let n = batch.len();
        let last = self.layers.len() - 1;
        ws.hidden.resize_with(last.max(ws.hidden.len()), Vec::new);
        let input = numbers(batch, &mut ws.input);
        for (k, layer) in self.layers.iter().enumerate() {
            let (before, rest) = ws.hidden.split_at_mut(k);
            let x = before.last().map_or(input, |h| &h[..]);
            if k == last {
                layer.forward(at, x, n, &mut ws.outputs);
            } else {
                layer.forward(at, x, n, &mut rest[0]);
                relu(&mut rest[0]);
            }
        }
    }

    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let n = batch.len();
        let Workspace {
            input,
            hidden,
            back: [this, next],
            delta,
            ..
        } = ws;
        // The forward pass has left the converted input in the workspace.
        let input = match batch.rows {
            Rows::Floats(x) => x,
            Rows::Bytes(..) => &input[..],
        };
        let mut delta: &[f32] = delta;
        for (k, layer) in self.layers.iter().enumerate().rev() {
            if k == 0 {
                layer.accumulate(at, into, step, input, delta);
                break;
            }
            let x = &hidden[k - 1];
            layer.propagate(at.unwrap_or(into), delta, n, next);
            relu_backward(next, x);
            layer.accumulate(at, into, step, x, delta);
            std::mem::swap(this, next);
            delta = this;
        }
    }
}
