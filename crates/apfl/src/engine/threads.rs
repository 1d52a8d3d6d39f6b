//! All clients in this process, on all cores.
//!
//! Every thread takes the next client as soon as it is free, so uneven clients leave no
//! core idle. What they give is handed on in the order of the clients by whichever
//! thread completes it; a thread that runs too far ahead waits, so that only a bounded
//! number of replies is ever in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::line::{Line, Whose, panicked};
use super::{Each, Engine};
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
    /// All clients of the world on that many threads; 0: one per core.
    pub fn new(
        context: RunContext,
        algorithm: Arc<A>,
        threads: usize,
        home: &StateHome,
    ) -> Result<Self> {
        let reply_bytes = 4 * context.w0.len();
        // A thread without a client would have nothing to do.
        let threads = count(threads).min(context.dataset.clients().max(1));
        Ok(Self {
            clients: Clients::new(context, algorithm, home)?,
            pool: WorkerPool::new(threads, reply_bytes)?,
        })
    }
}

impl<A: Algorithm> Engine<A> for Threads<A> {
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        clients: &[usize],
        each: &mut Each<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let here = &self.clients;
        if request.is_for_processes() {
            let first = clients.first().copied().unwrap_or_default();
            each(first, here.handle_together(request, clients)?)?;
            return Ok(Vec::new());
        }
        here.begin(request, clients)?;
        self.pool.in_order(
            clients.len(),
            |k| here.context().dataset.name(clients[k]),
            |k, scratch| here.handle((k, clients[k]), request, scratch),
            |k, response| each(clients[k], response),
        )?;
        here.end()?;
        Ok(Vec::new())
    }
}

/// How many threads a number of threads means: 0 is one per core.
pub fn count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// Threads with a scratch each.
pub struct WorkerPool {
    pool: rayon::ThreadPool,
    scratches: Vec<Mutex<Scratch>>,
    /// How far ahead of the oldest unfinished item a thread may start.
    pub(super) look_ahead: usize,
}

/// Memory that replies waiting for their turn may take.
const WAITING_BYTES: usize = 64 << 20;

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerPool")
            .field("threads", &self.scratches.len())
            .finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// That many threads; 0: one per core. `item_bytes`: what one reply takes.
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

    /// Does `work` for 0 … `count` in parallel and hands the results to `sink` in order.
    /// Of several failures the one of the lowest item is reported; a panic is a failure
    /// of the item, whose `name` the message has.
    pub fn in_order<R: Send>(
        &self,
        count: usize,
        name: impl Fn(usize) -> String + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Sync,
        sink: impl FnMut(usize, R) -> Result<()> + Send,
    ) -> Result<()> {
        let line = Line::new(sink);
        self.work(&line, count, |k| k, &name, &work);
        line.finish()
    }

    /// Does `work` for the places of a list that are this pool's, as `in_order` does, while
    /// `take` puts what stands at the others into the line, place by place.
    #[cfg(feature = "mpi")]
    pub(super) fn beside<R: Send, S: FnMut(usize, R) -> Result<()> + Send>(
        &self,
        places: &[usize],
        name: impl Fn(usize) -> String + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Sync,
        sink: S,
        take: impl FnOnce(&Line<R, S>),
    ) -> Result<()> {
        let line = Line::new(sink);
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| self.work(&line, places.len(), |k| places[k], &name, &work));
            let taken = catch_unwind(AssertUnwindSafe(|| take(&line)));
            if taken.is_err() {
                let gone = Error::Engine("nobody takes the results any more".into());
                line.fail(&mut line.lock(), 0, gone); // or the pool would wait for ever
            }
            taken
        });
        if let Err(panic) = taken {
            std::panic::resume_unwind(panic);
        }
        line.finish()
    }

    /// All threads at work: the `count` places of this pool, as they get free.
    fn work<R: Send, S: FnMut(usize, R) -> Result<()> + Send>(
        &self,
        line: &Line<R, S>,
        count: usize,
        place: impl Fn(usize) -> usize + Sync,
        name: &(impl Fn(usize) -> String + Sync),
        work: &(impl Fn(usize, &mut Scratch) -> Result<R> + Sync),
    ) {
        let taken = AtomicUsize::new(0);
        let worker = |scratch: &Mutex<Scratch>| {
            let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let k = taken.fetch_add(1, Ordering::Relaxed);
                if k >= count {
                    return;
                }
                let at = place(k);
                if !line.wait(at, |queue| k < queue.done + self.look_ahead) {
                    return;
                }
                let result = catch_unwind(AssertUnwindSafe(|| work(at, &mut scratch)))
                    .unwrap_or_else(|panic| Err(panicked(&name(at), &*panic)));
                line.put(at, Whose::Pool, name, result);
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
