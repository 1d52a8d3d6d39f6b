//! Dense networks with ReLU: `mlp`, and `linear`, which has no hidden layers.

use std::sync::Arc;

use super::architecture::{ModelKind, Shape, ShapeReader, whole_numbers, widths};
use super::extras::{DROPOUT, HEAD_BIAS, NORM};
use super::kernels::hidden::{Rectified, mark};
use super::kernels::norm::{Normalization, Normalize, dropout, dropout_scale};
use super::kernels::point::{Place, Point};
use super::kernels::rows::{LayerRows, all_columns};
use super::kernels::sparse::WIDE;
use super::kernels::{Dense, relu, relu_backward, scale};
use super::{
    Costs, Evaluation, ExampleNorms, Extras, JointPasses, Layout, Loss, Model, Network, Step,
    Workspace,
};
use crate::data::Batch;
use crate::params::{Params, norm_squared};
use crate::rng::Stream;
use crate::settings::{Custom, Kind, Setting};

pub(super) const LINEAR: ModelKind = Kind {
    name: "linear",
    about: "one linear layer; its old name `logistic` is accepted",
    settings: &[],
    examples: &["{ kind = 'linear' }"],
    value: ShapeReader {
        l2: 1e-4,
        init: "zeros",
        shape: |_| Shape::Linear,
    },
};

const HIDDEN: Setting<Custom<Vec<usize>>> = Setting::custom(
    "hidden",
    widths(
        || Some(vec![200, 200]),
        "a list of at most 64 widths from 1 to 1000000, such as [200, 200]",
        |found| {
            let fits =
                |w: &Vec<usize>| w.len() <= 64 && w.iter().all(|w| (1..=1_000_000).contains(w));
            whole_numbers(found).filter(fits)
        },
    ),
)
.help("widths of the hidden layers (none: linear)");

pub(super) const KIND: ModelKind = Kind {
    name: "mlp",
    about: "dense layers with ReLU between",
    settings: &[&HIDDEN, &NORM, &DROPOUT, &HEAD_BIAS],
    examples: &[
        "{ kind = 'mlp', hidden = [4], l2 = 0.1 }",
        "{ kind = 'mlp', hidden = [] }",
        "{ kind = 'mlp', hidden = [5, 4], norm = 'batch', dropout = 0.25, head_bias = false }",
        "{ kind = 'mlp', hidden = [5], norm = 'layer' }",
    ],
    value: ShapeReader {
        l2: 0.0,
        init: "uniform",
        shape: |s| Shape::Mlp(s.get(&HIDDEN)),
    },
};

/// A dense network with biases, ReLU between the layers, a loss and an ℓ2 term. A hidden layer is
/// dense – normalization – ReLU – dropout; the second and the last are [`Extras`].
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Dense>,
    /// One per hidden layer, or none.
    norms: Vec<Normalize>,
    extras: Extras,
    images: Option<[usize; 3]>,
    layout: Layout,
    loss: Loss,
    l2: f32,
}

impl Mlp {
    /// Creates a network with the given layer widths.
    pub fn new(inputs: usize, hidden: &[usize], outputs: usize, loss: Loss, l2: f32) -> Self {
        Self::with_extras(inputs, hidden, outputs, loss, l2, Extras::NONE)
    }

    /// Creates a network with normalization, dropout and other [`Extras`].
    pub fn with_extras(
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
        loss: Loss,
        l2: f32,
        extras: Extras,
    ) -> Self {
        let mut widths = vec![inputs];
        widths.extend_from_slice(hidden);
        widths.push(outputs);
        let mut layout = Layout::default();
        let mut layers = Vec::new();
        let mut norms = Vec::new();
        for (k, pair) in widths.windows(2).enumerate() {
            let head = k + 2 == widths.len();
            let biased = extras.head_bias || !head;
            layers.push(Dense {
                inputs: pair[0],
                outputs: pair[1],
                offset: layout.len(),
                biased,
            });
            layout.push(format!("layer{}.weight", k + 1), pair, pair[0]);
            let bias = format!("layer{}.bias", k + 1);
            if biased {
                layout.push(bias, &pair[1..], pair[0])
            } else {
                layout.push_constant(bias, &pair[1..], 0.0)
            }
            if let (Some(kind), false) = (extras.norm, head) {
                norms.push(norm(&mut layout, &format!("layer{}", k + 1), kind, pair[1]));
            }
        }
        Self {
            layers,
            norms,
            extras,
            images: None,
            layout,
            loss,
            l2,
        }
    }

    /// Sets the shape [channels, height, width] of images, which may be flipped and cropped.
    pub fn for_images(mut self, shape: [usize; 3]) -> Self {
        self.images = Some(shape);
        self
    }

    /// Creates a softmax regression, without hidden layers.
    pub fn logistic(inputs: usize, classes: usize, l2: f32) -> Self {
        Self::new(inputs, &[], classes, Loss::Softmax, l2)
    }
}

/// Appends the parameters of a normalization to the layer that it follows.
pub(super) fn norm(
    layout: &mut Layout,
    layer: &str,
    kind: Normalization,
    width: usize,
) -> Normalize {
    let offset = layout.len();
    layout.push_constant(format!("{layer}.scale"), &[width], 1.0);
    layout.push_constant(format!("{layer}.shift"), &[width], 0.0);
    Normalize {
        kind,
        width,
        offset,
    }
}

impl Model for Mlp {
    fn network(&self) -> &dyn Network {
        self
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn l2(&self) -> f32 {
        self.l2
    }

    fn with_evaluation_batch(&self, rows: usize) -> Option<Arc<dyn Model>> {
        let mut model = self.clone();
        model.extras.evaluation_batch = Some(rows);
        Some(Arc::new(model))
    }

    /// With batch normalization, gradients of single examples do not exist.
    fn example_norms(&self) -> Option<&dyn ExampleNorms> {
        let own = self.extras.norm != Some(Normalization::Batch);
        own.then_some(self as &dyn ExampleNorms)
    }
}

impl Network for Mlp {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A single layer learns from w⁰ = 0; hidden layers do not.
    fn initial(&self, rng: &mut Stream) -> Params {
        if self.layers.len() == 1 {
            self.layout.zeros()
        } else {
            self.layout.uniform(rng)
        }
    }

    fn inputs(&self) -> Option<usize> {
        Some(self.layers[0].inputs)
    }

    fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    fn costs(&self) -> Costs {
        let forward = self.layers.iter().map(Dense::flops).sum();
        Costs {
            forward,
            // The derivative by the input is not computed.
            backward: 2 * forward - self.layers[0].flops(),
            ..Costs::of(&self.layout)
        }
    }

    fn augmented(&self) -> Option<[usize; 3]> {
        self.extras.augmented_shape(self.images)
    }

    fn extras(&self) -> Extras {
        self.extras
    }

    fn is_linear(&self) -> bool {
        self.layers.len() == 1
    }

    fn evaluation(&self) -> Evaluation {
        self.extras.evaluation(self.images.is_some())
    }

    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        self.forward_at(Point::At(at), batch, ws);
    }

    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.backward_at(Place::of(at), into, step, batch, ws);
    }

    fn forward_mixed(
        &self,
        alpha: f32,
        v: &[f32],
        w: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.forward_at(Point::Mixture { alpha, v, w }, batch, ws);
    }

    fn backward_mixed(
        &self,
        alpha: f32,
        v: &mut [f32],
        w: &[f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.backward_at(Place::Mixed(alpha, w), v, step, batch, ws);
    }

    /// Available for a single, narrow layer.
    #[cfg(target_arch = "x86_64")]
    fn joint_passes(&self) -> Option<&dyn JointPasses> {
        let joint = self.layers.len() == 1 && self.layers[0].has_joint_passes();
        joint.then_some(self as &dyn JointPasses)
    }
}

#[cfg(target_arch = "x86_64")]
impl JointPasses for Mlp {
    fn forward_both(
        &self,
        alpha: f32,
        v: &[f32],
        w: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        ws.input.prepare(batch, false);
        let outputs = [&mut ws.outputs, &mut ws.mixed_outputs];
        let input = ws.input.rows(batch);
        self.layers[0].forward_both(alpha, (v, w), input, batch.len(), outputs);
    }

    fn backward_both(
        &self,
        alpha: f32,
        both: (&mut [f32], &mut [f32]),
        (step_v, step_w): (Step, Step),
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let (input, delta) = (ws.input.rows(batch), [&ws.delta[..], &ws.mixed_delta[..]]);
        let steps = [step_w, step_v];
        self.layers[0].accumulate_both(alpha, both, steps, input, delta, &mut ws.scratch);
    }
}

impl ExampleNorms for Mlp {
    /// The gradient of an example is x·δᵀ for a layer's weights and δ for its biases, so that
    ///
    /// ```text
    /// ‖∇‖² = Σ_l ‖δ_l‖² (‖x_l‖² + 1)
    /// ```
    ///
    /// plus Σ δ²(x̂² + 1) for the scales and shifts of a normalization.
    fn squared_norms(
        &self,
        at: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
        squares: &mut Vec<f64>,
    ) {
        let n = batch.len();
        squares.clear();
        squares.resize(n, 0.0);
        let Workspace {
            hidden,
            back: [this, next],
            delta,
            scratch,
            norms,
            ..
        } = ws;
        let kept_scale = dropout_scale(self.extras.dropout, batch.mask);
        let mut delta: &[f32] = delta;
        for (k, layer) in self.layers.iter().enumerate().rev() {
            let bias = if layer.biased { 1.0 } else { 0.0 };
            for (row, square) in squares.iter_mut().enumerate() {
                let of = |x: &[f32], width: usize| norm_squared(&x[row * width..][..width]);
                let input = match k {
                    0 => batch.row_norm_squared(row),
                    k => of(&hidden[k - 1], layer.inputs),
                };
                *square += of(delta, layer.outputs) * (input + bias);
            }
            if k > 0 {
                layer.propagate(Point::At(at), delta, n, scratch, next);
                relu_backward(next, &hidden[k - 1]);
                scale(next, kept_scale);
                if let Some(norm) = self.norms.get(k - 1) {
                    for (row, square) in squares.iter_mut().enumerate() {
                        *square += norm.row_norm_squared(row, next, &norms[k - 1]);
                    }
                    norm.propagate(next, &mut norms[k - 1]);
                }
                std::mem::swap(this, next);
                delta = this;
            }
        }
    }
}

impl Mlp {
    fn forward_at(&self, at: Point<'_>, batch: &Batch<'_>, ws: &mut Workspace) {
        let n = batch.len();
        let last = self.layers.len() - 1;
        ws.hidden.resize_with(last.max(ws.hidden.len()), Vec::new);
        ws.norms
            .resize_with(last.max(ws.norms.len()), Default::default);
        let first = &self.layers[0];
        ws.input
            .prepare(batch, first.outputs >= WIDE && first.biased);
        let input = ws.input.rows(batch);
        for (k, layer) in self.layers.iter().enumerate() {
            all_columns(&mut ws.columns, layer.inputs);
            let (before, rest) = ws.hidden.split_at_mut(k);
            let x = match before.last() {
                Some(hidden) => LayerRows::dense(hidden, &ws.columns[..layer.inputs]),
                None => input,
            };
            if k == last {
                layer.forward(at, x, n, &mut ws.scratch, &mut ws.outputs);
            } else {
                layer.forward(at, x, n, &mut ws.scratch, &mut rest[0]);
                if let Some(norm) = self.norms.get(k) {
                    norm.forward(at, &mut rest[0], &mut ws.norms[k]);
                }
                relu(&mut rest[0]);
                dropout(&mut rest[0], self.extras.dropout, batch.mask, k);
            }
        }
    }

    fn backward_at(
        &self,
        place: Place<'_>,
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
            columns,
            scratch,
            masks,
            norms,
            ..
        } = ws;
        let kept_scale = dropout_scale(self.extras.dropout, batch.mask);
        // The forward pass has put the batch into the workspace.
        let input = input.rows(batch);
        let mut delta: &[f32] = delta;
        for (k, layer) in self.layers.iter().enumerate().rev() {
            if k == 0 {
                layer.accumulate(place, into, step, input, delta, scratch);
                break;
            }
            let x = &hidden[k - 1];
            let rows = layer.uses_rectified().then(|| {
                mark(x, layer.inputs, masks);
                Rectified { x, masks }
            });
            match rows {
                Some(rows) => {
                    layer.propagate_rectified(place.point(into), delta, rows, scratch, next);
                }
                None => {
                    layer.propagate(place.point(into), delta, n, scratch, next);
                    relu_backward(next, x);
                }
            }
            scale(next, kept_scale);
            if let Some(norm) = self.norms.get(k - 1) {
                norm.accumulate(place, into, step, next, &mut norms[k - 1]);
                norm.propagate(next, &mut norms[k - 1]);
            }
            match rows {
                Some(rows) => layer.accumulate_rectified(place, into, step, rows, delta, scratch),
                None => {
                    let x = LayerRows::dense(x, &columns[..layer.inputs]);
                    layer.accumulate(place, into, step, x, delta, scratch);
                }
            }
            std::mem::swap(this, next);
            delta = this;
        }
    }
}
