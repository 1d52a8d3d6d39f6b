//! The thread engine: all clients in this process, on all cores.
//!
//! Every thread takes the next client as soon as it is free, so uneven clients leave no
//! core idle. Responses are passed on in client order. A thread that runs too far ahead
//! waits, so that a bounded number of responses is in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::reorder::{Origin, ReorderBuffer, panicked};
use super::{Engine, OnResponse};
use crate::algorithm::Algorithm;
use crate::clients::{Clients, Request, RunContext, StateHome};
use crate::error::{Error, Result};
use crate::local_client::Scratch;

/// The thread engine.
pub struct Threads<A: Algorithm> {
    clients: Clients<A>,
    pool: WorkerPool,
}

impl<A: Algorithm> std::fmt::Debug for Threads<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads")
            .field("clients", &self.clients)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Threads<A> {
    /// Starts the engine with `threads` threads; 0: one per core.
    pub fn new(
        context: RunContext,
        algorithm: Arc<A>,
        threads: usize,
        home: &StateHome,
    ) -> Result<Self> {
        let response_bytes = 4 * context.w0.len();
        // A thread without a client would have nothing to do.
        let threads = count(threads).min(context.dataset.clients().max(1));
        Ok(Self {
            clients: Clients::new(context, algorithm, home)?,
            pool: WorkerPool::new(threads, response_bytes)?,
        })
    }
}

impl<A: Algorithm> Engine<A> for Threads<A> {
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let local = &self.clients;
        if request.is_for_processes() {
            let first = clients.first().copied().unwrap_or_default();
            on_response(first, local.handle_together(request, clients)?)?;
            return Ok(Vec::new());
        }
        local.begin(request, clients)?;
        self.pool.in_order(
            clients.len(),
            |k| local.context().dataset.name(clients[k]),
            |k, scratch| local.handle((k, clients[k]), request, scratch),
            |k, response| on_response(clients[k], response),
        )?;
        local.end()?;
        Ok(Vec::new())
    }
}

/// Returns the number of threads; 0 stands for one per core.
pub fn count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// A pool of threads, each with scratch memory.
pub struct WorkerPool {
    pool: rayon::ThreadPool,
    scratches: Vec<Mutex<Scratch>>,
    /// How far ahead of the oldest unfinished item a thread may start.
    pub(super) look_ahead: usize,
}

/// Memory for responses that wait for earlier ones.
const WAITING_BYTES: usize = 64 << 20;

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerPool")
            .field("threads", &self.scratches.len())
            .finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// Starts `threads` threads (0: one per core) for results of about `item_bytes` bytes.
    pub fn new(threads: usize, item_bytes: usize) -> Result<Self> {
        let threads = count(threads);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|k| format!("apfl-{k}"))
            .build()
            .map_err(|e| Error::Engine(format!("cannot start {threads} threads: {e}")))?;
        Ok(Self {
            pool,
            scratches: (0..threads).map(|_| Mutex::default()).collect(),
            look_ahead: (WAITING_BYTES / item_bytes.max(1))
                .min(4096)
                .max(2 * threads),
        })
    }

    /// Runs `work` for the items 0 … `count` in parallel and passes the results to `sink` in
    /// order. Of several failures the lowest item's is returned. A panic is a failure with the
    /// item's `name`.
    pub fn in_order<R: Send>(
        &self,
        count: usize,
        name: impl Fn(usize) -> String + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Sync,
        sink: impl FnMut(usize, R) -> Result<()> + Send,
    ) -> Result<()> {
        let buffer = ReorderBuffer::new(sink);
        self.work(&buffer, count, |k| k, &name, &work);
        buffer.finish()
    }

    /// Runs `work` for this pool's positions of a list, as `in_order` does, while `receive` puts
    /// the results of the other positions into the buffer.
    #[cfg(feature = "mpi")]
    pub(super) fn in_order_with<R: Send, S: FnMut(usize, R) -> Result<()> + Send>(
        &self,
        positions: &[usize],
        name: impl Fn(usize) -> String + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Sync,
        sink: S,
        receive: impl FnOnce(&ReorderBuffer<R, S>),
    ) -> Result<()> {
        let buffer = ReorderBuffer::new(sink);
        let received = std::thread::scope(|scope| {
            scope.spawn(|| self.work(&buffer, positions.len(), |k| positions[k], &name, &work));
            let received = catch_unwind(AssertUnwindSafe(|| receive(&buffer)));
            if received.is_err() {
                let stopped = Error::Engine("the results are no longer received".into());
                buffer.fail(&mut buffer.lock(), 0, stopped); // else the pool would wait forever
            }
            received
        });
        if let Err(panic) = received {
            std::panic::resume_unwind(panic);
        }
        buffer.finish()
    }

    /// Runs `work` for the `count` positions of this pool on all threads.
    fn work<R: Send, S: FnMut(usize, R) -> Result<()> + Send>(
        &self,
        buffer: &ReorderBuffer<R, S>,
        count: usize,
        position: impl Fn(usize) -> usize + Sync,
        name: &(impl Fn(usize) -> String + Sync),
        work: &(impl Fn(usize, &mut Scratch) -> Result<R> + Sync),
    ) {
        let next = AtomicUsize::new(0);
        let worker = |scratch: &Mutex<Scratch>| {
            let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let k = next.fetch_add(1, Ordering::Relaxed);
                if k >= count {
                    return;
                }
                let at = position(k);
                if !buffer.wait(at, |queue| k < queue.done + self.look_ahead) {
                    return;
                }
                let result = catch_unwind(AssertUnwindSafe(|| work(at, &mut scratch)))
                    .unwrap_or_else(|panic| Err(panicked(&name(at), &*panic)));
                buffer.put(at, Origin::Pool, name, result);
            }
        };
        self.pool.scope(|scope| {
            for scratch in self.scratches.iter().take(count) {
                scope.spawn(|_| worker(scratch));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 2, 3, 8] {
            let mut pool = WorkerPool::new(threads, 0).unwrap();
            pool.look_ahead = 3;
            let mut seen = Vec::new();
            pool.in_order(
                50,
                |k| k.to_string(),
                |k, _| {
                    std::thread::sleep(std::time::Duration::from_micros((k * 7919 % 400) as u64));
                    Ok(k * k)
                },
                |k, square| {
                    seen.push((k, square));
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..50).map(|k| (k, k * k)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_ends_the_work_with_the_name_and_without_a_hang() {
        let pool = WorkerPool::new(4, 0).unwrap();
        let error = pool
            .in_order(
                100,
                |k| format!("c{k}"),
                |k, _| {
                    assert!(k != 7, "boom");
                    Ok(k)
                },
                |_, _| Ok(()),
            )
            .unwrap_err();
        assert_eq!(error.to_string(), "the work of client 'c7' panicked: boom");
    }

    #[test]
    fn the_failure_of_the_lowest_item_is_reported() {
        for _ in 0..20 {
            let pool = WorkerPool::new(3, 0).unwrap();
            let fail = |k: usize| Err::<(), _>(Error::Engine(format!("item {k}")));
            let error = pool
                .in_order(
                    9,
                    |k| k.to_string(),
                    |k, _| if k >= 3 { fail(k) } else { Ok(()) },
                    |_, ()| Ok(()),
                )
                .unwrap_err();
            assert_eq!(error.to_string(), "item 3");
        }
    }
}
