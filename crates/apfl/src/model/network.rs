//! Networks: forward and backward passes over flat parameters.

use super::{Evaluation, Extras, Layout, kernels};
use crate::data::Batch;
use crate::params::{Params, mix};
use crate::rng::Stream;

/// Buffers for the passes over a batch; they grow to the largest batch and are reused.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The outputs of the last forward pass, row by row.
    pub outputs: Vec<f32>,
    /// ∂(mean loss)/∂outputs, the input of the backward pass.
    pub delta: Vec<f32>,
    /// The outputs at the mixture, after [`JointPasses::forward_both`].
    pub mixed_outputs: Vec<f32>,
    /// ∂(mean loss)/∂outputs at the mixture, for [`JointPasses::backward_both`].
    pub mixed_delta: Vec<f32>,
    /// For custom networks: values of the forward pass that the backward pass needs.
    pub kept: Vec<Vec<f32>>,
    pub(crate) input: kernels::rows::Input,
    pub(crate) images: Vec<f32>,
    /// The number of the batch in `images`.
    pub(crate) images_batch: u64,
    pub(crate) columns: Vec<u32>,
    pub(crate) scratch: Vec<f32>,
    /// Bit masks of the nonzero values of a hidden layer.
    pub(crate) masks: Vec<u32>,
    /// The mixture of a mixed pass, or the part of it that the network stores.
    pub(crate) point: Params,
    pub(crate) hidden: Vec<Vec<f32>>,
    pub(crate) back: [Vec<f32>; 2],
    pub(crate) convs: [kernels::conv::ConvSpace; 2],
    pub(crate) norms: Vec<kernels::norm::NormSpace>,
}

/// Update of a vector by a backward pass: into ← into − decay·at + scale·Jᵀδ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The factor of the loss's gradient.
    pub scale: f32,
    /// The factor of the point itself, from the ℓ2 term.
    pub decay: f32,
}

/// Cost of one example, for estimates of time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Floating-point operations of one forward pass.
    pub forward: u64,
    /// Floating-point operations of one backward pass.
    pub backward: u64,
    /// Numbers that both passes keep.
    pub activations: u64,
}

impl Costs {
    /// Estimates the costs from the layout: two operations per parameter forward, four backward,
    /// and two numbers per output of a layer, of which there are as many as biases.
    pub fn of(layout: &Layout) -> Self {
        let biases = layout.tensors.iter().filter(|t| t.shape.len() == 1);
        Self {
            forward: 2 * layout.len() as u64,
            backward: 4 * layout.len() as u64,
            activations: 2 * biases.map(|t| t.len() as u64).sum::<u64>(),
        }
    }
}

/// A family of functions over flat parameters: its shape, costs and passes.
///
/// A network has no loss; a [`Model`](super::Model) adds one.
pub trait Network: Send + Sync {
    /// Returns the names and shapes of the parameters.
    fn layout(&self) -> &Layout;

    /// Returns the number of features per example, if the network needs a fixed number.
    fn inputs(&self) -> Option<usize> {
        None
    }

    /// Returns the number of outputs per example.
    fn outputs(&self) -> usize;

    /// Returns the cost of one example.
    fn costs(&self) -> Costs {
        Costs::of(self.layout())
    }

    /// Samples w⁰ for runs that do not set it; by default uniform in ±1/√fan_in.
    fn initial(&self, rng: &mut Stream) -> Params {
        self.layout().uniform(rng)
    }

    /// Returns the images' shape [channels, height, width] if the network trains on flipped and
    /// cropped images.
    fn augmented(&self) -> Option<[usize; 3]> {
        None
    }

    /// Returns how the model is scored.
    fn evaluation(&self) -> Evaluation {
        Evaluation::default()
    }

    /// Returns the normalization, dropout and scoring options; by default none.
    fn extras(&self) -> Extras {
        Extras::NONE
    }

    /// Returns whether the outputs are linear in the parameters, so that the objective is convex.
    fn is_linear(&self) -> bool {
        false
    }

    /// Fills `ws.outputs` and stores in `ws` what the backward pass needs.
    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace);

    /// Computes into ← into − decay·at + scale·Jᵀδ, where J is the outputs' derivative at `at` and
    /// δ = `ws.delta`; called after `forward` at the same point and batch. `at: None` means `into`
    /// itself, before the update. The result is the same to the bit whether the point is `into` or
    /// an equal copy of it.
    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    );

    /// Does [`Network::forward`] at αv + (1−α)w, to the same bits. Networks may avoid storing the
    /// mixture.
    fn forward_mixed(
        &self,
        alpha: f32,
        v: &[f32],
        w: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let mut point = std::mem::take(&mut ws.point);
        point.resize(v.len(), 0.0);
        mix(&mut point, alpha, v, w);
        self.forward(&point, batch, ws);
        ws.point = point;
    }

    /// Does [`Network::backward`] at αv + (1−α)w, updating v, to the same bits; called after
    /// [`Network::forward_mixed`] with the same α, v, w and batch.
    fn backward_mixed(
        &self,
        alpha: f32,
        v: &mut [f32],
        w: &[f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) {
        let _ = (alpha, w); // the mixture is in `ws.point`
        let point = std::mem::take(&mut ws.point);
        self.backward(Some(&point), v, step, batch, ws);
        ws.point = point;
    }

    /// Returns the joint passes at w and at a mixture, if the network has them.
    fn joint_passes(&self) -> Option<&dyn JointPasses> {
        None
    }
}

/// A step of APFL in one pass over the batch instead of two.
pub trait JointPasses {
    /// Fills `ws.outputs` at w and `ws.mixed_outputs` at αv + (1−α)w, to the bits of
    /// [`Network::forward`] and [`Network::forward_mixed`].
    fn forward_both(&self, alpha: f32, v: &[f32], w: &[f32], batch: &Batch<'_>, ws: &mut Workspace);

    /// Updates w by `ws.delta` and v by `ws.mixed_delta`, both at the old values, to the bits of
    /// [`Network::backward_mixed`] and then [`Network::backward`]. `steps` are those of v and of w.
    fn backward_both(
        &self,
        alpha: f32,
        both: (&mut [f32], &mut [f32]),
        steps: (Step, Step),
        batch: &Batch<'_>,
        ws: &mut Workspace,
    );
}

/// Norms of single examples' gradients, which example-level privacy needs.
pub trait ExampleNorms {
    /// Computes squares ← ‖Jᵢᵀδᵢ‖² for every example i, where δ = `ws.delta`, without storing the
    /// gradients; called after `forward` at the same point and batch, and before `backward`.
    fn squared_norms(
        &self,
        at: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
        squares: &mut Vec<f64>,
    );
}
