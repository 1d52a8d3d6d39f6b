//! Models: stateless descriptions over flat parameters.
//!
//! A [`Network`] has two passes, [`Network::forward`] and [`Network::backward`]. A [`Model`] is a
//! network with a loss. Gradients and steps of descent follow from both and are the same for every
//! model: see the methods of `dyn Model`.

use std::sync::Arc;

use crate::data::Batch;

mod architecture;
#[doc(hidden)]
pub mod cnn;
mod descent;
mod extras;
mod fit;
#[doc(hidden)] // for the program and the tests
pub mod kernels;
mod layout;
#[doc(hidden)]
pub mod loss;
pub mod mlp;
mod network;
#[doc(hidden)]
pub mod weighted;

#[doc(hidden)]
pub use architecture::{Architecture, ModelKind, Shape, ShapeReader};
pub use cnn::{Cnn, Widths};
pub(crate) use extras::AUGMENT;
pub use extras::{Augment, Evaluation, Extras};
pub(crate) use fit::require_fit;
pub use kernels::lines::CacheLines;
pub use kernels::norm::Normalization;
pub use layout::{Layout, Tensor};
pub use loss::Loss;
pub use mlp::Mlp;
pub use network::{Costs, ExampleNorms, JointPasses, Network, Step, Workspace};

/// A network with a loss over its outputs:
///
/// ```text
/// f(x; ξ) = mean loss of the outputs at x over ξ + (λ/2)‖x‖²
/// ```
///
/// A model that changes the training loss of another one returns the other's network and so
/// inherits all its capabilities.
pub trait Model: Send + Sync {
    /// Returns the network.
    fn network(&self) -> &dyn Network;

    /// Returns the loss over the outputs, which is also used for scoring.
    fn loss(&self) -> Loss;

    /// Returns λ of the ℓ2 term (λ/2)‖·‖².
    fn l2(&self) -> f32;

    /// Computes `ws.delta` ← ∂(mean training loss)/∂outputs. Returns the mean training loss.
    fn differentiate(&self, batch: &Batch<'_>, ws: &mut Workspace) -> f64 {
        let Workspace { outputs, delta, .. } = ws;
        self.loss().differentiate(outputs, &batch.targets, delta)
    }

    /// Returns the norms of single examples' gradients, which example-level privacy needs; `None`
    /// (the default) if they are not available.
    fn example_norms(&self) -> Option<&dyn ExampleNorms> {
        None
    }

    /// Returns the model scored in shuffled batches of `rows` rows; `None` if the batch size of
    /// scoring cannot be set.
    fn with_evaluation_batch(&self, _rows: usize) -> Option<Arc<dyn Model>> {
        None
    }
}
