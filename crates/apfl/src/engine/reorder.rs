//! A reorder buffer: passes results of threads and other processes to one sink, in order.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// Collects results that arrive in any order and passes them to a sink by position. Whichever
/// thread completes the sequence calls the sink.
pub(super) struct ReorderBuffer<R, S> {
    pending: Mutex<Pending<R, S>>,
    changed: Condvar,
}

/// State of a reorder buffer.
pub(super) struct Pending<R, S> {
    /// The first position that was not passed on yet.
    next: usize,
    /// Results of this pool that were passed on.
    pub(super) done: usize,
    waiting: BTreeMap<usize, (R, Origin)>,
    sink: S,
    error: Option<(usize, Error)>,
}

/// The origin of a result.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    Pool,
    #[cfg(feature = "mpi")]
    OtherRank,
}

impl<R, S: FnMut(usize, R) -> Result<()>> ReorderBuffer<R, S> {
    pub(super) fn new(sink: S) -> Self {
        Self {
            pending: Mutex::new(Pending {
                next: 0,
                done: 0,
                waiting: BTreeMap::new(),
                sink,
                error: None,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pending<R, S>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`. Returns false if an earlier position failed, so that this one is not
    /// needed.
    pub(super) fn wait(&self, position: usize, ready: impl Fn(&Pending<R, S>) -> bool) -> bool {
        let mut pending = self.lock();
        while pending.error.is_none() && !ready(&pending) {
            pending = self
                .changed
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
        pending
            .error
            .as_ref()
            .is_none_or(|(failed, _)| *failed >= position)
    }

    /// Waits until all earlier positions were passed on, then puts the result of another rank.
    /// Returns whether to continue.
    #[cfg(feature = "mpi")]
    pub(super) fn put_when_next(
        &self,
        position: usize,
        name: &impl Fn(usize) -> String,
        result: impl FnOnce() -> Result<R>,
    ) -> bool {
        let mut pending = self.lock();
        loop {
            match &pending.error {
                Some((failed, _)) if *failed < position => return false,
                _ if pending.next == position => break,
                _ => {}
            }
            pending = self
                .changed
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(pending);
        self.put(position, Origin::OtherRank, name, result());
        true
    }

    /// Puts the result of a position and passes on every result that is next.
    pub(super) fn put(
        &self,
        position: usize,
        origin: Origin,
        name: &impl Fn(usize) -> String,
        result: Result<R>,
    ) {
        let mut pending = self.lock();
        let failed = match result {
            Err(error) => Some((position, error)),
            Ok(result) => {
                pending.waiting.insert(position, (result, origin));
                catch_unwind(AssertUnwindSafe(|| pending.pass_on()))
                    .unwrap_or_else(|panic| Some((position, panicked(&name(position), &*panic))))
            }
        };
        match failed {
            Some((position, error)) => self.fail(&mut pending, position, error),
            None => self.changed.notify_all(),
        }
    }

    /// Records the failure of a position; the lowest position counts.
    pub(super) fn fail(&self, pending: &mut Pending<R, S>, position: usize, error: Error) {
        if pending
            .error
            .as_ref()
            .is_none_or(|(before, _)| position < *before)
        {
            pending.error = Some((position, error));
        }
        self.changed.notify_all();
    }

    pub(super) fn finish(self) -> Result<()> {
        let pending = self.pending.into_inner();
        match pending.unwrap_or_else(PoisonError::into_inner).error {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }
}

impl<R, S: FnMut(usize, R) -> Result<()>> Pending<R, S> {
    fn pass_on(&mut self) -> Option<(usize, Error)> {
        // Positions before a failure are still passed on: only then is the lowest failure known
        // where several processes work on one list.
        while self
            .error
            .as_ref()
            .is_none_or(|(failed, _)| self.next < *failed)
        {
            let k = self.next;
            let (result, origin) = self.waiting.remove(&k)?;
            self.next += 1;
            self.done += usize::from(origin == Origin::Pool);
            if let Err(error) = (self.sink)(k, result) {
                return Some((k, error));
            }
        }
        None
    }
}

/// Returns the error for a client whose computation panicked.
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
