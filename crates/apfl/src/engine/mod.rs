//! Engines: where clients live and how they are reached.
//!
//! An engine moves values and does nothing to them. Replies come back in the order of
//! the clients, so that equal results are true by construction.

use crate::algorithm::Algorithm;
use crate::choice::{Candidate, HeldOut};
use crate::clients::{Delivered, Keep, Reply, World};
use crate::error::Result;
use crate::metrics::Tallies;
use crate::store::archive::{MemoryArchive, Written};

mod line;
pub(crate) mod message;
#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program and the tests
pub mod mpi;
#[doc(hidden)] // for whoever carries letters to sites, and the tests
pub mod remote;
#[doc(hidden)] // for the program and the tests
pub mod threads;

#[cfg(feature = "mpi")]
#[doc(hidden)]
pub use mpi::Mpi;
#[doc(hidden)]
pub use remote::{Courier, Remote, Sites};
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

    /// What every client is given, without the data of clients that live elsewhere.
    pub fn own(&self, world: World) -> Result<World> {
        match self {
            EngineKind::Threads | EngineKind::Remote(_) => Ok(world),
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => world.on(*cluster),
        }
    }

    /// On how many processes, where they may be several.
    pub fn ranks(&self) -> Option<usize> {
        match self {
            EngineKind::Threads | EngineKind::Remote(_) => None,
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => Some(cluster.ranks),
        }
    }

    /// Whether clients tell their final scores one by one.
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

/// Where clients live.
pub trait Engine<A: Algorithm>: Send {
    /// Trains a cohort (ascending) in a round, and hands over the replies in its order;
    /// `None` for a client that is left out of the round. Returns those who did not answer:
    /// to them the round has not happened.
    fn train(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        cohort: &[usize],
        score: bool,
        each: &mut (dyn FnMut(usize, Option<Reply<A::Update>>) + Send),
    ) -> Result<Vec<usize>>;

    /// Whether orders cost so much that [`Engine::score`] only notes what is asked: it rides on
    /// the next order, after which [`Engine::scored`] has the scores.
    fn rides(&self) -> bool {
        false
    }

    /// Hands over the scores that were asked for and came with an order; `alone`: with one of
    /// their own, if none has been given since.
    fn scored(
        &mut self,
        _alone: bool,
        _each: &mut (dyn FnMut(usize, Tallies) + Send),
    ) -> Result<()> {
        Ok(())
    }

    /// The scores of the shared model at every client of a cohort, in its order.
    fn score(
        &mut self,
        round: u64,
        shared: &[f32],
        cohort: &[usize],
        each: &mut (dyn FnMut(usize, Tallies) + Send),
    ) -> Result<()>;

    /// The losses of everything that some clients may choose from, on their held-out rows, in
    /// their order, but for those that are left out.
    fn hold_out(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, HeldOut) + Send),
    ) -> Result<()>;

    /// Tells clients what they have chosen to serve.
    fn choose(&mut self, choices: &[(usize, Candidate)]) -> Result<()>;

    /// The last local round at some clients, in their order, but for those that are left
    /// out.
    fn deliver(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()>;

    /// The digests of the memories of some clients, in their order.
    fn digests(&mut self, clients: &[usize]) -> Result<Vec<[u8; 32]>>;

    /// Streams the memories of some clients into an archive, every process those of its own
    /// clients. Returns which part has whom.
    fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>>;

    /// Gives some clients back their memories, out of a part of an archive.
    fn restore(&mut self, archive: &dyn MemoryArchive, part: &str, clients: &[usize])
    -> Result<()>;
}
