//! Networks: the passes over flat parameters that every model is made of.

use super::{Evaluation, Layout, kernels};
use crate::data::Batch;
use crate::params::{Params, mix};
use crate::rng::Stream;

/// Memory for the passes over a batch; grows to the largest batch seen, then stays.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The outputs of the last forward pass, row by row.
    pub outputs: Vec<f32>,
    /// ∂(mean loss)/∂outputs: what the backward pass starts from.
    pub delta: Vec<f32>,
    /// The outputs at the mixture, after [`JointPasses::forward_both`].
    pub mixed_outputs: Vec<f32>,
    /// ∂(mean loss)/∂outputs at the mixture, for [`JointPasses::backward_both`].
    pub mixed_delta: Vec<f32>,
    /// For a network of one's own: what its backward pass needs of the forward pass.
    pub kept: Vec<Vec<f32>>,
    pub(crate) input: kernels::rows::Input,
    pub(crate) images: Vec<f32>,
    /// The number of the batch they were made of.
    pub(crate) images_of: u64,
    pub(crate) columns: Vec<u32>,
    pub(crate) scratch: Vec<f32>,
    /// Where a hidden layer is not zero.
    pub(crate) masks: Vec<u32>,
    /// The mixture of a mixed pass, or as much of it as the network writes down.
    pub(crate) point: Params,
    pub(crate) hidden: Vec<Vec<f32>>,
    pub(crate) back: [Vec<f32>; 2],
    pub(crate) convs: [kernels::conv::ConvSpace; 2],
    pub(crate) norms: Vec<kernels::norm::NormSpace>,
}

/// What a backward pass does to the vector it moves: into ← into − decay·at + scale·Jᵀδ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The factor of the loss's gradient.
    pub scale: f32,
    /// The factor of the point itself: the ℓ2 term.
    pub decay: f32,
}

/// What one example costs, for estimates of time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Multiplications and additions of one forward pass.
    pub forward: u64,
    /// The same of one backward pass.
    pub backward: u64,
    /// Numbers that both passes keep.
    pub activations: u64,
}

impl Costs {
    /// Estimates the costs of a network from its layout: two operations for each parameter,
    /// twice that going back, and two numbers for every output of a layer, of which there are
    /// as many as biases.
    pub fn of(layout: &Layout) -> Self {
        let biases = layout.tensors.iter().filter(|t| t.shape.len() == 1);
        Self {
            forward: 2 * layout.len() as u64,
            backward: 4 * layout.len() as u64,
            activations: 2 * biases.map(|t| t.len() as u64).sum::<u64>(),
        }
    }
}

/// A family of functions over flat parameters: its shape, its costs and its passes.
///
/// A network knows no loss. What is minimized over its outputs is for a
/// [`Model`](super::Model), which has a network, to say.
pub trait Network: Send + Sync {
    /// Returns the names and shapes of the parameters.
    fn layout(&self) -> &Layout;

    /// Returns the features per example, where the network takes a fixed number of them.
    fn inputs(&self) -> Option<usize> {
        None
    }

    /// Returns how many numbers are put out per example.
    fn outputs(&self) -> usize;

    /// Returns what one example costs.
    fn costs(&self) -> Costs {
        Costs::of(self.layout())
    }

    /// Returns w⁰ for runs that do not set it: by default uniform in ±1/√fan_in.
    fn initial(&self, rng: &mut Stream) -> Params {
        self.layout().uniform(rng)
    }

    /// Returns the images' shape [channels, height, width], where the network trains on flipped
    /// and cropped ones.
    fn augmented(&self) -> Option<[usize; 3]> {
        None
    }

    /// Returns how scores are taken.
    fn evaluation(&self) -> Evaluation {
        Evaluation::default()
    }

    /// Fills `ws.outputs`, and keeps in `ws` what the backward pass needs.
    fn forward(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace);

    /// into ← into − decay·at + scale·Jᵀδ, where J is the outputs' derivative at `at` and
    /// δ = `ws.delta`; after `forward` at the same point and batch. `at: None` means at
    /// `into` itself, as it was before. The result is the same to the bit whether the
    /// point is `into` or an equal copy of it.
    fn backward(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        step: Step,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    );

    /// [`Network::forward`] at αv + (1−α)w, to the same bits. A network that can do so does not
    /// write the mixture down.
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

    /// [`Network::backward`] at αv + (1−α)w, moving v, to the same bits; after
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
        let _ = (alpha, w); // their mixture is written down
        let point = std::mem::take(&mut ws.point);
        self.backward(Some(&point), v, step, batch, ws);
        ws.point = point;
    }

    /// Returns its passes at w and at a mixture together, where it has them.
    fn joint_passes(&self) -> Option<&dyn JointPasses> {
        None
    }
}

/// A step of APFL in one pass over the batch instead of two.
pub trait JointPasses {
    /// Fills `ws.outputs` at w and `ws.mixed_outputs` at αv + (1−α)w, to the bits of
    /// [`Network::forward`] and [`Network::forward_mixed`].
    fn forward_both(&self, alpha: f32, v: &[f32], w: &[f32], batch: &Batch<'_>, ws: &mut Workspace);

    /// Moves w by `ws.delta` and v by `ws.mixed_delta`, both at the values before, to the bits of
    /// [`Network::backward_mixed`] and then [`Network::backward`]; `steps` of v and of w.
    fn backward_both(
        &self,
        alpha: f32,
        both: (&mut [f32], &mut [f32]),
        steps: (Step, Step),
        batch: &Batch<'_>,
        ws: &mut Workspace,
    );
}

/// The norms of single examples' gradients, which privacy by example needs.
pub trait ExampleNorms {
    /// squares ← ‖Jᵢᵀδᵢ‖² of every example i, where δ = `ws.delta`, without writing any of
    /// these gradients down; after `forward` at the same point and batch, and before `backward`.
    fn squared_norms(
        &self,
        at: &[f32],
        batch: &Batch<'_>,
        ws: &mut Workspace,
        squares: &mut Vec<f64>,
    );
}
