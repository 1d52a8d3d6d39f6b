//! The ranks of a job, and bytes between them.
//!
//! Waiting keeps no core busy, unlike MPI's own blocking calls: the threads beside have
//! work to do. Only the thread that joined the cluster may speak to others.

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

/// This process's place in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its number, from 0. Rank 0 leads.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

/// Being part of a job, until it is dropped.
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
        // Others may wait for what will never come.
        if std::thread::panicking() {
            SimpleCommunicator::world().abort(101);
        }
    }
}

impl Cluster {
    /// Joins the job that this process was started in; alone where there is none.
    pub fn join() -> Result<(Membership, Self)> {
        let no = |why| Error::Engine(format!("engine.kind = \"mpi\": {why}"));
        let (universe, level) = mpi::initialize_with_threading(Threading::Funneled)
            .ok_or_else(|| no("MPI was started before"))?;
        if level < Threading::Funneled {
            return Err(no("this MPI library does not go with threads"));
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

    /// Whether this is the rank that leads.
    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    /// The machine this process is on.
    pub fn host() -> String {
        mpi::environment::processor_name().unwrap_or_else(|_| "an unnamed host".into())
    }

    /// Ends the whole job at once.
    pub fn abort(&self) -> ! {
        SimpleCommunicator::world().abort(1)
    }

    /// Whether something has come from a rank and waits to be received.
    pub(super) fn hears(&self, from: usize) -> bool {
        let world = SimpleCommunicator::world();
        let from = world.process_at_rank(from as i32);
        from.immediate_probe().is_some()
    }

    /// All ranks but the first.
    pub(super) fn others(&self) -> std::ops::Range<usize> {
        1..self.ranks
    }

    /// Sends bytes to a rank, and returns when they are on their way.
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
                patiently(|| match request.take()?.test() {
                    Ok(_) => Some(()),
                    Err(waiting) => {
                        request = Some(waiting);
                        None
                    }
                });
            });
        }
    }

    /// The next bytes from a rank.
    pub(super) fn receive(&self, from: usize) -> Vec<u8> {
        let world = SimpleCommunicator::world();
        let from = world.process_at_rank(from as i32);
        let mut bytes = Vec::new();
        loop {
            let message = patiently(|| from.immediate_matched_probe());
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

    /// Gives every rank the leader's bytes; all know how many they are.
    pub(super) fn broadcast(&self, bytes: &mut [u8]) {
        let world = SimpleCommunicator::world();
        for piece in bytes.chunks_mut(PIECE) {
            world.process_at_rank(0).broadcast_into(piece);
        }
    }
}

/// Asks again and again, ever more seldom, until there is an answer.
fn patiently<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let mut pause = Duration::from_micros(10);
    for tries in 0u64.. {
        if let Some(answer) = ask() {
            return answer;
        }
        if tries < 50 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_micros(500));
        }
    }
    unreachable!("asks for ever")
}
