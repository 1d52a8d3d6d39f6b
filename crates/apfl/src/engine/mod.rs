//! Engines: where clients live and how they are reached.
//!
//! An engine carries requests to clients and returns their responses in client order. It changes
//! neither, so all engines give equal results by construction.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::clients::{Request, Response, RunContext, StateHome};
use crate::error::Result;

#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program and the tests
pub mod mpi;
#[doc(hidden)] // for those who implement a transport, and the tests
pub mod remote;
mod reorder;
#[doc(hidden)] // for the program and the tests
pub mod threads;

#[cfg(feature = "mpi")]
#[doc(hidden)]
pub use mpi::Mpi;
#[doc(hidden)]
pub use remote::{Remote, Sites, Transport};
#[doc(hidden)]
pub use threads::Threads;

/// The engine of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum EngineKind {
    /// All clients in this process.
    #[default]
    Threads,
    /// Clients on all ranks of an MPI job.
    #[cfg(feature = "mpi")]
    Mpi(mpi::Cluster),
    /// Clients at sites of their own.
    Remote(Sites),
}

impl EngineKind {
    /// Returns its name in a spec.
    pub fn name(&self) -> &'static str {
        match self {
            EngineKind::Threads => "threads",
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(_) => "mpi",
            EngineKind::Remote(_) => "sites",
        }
    }

    /// Starts the engine with `threads` threads in each process (0: one per core) and client
    /// states in `home`.
    ///
    /// # Errors
    /// If threads, ranks or files are not available.
    pub fn start<A: Algorithm>(
        self,
        context: RunContext,
        algorithm: Arc<A>,
        threads: usize,
        home: &StateHome,
    ) -> Result<Box<dyn Engine<A>>> {
        Ok(match self {
            EngineKind::Threads => Box::new(Threads::new(context, algorithm, threads, home)?),
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => {
                Box::new(Mpi::new(cluster, context, algorithm, threads, home)?)
            }
            EngineKind::Remote(sites) => Box::new(Remote::new(sites, context, algorithm)),
        })
    }

    /// Drops the data of clients that live on other ranks.
    pub(crate) fn localize(&self, context: RunContext) -> Result<RunContext> {
        match self {
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => context.for_rank(*cluster),
            _ => Ok(context),
        }
    }

    /// Returns the number of processes, for engines that may have several.
    pub fn ranks(&self) -> Option<usize> {
        match self {
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => Some(cluster.ranks),
            _ => None,
        }
    }

    /// Returns whether each client's final scores are disclosed.
    pub(crate) fn discloses_scores(&self) -> bool {
        match self {
            EngineKind::Remote(sites) => sites.discloses_scores,
            _ => true,
        }
    }

    /// Returns whether all clients are in one trust domain, so that the server may have their
    /// models.
    pub(crate) fn shares_models(&self) -> bool {
        !matches!(self, EngineKind::Remote(_))
    }
}

/// Receives responses: the client's index and its response. A request that a process handles for
/// all of its clients has one response per process, with the index of the first client.
pub type OnResponse<'a, U> = dyn FnMut(usize, Response<U>) -> Result<()> + Send + 'a;

/// Where clients live.
pub trait Engine<A: Algorithm>: Send {
    /// Carries a request to some clients (ascending) and passes on their responses in that
    /// order. Returns the clients that did not respond; their states are unchanged.
    ///
    /// # Errors
    /// The error of the first client that failed; an error of `on_response`.
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>>;

    /// Returns whether [`Request::Score`] is deferred because exchanges are slow: the scores come
    /// with the responses to the next request, or by [`Engine::flush`].
    fn defers_scores(&self) -> bool {
        false
    }

    /// Requests the scores that are still deferred.
    ///
    /// # Errors
    /// As [`Engine::exchange`].
    fn flush(&mut self, _on_response: &mut OnResponse<'_, A::Update>) -> Result<()> {
        Ok(())
    }
}
