//! The start of training, the only part of a run that knows the algorithm's type.

use std::sync::Arc;

use crate::algorithm::{Algorithm, AlgorithmSpec};
use crate::error::Result;
use crate::training::{Setup, Training, fitted};

/// Starts the training of a run, once per pass.
pub(super) trait Start: Send + Sync {
    /// Starts training.
    fn training(&self, setup: Setup) -> Result<Training>;

    /// Serves the leading rank of an MPI job until the job ends.
    #[cfg(feature = "mpi")]
    fn serve(&self, cluster: crate::engine::mpi::Cluster, setup: Setup) -> Result<()>;
}

impl Start for AlgorithmSpec {
    fn training(&self, setup: Setup) -> Result<Training> {
        Training::new(setup, self)
    }

    #[cfg(feature = "mpi")]
    fn serve(&self, cluster: crate::engine::mpi::Cluster, setup: Setup) -> Result<()> {
        crate::training::serve(cluster, setup, self)
    }
}

/// Wraps an algorithm that is fitted to the model and seed of a run.
struct Fitted<A>(Arc<A>);

impl<A: Algorithm> Start for Fitted<A> {
    fn training(&self, setup: Setup) -> Result<Training> {
        Training::of(setup, self.0.clone())
    }

    #[cfg(feature = "mpi")]
    fn serve(&self, cluster: crate::engine::mpi::Cluster, setup: Setup) -> Result<()> {
        crate::engine::mpi::serve(cluster, setup.context, self.0.clone(), setup.threads)
    }
}

/// Returns the start of an algorithm, fitted to the run of a setup.
pub(super) fn fitted_start<A: Algorithm>(algorithm: A, setup: &Setup) -> Result<Arc<dyn Start>> {
    Ok(Arc::new(Fitted(Arc::new(fitted(algorithm, setup)?))))
}
