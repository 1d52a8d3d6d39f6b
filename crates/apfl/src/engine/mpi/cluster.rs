//! The ranks of a job, and the transfer of bytes between them.
//!
//! Unlike MPI's own blocking calls, waiting does not keep a core busy, which
//! other threads need. Only the
//! thread that joined the cluster may communicate.

use std::time::Duration;

use mpi::Threading;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{MatchedReceiveVec, Root};

use crate::error::{Error, Result};

/// A message is sent in pieces of at most this many bytes: MPI counts in 32 bits.
const PIECE: usize = 1 << 30;

/// The tags of pieces.
const LAST: i32 = 0;
const MORE: i32 = 1;

/// The rank of this process in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The rank, from 0. Rank 0 leads.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
}

/// Membership of a job, which ends when this is dropped.
pub struct Membership {
    _universe: Universe,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Membership")
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Other ranks may be waiting for this one.
        if std::thread::panicking() {
            SimpleCommunicator::world().abort(101);
        }
    }
}

impl Cluster {
    /// Joins the job that started this process; without one, the process is a job of one rank.
    pub fn join() -> Result<(Membership, Self)> {
        let failed = |why| Error::Engine(format!("engine.kind = \"mpi\": {why}"));
        let (universe, level) = mpi::initialize_with_threading(Threading::Funneled)
            .ok_or_else(|| failed("MPI was initialized before"))?;
        if level < Threading::Funneled {
            return Err(failed(
                "this MPI library has no thread support (MPI_THREAD_FUNNELED)",
            ));
        }
        let world = universe.world();
        let cluster = Self {
            rank: world.rank() as usize,
            ranks: world.size() as usize,
        };
        Ok((
            Membership {
                _universe: universe,
            },
            cluster,
        ))
    }

    /// Returns whether this rank leads.
    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Returns the name of this process's host.
    pub fn host() -> String {
        mpi::environment::processor_name().unwrap_or_else(|_| "an unnamed host".into())
    }

    /// Aborts the whole job.
    pub fn abort(&self) -> ! {
        SimpleCommunicator::world().abort(1)
    }

    /// Returns whether a message of a rank waits to be received.
    pub(super) fn has_message(&self, from: usize) -> bool {
        let world = SimpleCommunicator::world();
        let from = world.process_at_rank(from as i32);
        from.immediate_probe().is_some()
    }

    /// Returns all ranks but the leader.
    pub(super) fn others(&self) -> std::ops::Range<usize> {
        1..self.ranks
    }

    /// Sends bytes to a rank and returns when the buffer may be reused.
    pub(super) fn send(&self, to: usize, bytes: &[u8]) {
        let world = SimpleCommunicator::world();
        let to = world.process_at_rank(to as i32);
        let mut pieces = bytes.chunks(PIECE).peekable();
        if bytes.is_empty() {
            to.send_with_tag(bytes, LAST);
        }
        while let Some(piece) = pieces.next() {
            let tag = if pieces.peek().is_some() { MORE } else { LAST };
            mpi::request::scope(|scope| {
                let mut request = Some(to.immediate_send_with_tag(scope, piece, tag));
                poll(|| match request.take()?.test() {
                    Ok(_) => Some(()),
                    Err(waiting) => {
                        request = Some(waiting);
                        None
                    }
                });
            });
        }
    }

    /// Receives the next bytes from a rank.
    pub(super) fn receive(&self, from: usize) -> Vec<u8> {
        let world = SimpleCommunicator::world();
        let from = world.process_at_rank(from as i32);
        let mut bytes = Vec::new();
        loop {
            let message = poll(|| from.immediate_matched_probe());
            let (mut piece, status): (Vec<u8>, _) = message.matched_receive_vec();
            if bytes.is_empty() {
                bytes = piece
            } else {
                bytes.append(&mut piece)
            }
            if status.tag() == LAST {
                return bytes;
            }
        }
    }

    /// Broadcasts the leader's bytes to all ranks; every rank knows their number.
    pub(super) fn broadcast(&self, bytes: &mut [u8]) {
        let world = SimpleCommunicator::world();
        for piece in bytes.chunks_mut(PIECE) {
            world.process_at_rank(0).broadcast_into(piece);
        }
    }
}

/// Polls with growing pauses until there is a result.
fn poll<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut pause = Duration::from_micros(10);
    for tries in 0u64.. {
        if let Some(result) = attempt() {
            return result;
        }
        if tries < 50 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_micros(500));
        }
    }
    unreachable!("the loop does not end")
}
