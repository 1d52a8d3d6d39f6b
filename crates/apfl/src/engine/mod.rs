//! Engines: where clients live and how they are reached.
//!
//! An engine moves values and does nothing to them. Replies come back in the order of
//! the clients, so that equal results are true by construction.

use crate::algorithm::Algorithm;
use crate::clients::{Delivered, Reply};
use crate::error::Result;
use crate::metrics::Tallies;
use crate::pack::Arrays;

pub mod threads;

pub use threads::Threads;

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

    /// The last local round at some clients, in their order, but for those that are left
    /// out.
    fn deliver(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        clients: &[usize],
        keep: bool,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()>;

    /// The digests of the memories of some clients, in their order.
    fn digests(&mut self, clients: &[usize]) -> Result<Vec<[u8; 32]>>;

    /// The memories of some clients, in their order, as the bytes of their arrays.
    fn snapshot(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, Vec<u8>) -> Result<()> + Send),
    ) -> Result<()>;

    /// Gives a client back its memory.
    fn restore(&mut self, client: usize, memory: Arrays) -> Result<()>;
}
