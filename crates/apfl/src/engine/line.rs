//! Results on their way from threads, and from other processes, to one sink, in order.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// Results on their way to a sink, which takes them in order from whoever completes the row.
pub(super) struct Line<R, S> {
    queue: Mutex<Queue<R, S>>,
    moved: Condvar,
}

/// What a line is made of.
pub(super) struct Queue<R, S> {
    /// The first place that has not been handed on.
    next: usize,
    /// How many results of this pool have been handed on.
    pub(super) done: usize,
    waiting: BTreeMap<usize, (R, Whose)>,
    sink: S,
    error: Option<(usize, Error)>,
}

/// Where a result comes from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Whose {
    Pool,
    #[cfg(feature = "mpi")]
    Elsewhere,
}

impl<R, S: FnMut(usize, R) -> Result<()>> Line<R, S> {
    pub(super) fn new(sink: S) -> Self {
        Self {
            queue: Mutex::new(Queue {
                next: 0,
                done: 0,
                waiting: BTreeMap::new(),
                sink,
                error: None,
            }),
            moved: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue<R, S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is time to see to a place; false where something before it went wrong, so
    /// that it need not be seen to.
    pub(super) fn wait(&self, place: usize, ready: impl Fn(&Queue<R, S>) -> bool) -> bool {
        let mut queue = self.lock();
        while queue.error.is_none() && !ready(&queue) {
            queue = self
                .moved
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue
            .error
            .as_ref()
            .is_none_or(|(failed, _)| *failed >= place)
    }

    /// Puts in what `made` makes for a place that is not the pool's, when all before it has been
    /// handed on. Returns whether to go on.
    #[cfg(feature = "mpi")]
    pub(super) fn put_in_turn(
        &self,
        place: usize,
        name: &impl Fn(usize) -> String,
        made: impl FnOnce() -> Result<R>,
    ) -> bool {
        let mut queue = self.lock();
        loop {
            match &queue.error {
                Some((failed, _)) if *failed < place => return false,
                _ if queue.next == place => break,
                _ => {}
            }
            queue = self
                .moved
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        self.put(place, Whose::Elsewhere, name, made());
        true
    }

    /// Puts in the result of a place, and hands on what is complete with it.
    pub(super) fn put(
        &self,
        place: usize,
        whose: Whose,
        name: &impl Fn(usize) -> String,
        result: Result<R>,
    ) {
        let mut queue = self.lock();
        let failed = match result {
            Err(error) => Some((place, error)),
            Ok(result) => {
                queue.waiting.insert(place, (result, whose));
                catch_unwind(AssertUnwindSafe(|| queue.hand_on()))
                    .unwrap_or_else(|panic| Some((place, panicked(&name(place), &*panic))))
            }
        };
        match failed {
            Some((place, error)) => self.fail(&mut queue, place, error),
            None => self.moved.notify_all(),
        }
    }

    /// Something went wrong at a place; the lowest counts.
    pub(super) fn fail(&self, queue: &mut Queue<R, S>, place: usize, error: Error) {
        if queue
            .error
            .as_ref()
            .is_none_or(|(before, _)| place < *before)
        {
            queue.error = Some((place, error));
        }
        self.moved.notify_all();
    }

    pub(super) fn finish(self) -> Result<()> {
        let queue = self.queue.into_inner();
        match queue.unwrap_or_else(PoisonError::into_inner).error {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }
}

impl<R, S: FnMut(usize, R) -> Result<()>> Queue<R, S> {
    fn hand_on(&mut self) -> Option<(usize, Error)> {
        // What comes before a failure is handed on: only then is the lowest failure known
        // where several processes work on one list.
        while self
            .error
            .as_ref()
            .is_none_or(|(failed, _)| self.next < *failed)
        {
            let k = self.next;
            let (result, whose) = self.waiting.remove(&k)?;
            self.next += 1;
            self.done += usize::from(whose == Whose::Pool);
            if let Err(error) = (self.sink)(k, result) {
                return Some((k, error));
            }
        }
        None
    }
}

/// What is said of a client whose work panicked.
pub(super) fn panicked(client: &str, panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    Error::Panic {
        client: client.into(),
        message,
    }
}
