//! Engines: where clients live and how they are reached.
//!
//! An engine carries requests to clients and hands over their responses in the order of the
//! clients, so that equal results are true by construction. It does nothing to either.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::clients::{Request, Response, RunContext, StateHome};
use crate::error::Result;

mod line;
#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program and the tests
pub mod mpi;
#[doc(hidden)] // for those who implement a transport, and the tests
pub mod remote;
#[doc(hidden)] // for the program and the tests
pub mod threads;

#[cfg(feature = "mpi")]
#[doc(hidden)]
pub use mpi::Mpi;
#[doc(hidden)]
pub use remote::{Remote, Sites, Transport};
#[doc(hidden)]
pub use threads::Threads;

/// Which engine a run is on.
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
    /// Its name, as a spec writes it.
    pub fn name(&self) -> &'static str {
        match self {
            EngineKind::Threads => "threads",
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(_) => "mpi",
            EngineKind::Remote(_) => "sites",
        }
    }

    /// Starts the engine: all clients of a world, with that many threads in each process (0: one
    /// per core), and client states where `home` says.
    ///
    /// # Errors
    /// Threads, ranks or files that cannot be had.
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

    /// What every client is given, without the data of clients that live elsewhere.
    pub fn own(&self, context: RunContext) -> Result<RunContext> {
        match self {
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => context.on(*cluster),
            _ => Ok(context),
        }
    }

    /// On how many processes, where they may be several.
    pub fn ranks(&self) -> Option<usize> {
        match self {
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => Some(cluster.ranks),
            _ => None,
        }
    }

    /// Whether clients disclose their final scores one by one.
    pub fn tells_scores(&self) -> bool {
        match self {
            EngineKind::Remote(sites) => sites.tells_scores,
            _ => true,
        }
    }

    /// Whether clients are of one trust domain, so that their models may come to the server.
    pub fn shares_models(&self) -> bool {
        !matches!(self, EngineKind::Remote(_))
    }
}

/// What takes in responses: the client's index, and what came back. Of a request that a process
/// handles for all of its clients there is one response per process, with the first of them.
pub type Each<'a, U> = dyn FnMut(usize, Response<U>) -> Result<()> + Send + 'a;

/// Where clients live.
pub trait Engine<A: Algorithm>: Send {
    /// Carries a request to some clients (ascending) and hands over their responses in that
    /// order. Returns those who did not respond: for them it has not happened.
    ///
    /// # Errors
    /// What went wrong at the first client in the order; what `each` returns.
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        each: &mut Each<'_, A::Update>,
    ) -> Result<Vec<usize>>;

    /// Whether an exchange costs so much that [`Request::Score`] is only noted: the scores come
    /// with the responses to the next request, or by [`Engine::flush`].
    fn defers_scores(&self) -> bool {
        false
    }

    /// Hands over scores that are still deferred.
    ///
    /// # Errors
    /// As [`Engine::exchange`].
    fn flush(&mut self, _each: &mut Each<'_, A::Update>) -> Result<()> {
        Ok(())
    }
}
