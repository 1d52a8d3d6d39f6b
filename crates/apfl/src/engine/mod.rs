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

#[cfg(feature = "mpi")]
mod message;
#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program and the tests
pub mod mpi;
#[doc(hidden)] // for the program and the tests
pub mod threads;

#[cfg(feature = "mpi")]
#[doc(hidden)]
pub use mpi::Mpi;
#[doc(hidden)]
pub use threads::Threads;

/// Which engine a run is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// All clients in this process.
    #[default]
    Threads,
    /// Clients on all ranks of an MPI job.
    #[cfg(feature = "mpi")]
    Mpi(mpi::Cluster),
}

impl EngineKind {
    /// Its name, as a spec writes it.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Threads => "threads",
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(_) => "mpi",
        }
    }

    /// What every client is given, without the data of clients that live elsewhere.
    pub fn own(self, world: World) -> Result<World> {
        match self {
            EngineKind::Threads => Ok(world),
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => world.on(cluster),
        }
    }

    /// On how many processes, where they may be several.
    pub fn ranks(self) -> Option<usize> {
        match self {
            EngineKind::Threads => None,
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => Some(cluster.ranks),
        }
    }
}

/// Where clients live.
pub trait Engine<A: Algorithm>: Send {
    /// Trains a cohort (ascending) in a round, and hands over the replies in its order;
    /// `None` for a client that is left out of the round.
    fn train(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        cohort: &[usize],
        score: bool,
        each: &mut (dyn FnMut(usize, Option<Reply<A::Update>>) + Send),
    ) -> Result<()>;

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
