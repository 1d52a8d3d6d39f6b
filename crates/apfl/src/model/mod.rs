//! Models: stateless descriptions over flat parameters.
//!
//! A model implements two passes, [`Model::forward`] and [`Model::backward`]. What
//! algorithms use, [`Model::gradient`] and [`Model::descend`], follows from them.

use std::sync::Arc;

use rand::RngExt;

use crate::data::Batch;
use crate::metrics::Tally;
use crate::params::{Params, mix, norm_squared};
use crate::rng::Stream;

mod architecture;
pub mod cnn;
mod extras;
mod fit;
#[doc(hidden)] // for the program and the tests
pub mod kernels;
pub mod loss;
pub mod mlp;
pub mod weighted;

pub use architecture::{Architecture, ModelKind, Shape, ShapeReader};
pub(crate) use extras::AUGMENT;
pub use extras::{Augment, Evaluation, Extras};
pub use fit::require_fit;
pub use kernels::lines::CacheLines;
pub use kernels::norm::Over;
pub use loss::Loss;

/// One named tensor within flat parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, such as `layer1.weight`.
    pub name: String,
    /// Its shape; the last index runs fastest.
    pub shape: Vec<usize>,
    /// Where it starts.
    pub offset: usize,
    /// Inputs of a unit it belongs to: the scale of its initial values.
    pub fan_in: usize,
    /// Its initial value, where it has one for all of its numbers.
    pub constant: Option<f32>,
}

impl Tensor {
    /// The number of its values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its values lie.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// The names and shapes within flat parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The tensors, one after the other.
    pub tensors: Vec<Tensor>,
}

impl Layout {
    /// Appends a tensor.
    pub fn push(&mut self, name: impl Into<String>, shape: &[usize], fan_in: usize) {
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            offset: self.len(),
            fan_in,
            constant: None,
        });
    }

    /// Appends a tensor whose numbers all start at that value.
    pub fn push_constant(&mut self, name: impl Into<String>, shape: &[usize], value: f32) {
        self.push(name, shape, shape.iter().product());
        self.tensors.last_mut().expect("just pushed").constant = Some(value);
    }

    /// Where outputs are mixed: v as `local/…`, w as `shared/…`, and α as `mixing`.
    pub fn mixture(&self) -> Self {
        let mut mixture = Self::default();
        for side in ["local", "shared"] {
            for tensor in &self.tensors {
                let name = format!("{side}/{}", tensor.name);
                mixture.push(name, &tensor.shape, tensor.fan_in);
            }
        }
        mixture.push("mixing", &[1], 1);
        mixture
    }

    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |t| t.offset + t.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All parameters zero.
    pub fn zeros(&self) -> Params {
        vec![0.0; self.len()]
    }

    /// Every parameter uniform in ±1/√fan_in, but for those that start at a value of their own.
    pub fn uniform(&self, rng: &mut Stream) -> Params {
        let mut params = Vec::with_capacity(self.len());
        for tensor in &self.tensors {
            if let Some(value) = tensor.constant {
                params.resize(params.len() + tensor.len(), value);
                continue;
            }
            let bound = 1.0 / (tensor.fan_in.max(1) as f64).sqrt();
            params.extend((0..tensor.len()).map(|_| rng.random_range(-bound..bound) as f32));
        }
        params
    }
}

/// Memory for the passes over a batch; grows to the largest batch seen, then stays.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The outputs of the last forward pass, row by row.
    pub outputs: Vec<f32>,
    /// ∂(mean loss)/∂outputs: what the backward pass starts from.
    pub delta: Vec<f32>,
    /// For a model of one's own: what its backward pass needs of the forward pass.
    pub kept: Vec<Vec<f32>>,
    pub(crate) input: kernels::rows::Input,
    pub(crate) images: Vec<f32>,
    /// The number of the batch they were made of.
    pub(crate) images_of: u64,
    pub(crate) columns: Vec<u32>,
    pub(crate) scratch: Vec<f32>,
    /// Where a hidden layer is not zero.
    pub(crate) masks: Vec<u32>,
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

/// A family of functions over flat parameters with a loss.
pub trait Model: Send + Sync {
    /// Names and shapes of the parameters.
    fn layout(&self) -> &Layout;

    /// Features per example, where the model takes a fixed number of them.
    fn inputs(&self) -> Option<usize> {
        None
    }

    /// Numbers put out per example.
    fn outputs(&self) -> usize;

    /// What is minimized over the outputs.
    fn loss(&self) -> Loss;

    /// λ of (λ/2)‖·‖², which is part of f.
    fn l2(&self) -> f32;

    /// Multiplications and additions of one forward pass over one example, for estimates of
    /// time. By default two for each parameter.
    fn flops(&self) -> u64 {
        2 * self.layout().len() as u64
    }

    /// Numbers that one example's forward and backward pass keep, for estimates of memory. By
    /// default two for every output of a layer, of which there are as many as biases.
    fn activations(&self) -> u64 {
        let biases = self.layout().tensors.iter().filter(|t| t.shape.len() == 1);
        2 * biases
            .map(|t| t.shape.iter().product::<usize>() as u64)
            .sum::<u64>()
    }

    /// The same for one backward pass: the products of the forward pass twice, but for the
    /// derivative by the input of the first layer, which nobody needs.
    fn backward_flops(&self) -> u64 {
        2 * self.flops()
    }

    /// Whether it learns from w⁰ = 0, as one layer does; hidden layers do not.
    fn starts_at_zero(&self) -> bool {
        false
    }

    /// w⁰, where nothing else is said: zeros, or uniform in ±1/√fan_in.
    fn initial(&self, rng: &mut Stream) -> Params {
        match self.starts_at_zero() {
            true => self.layout().zeros(),
            false => self.layout().uniform(rng),
        }
    }

    /// The images' shape [channels, height, width], where the model trains on flipped
    /// and cropped ones.
    fn augmented(&self) -> Option<[usize; 3]> {
        None
    }

    /// How its scores are taken.
    fn evaluation(&self) -> Evaluation {
        Evaluation::default()
    }

    /// Returns the same model scored in batches of so many shuffled rows, where it does not say
    /// itself how it is scored.
    fn scored_in(&self, _rows: usize) -> Option<Arc<dyn Model>> {
        None
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

    /// Whether [`Model::example_norms`] can be asked for.
    fn has_example_norms(&self) -> bool {
        false
    }

    /// squares ← ‖Jᵢᵀδᵢ‖² of every example i, where δ = `ws.delta`, without writing any of
    /// these gradients down; after `forward` at the same point and batch, and before `backward`.
    ///
    /// # Panics
    /// Where the model does not have them.
    fn example_norms(
        &self,
        _at: &[f32],
        _batch: &Batch<'_>,
        _ws: &mut Workspace,
        _squares: &mut Vec<f64>,
    ) {
        panic!("has_example_norms is asked first");
    }

    /// (λ/2)‖at‖²
    fn penalty(&self, at: &[f32]) -> f64 {
        match self.l2() {
            0.0 => 0.0,
            l2 => 0.5 * f64::from(l2) * norm_squared(at),
        }
    }

    /// grad ← ∇f(at; batch), ℓ2 term included. Returns the mean loss without that term.
    fn gradient(&self, at: &[f32], batch: &Batch<'_>, ws: &mut Workspace, grad: &mut [f32]) -> f64 {
        self.forward(at, batch, ws);
        let loss = self.differentiate(batch, ws);
        grad.fill(0.0);
        let step = Step {
            scale: 1.0,
            decay: -self.l2(),
        };
        self.backward(Some(at), grad, step, batch, ws);
        loss
    }

    /// into ← into − rate·∇f(at; batch), done inside the backward pass: no gradient is
    /// stored. `at: None` is plain SGD, into ← into − rate·∇f(into). Returns the mean loss
    /// at that point, without the ℓ2 term.
    fn descend(
        &self,
        at: Option<&[f32]>,
        into: &mut [f32],
        rate: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        self.forward(at.unwrap_or(into), batch, ws);
        let loss = self.differentiate(batch, ws);
        self.backward(at, into, self.step(rate), batch, ws);
        loss
    }

    /// v ← v − rate·∇f(αv + (1−α)w; batch), to the same bits as [`Model::descend`] at
    /// that mixture, which need not be written down for it.
    fn descend_mixed(
        &self,
        alpha: f32,
        v: &mut [f32],
        w: &[f32],
        rate: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        let mut point = std::mem::take(&mut ws.point);
        point.resize(v.len(), 0.0);
        mix(&mut point, alpha, v, w);
        let loss = self.descend(Some(&point), v, rate, batch, ws);
        ws.point = point;
        loss
    }

    /// A step of APFL, both gradients at the values before it:
    /// v ← v − rates.0·∇f(αv + (1−α)w; batch) and w ← w − rates.1·∇f(w; batch). Returns both
    /// losses in that order. The same bits as [`Model::descend_mixed`] and then
    /// [`Model::descend`].
    fn descend_both(
        &self,
        alpha: f32,
        (v, w): (&mut [f32], &mut [f32]),
        rates: (f32, f32),
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> (f64, f64) {
        if let Some(losses) = self.descend_together(alpha, (v, w), rates, batch, ws) {
            return losses;
        }
        let mixed = self.descend_mixed(alpha, v, w, rates.0, batch, ws);
        (mixed, self.descend(None, w, rates.1, batch, ws))
    }

    /// A step of APFL for several fixed α with a v each, every gradient at the values before
    /// it: v ← v − ηα·∇f(αv + (1−α)w; batch), and w ← w − η·∇f(w; batch). Returns the sum of
    /// all losses. Each v and w have the bits of [`Model::descend_both`] with that α alone.
    fn descend_all(
        &self,
        models: &mut [(f32, &mut Params)],
        w: &mut [f32],
        eta: f32,
        batch: &Batch<'_>,
        ws: &mut Workspace,
    ) -> f64 {
        let mut sum = 0.0;
        for (alpha, v) in models {
            sum += self.descend_mixed(*alpha, v, w, eta * *alpha, batch, ws);
        }
        sum + self.descend(None, w, eta, batch, ws)
    }

    /// [`Model::descend_both`] in one pass, to the same bits, where a model has a way to do it;
    /// else nothing moves.
    fn descend_together(
        &self,
        _alpha: f32,
        _both: (&mut [f32], &mut [f32]),
        _rates: (f32, f32),
        _batch: &Batch<'_>,
        _ws: &mut Workspace,
    ) -> Option<(f64, f64)> {
        None
    }

    /// What a backward pass does in a step of gradient descent.
    fn step(&self, rate: f32) -> Step {
        Step {
            scale: -rate,
            decay: rate * self.l2(),
        }
    }

    /// `ws.delta` ← ∂(mean loss)/∂outputs. Returns the mean loss.
    fn differentiate(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let Workspace { outputs, delta, .. } = ws;
        self.loss().differentiate(outputs, &batch.targets, delta)
    }

    /// Loss and hits of a forward pass's outputs.
    fn tally(&self, batch: &Batch<'_>, outputs: &[f32]) -> Tally {
        self.loss().tally(outputs, self.outputs(), &batch.targets)
    }
}
