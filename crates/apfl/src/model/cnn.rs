//! The convolutional network: conv – ReLU – pool, twice, then a hidden dense layer.

use std::sync::Arc;

use super::architecture::{ModelKind, Shape, ShapeReader, whole_numbers, widths};
use super::extras::{DROPOUT, HEAD_BIAS, NORM};
use super::kernels::conv::{Conv, images};
use super::kernels::norm::{Normalize, dropout, dropout_scale};
use super::kernels::point::{Place, Point};
use super::kernels::rows::{LayerRows, all_columns};
use super::kernels::{Dense, decay, relu, relu_backward, scale};
use super::mlp::norm;
use super::{Costs, Evaluation, Extras, Layout, Loss, Model, Network, Step, Workspace};
use crate::data::Batch;
use crate::error::{Error, Result};
use crate::params::mix;
use crate::settings::{Custom, Kind, Setting, Whole, at_least};

const CHANNELS: Setting<Custom<Vec<usize>>> = Setting::custom(
    "channels",
    widths(
        || Some(vec![20, 50]),
        "two widths from 1 to 1024, such as [20, 50]",
        |found| {
            let fits = |w: &Vec<usize>| w.len() == 2 && w.iter().all(|w| (1..=1024).contains(w));
            whole_numbers(found).filter(fits)
        },
    ),
)
.help("output channels of the two convolutions");

const KERNEL: Setting<Whole> =
    Setting::number("kernel", 5, at_least(1).to(31)).help("height and width of the filters");

const DENSE: Setting<Whole> =
    Setting::number("dense", 512, at_least(1).to(65_536)).help("units of the hidden dense layer");

pub(super) const KIND: ModelKind = Kind {
    name: "cnn",
    about: "two convolutions with ReLU and 2×2 max-pooling, then dense; images only",
    settings: &[&CHANNELS, &KERNEL, &DENSE, &NORM, &DROPOUT, &HEAD_BIAS],
    examples: &[
        "{ kind = 'cnn', channels = [2, 3], kernel = 3, dense = 4 }",
        "{ kind = 'cnn', channels = [2, 3], kernel = 3, dense = 4, norm = 'layer', dropout = 0.5 }",
    ],
    value: ShapeReader {
        l2: 0.0,
        init: "uniform",
        shape: |s| {
            let channels = s.get(&CHANNELS);
            Shape::Cnn {
                widths: Widths {
                    channels: [channels[0], channels[1]],
                    kernel: s.get(&KERNEL) as usize,
                    dense: s.get(&DENSE) as usize,
                },
            }
        },
    },
};

/// Widths of a CNN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Widths {
    /// Output channels of the two convolutions.
    pub channels: [usize; 2],
    /// Height and width of their filters.
    pub kernel: usize,
    /// Units of the hidden dense layer.
    pub dense: usize,
}

/// A CNN: conv k×k, ReLU, max-pool 2, twice; dense, ReLU; dense. No padding. [`Extras`] act on
/// the hidden dense layer: dense – normalization – ReLU – dropout.
///
/// Images arrive as channel planes and are stored pixel by pixel, so a filter has the shape
/// (k, k, inputs), and the hidden dense layer sees (height, width, channels).
#[derive(Clone, Debug)]
pub struct Cnn {
    convs: [Conv; 2],
    hidden: Dense,
    last: Dense,
    norm: Option<Normalize>,
    layout: Layout,
    loss: Loss,
    l2: f32,
    extras: Extras,
}

impl Cnn {
    /// Creates a network for examples of the shape [channels, height, width].
    pub fn new(
        shape: &[usize],
        widths: Widths,
        outputs: usize,
        loss: Loss,
        l2: f32,
        extras: Extras,
    ) -> Result<Self> {
        let &[inputs, height, width] = shape else {
            return Err(Error::Request(format!(
                "model.kind: a cnn needs images of shape [channels, height, width], found \
                                 examples of shape {shape:?}; use linear or mlp"
            )));
        };
        let Widths {
            channels,
            kernel,
            dense,
        } = widths;
        let mut layout = Layout::default();
        let first = conv(&mut layout, 1, [inputs, height, width], channels[0], kernel);
        let second = first.as_ref().and_then(|c| {
            let shape = [c.outputs, c.pooled_height(), c.pooled_width()];
            conv(&mut layout, 2, shape, channels[1], kernel)
        });
        let (Some(first), Some(second)) = (first, second) else {
            // Backward from one pooled pixel: 2 + (k−1), twice that, + (k−1) again.
            let min_size = 3 * kernel + 1;
            return Err(Error::Request(format!(
                "model.kernel: two {kernel}×{kernel} convolutions, each pooled by 2, need \
                 images of at least {min_size}×{min_size}, but the data's are {height}×{width}; \
                 use a smaller kernel, linear or mlp"
            )));
        };
        let hidden = layer(&mut layout, 1, second.output_len(), dense, true);
        let norm = extras
            .norm
            .map(|kind| norm(&mut layout, "dense1", kind, dense));
        let last = layer(&mut layout, 2, dense, outputs, extras.head_bias);
        Ok(Self {
            convs: [first, second],
            hidden,
            last,
            norm,
            layout,
            loss,
            l2,
            extras,
        })
    }
}

/// Adds the `k`-th convolution to the layout; `None` if the image is too small.
fn conv(
    layout: &mut Layout,
    k: usize,
    [inputs, height, width]: [usize; 3],
    outputs: usize,
    kernel: usize,
) -> Option<Conv> {
    if height.min(width) < kernel + 1 || inputs == 0 {
        return None;
    }
    let conv = Conv {
        height,
        width,
        inputs,
        outputs,
        kernel,
        offset: layout.len(),
    };
    let fan_in = kernel * kernel * inputs;
    let shape = [outputs, kernel, kernel, inputs];
    layout.push(format!("conv{k}.weight"), &shape, fan_in);
    layout.push(format!("conv{k}.bias"), &[outputs], fan_in);
    Some(conv)
}

fn layer(layout: &mut Layout, k: usize, inputs: usize, outputs: usize, biased: bool) -> Dense {
    let dense = Dense {
        inputs,
        outputs,
        offset: layout.len(),
        biased,
    };
    layout.push(format!("dense{k}.weight"), &[inputs, outputs], inputs);
    let bias = format!("dense{k}.bias");
    if biased {
        layout.push(bias, &[outputs], inputs)
    } else {
        layout.push_constant(bias, &[outputs], 0.0)
    }
    dense
}

impl Model for Cnn {
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
}

impl Network for Cnn {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> Option<usize> {
        let first = &self.convs[0];
        Some(first.inputs * first.height * first.width)
    }

    fn outputs(&self) -> usize {
        self.last.outputs
    }

    fn costs(&self) -> Costs {
        let convs: u64 = self.convs.iter().map(Conv::flops).sum();
        let forward = convs + self.hidden.flops() + self.last.flops();
        let pooled = |c: &Conv| c.outputs * c.pooled_height() * c.pooled_width();
        let image = |c: &Conv| c.inputs * c.height * c.width;
        // Images as floats; pooled outputs, positions of their maxima, and derivatives.
        let kept = self.convs.iter().map(|c| image(c) + 3 * pooled(c));
        let dense = 2 * (self.hidden.outputs + self.last.outputs);
        Costs {
            forward,
            backward: 2 * forward - self.convs[0].flops(),
            activations: (kept.sum::<usize>() + dense) as u64,
        }
    }

    fn augmented(&self) -> Option<[usize; 3]> {
        let Conv {
            inputs,
            height,
            width,
            ..
        } = self.convs[0];
        self.extras.augmented_shape(Some([inputs, height, width]))
    }

    fn extras(&self) -> Extras {
        self.extras
    }

    fn evaluation(&self) -> Evaluation {
        self.extras.evaluation(true)
    }

    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        self.forward_at(Point::At(at), at, batch, ws);
    }

    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        self.backward_at(Place::of(at), at, into, step, batch, ws);
    }

    /// Stores the mixture of the filters, which are few and packed anyway. The dense layers, with
    /// most parameters, compute it on the fly.
    fn forward_mixed(
        &self,
        alpha: f32,
        v: &[f32],
        w: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let mut filters = std::mem::take(&mut ws.point);
        let range = 0..self.convs[1].range().end;
        filters.resize(range.len(), 0.0);
        mix(&mut filters, alpha, &v[range.clone()], &w[range]);
        self.forward_at(Point::Mixture { alpha, v, w }, &filters, batch, ws);
        ws.point = filters;
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
        let filters = std::mem::take(&mut ws.point);
        self.backward_at(Place::Mixed(alpha, w), Some(&filters), v, step, batch, ws);
        ws.point = filters;
    }
}

impl Cnn {
    /// Runs the forward pass at a point that starts with `filters`, the parameters of the
    /// convolutions.
    fn forward_at(&self, at: Point<'_>, filters: &[f32], batch: &Batch<'_>, ws: &mut Workspace) {
        let n = batch.len();
        let [first, second] = &self.convs;
        if batch.number == 0 || ws.images_batch != batch.number {
            images(batch, first.inputs, &mut ws.images);
            ws.images_batch = batch.number;
        }
        ws.hidden.resize_with(ws.hidden.len().max(1), Vec::new);
        ws.norms
            .resize_with(ws.norms.len().max(1), Default::default);
        first.forward(filters, &ws.images, n, &mut ws.convs[0]);
        let [one, two] = &mut ws.convs;
        second.forward(filters, &one.pooled, n, two);
        let flat = &two.pooled[..n * second.output_len()];
        let hidden = &mut ws.hidden[0];
        all_columns(&mut ws.columns, self.hidden.inputs.max(self.last.inputs));
        let flat = LayerRows::dense(flat, &ws.columns[..self.hidden.inputs]);
        self.hidden.forward(at, flat, n, &mut ws.scratch, hidden);
        if let Some(norm) = &self.norm {
            norm.forward(at, hidden, &mut ws.norms[0]);
        }
        relu(hidden);
        dropout(hidden, self.extras.dropout, batch.mask, 0);
        let hidden = LayerRows::dense(hidden, &ws.columns[..self.last.inputs]);
        self.last
            .forward(at, hidden, n, &mut ws.scratch, &mut ws.outputs);
    }

    /// Runs the backward pass, with `filters` as in [`Cnn::forward_at`]; `None` if they are
    /// those of `into`.
    fn backward_at(
        &self,
        place: Place<'_>,
        filters: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let n = batch.len();
        let [first, second] = &self.convs;
        let Workspace {
            images,
            columns,
            scratch,
            hidden,
            back: [this, next],
            convs: [one, two],
            delta,
            norms,
            ..
        } = ws;
        // For each layer, propagate through its parameters before they are updated.
        let hidden = &hidden[0];
        self.last
            .propagate(place.point(into), delta, n, scratch, this);
        relu_backward(this, hidden);
        scale(this, dropout_scale(self.extras.dropout, batch.mask));
        if let Some(norm) = &self.norm {
            norm.accumulate(place, into, step, this, &mut norms[0]);
            norm.propagate(this, &mut norms[0]);
        }
        let hidden = LayerRows::dense(hidden, &columns[..self.last.inputs]);
        self.last
            .accumulate(place, into, step, hidden, delta, scratch);

        let flat = &two.pooled[..n * second.output_len()];
        self.hidden
            .propagate(place.point(into), this, n, scratch, next);
        let flat = LayerRows::dense(flat, &columns[..self.hidden.inputs]);
        self.hidden
            .accumulate(place, into, step, flat, this, scratch);

        second.propagate(filters.unwrap_or(into), next, n, two, this);
        decay(place, into, second.range(), step.decay);
        second.accumulate(into, step.scale, &one.pooled, next, n, two);

        decay(place, into, first.range(), step.decay);
        first.accumulate(into, step.scale, images, this, n, one);
    }
}
