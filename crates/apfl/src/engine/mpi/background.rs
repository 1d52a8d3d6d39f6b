//! A thread pool that works while another thread communicates with other ranks.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::engine::threads::WorkerPool;
use crate::error::{Error, Result};
use crate::local_client::Scratch;

/// The results of a pool, in order; a failure is the last of them.
pub struct Results<R>(Receiver<Result<R>>);

impl<R> Results<R> {
    /// Returns the next result, `None` after the last; an error if `leave` returns true while it
    /// waits.
    pub fn next_unless(&self, leave: impl Fn() -> bool) -> Option<Result<R>> {
        loop {
            match self.0.recv_timeout(Duration::from_millis(20)) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if leave() => {
                    return Some(Err(Error::Engine("the request was cancelled".into())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the next result if it is ready.
    pub fn ready(&self) -> Option<Result<R>> {
        self.0.try_recv().ok()
    }
}

impl WorkerPool {
    /// Runs `work` for the items 0 … `count` in parallel while `receive` receives the results.
    pub(super) fn in_background<R: Send, T>(
        &self,
        count: usize,
        name: impl Fn(usize) -> String + Send + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Send + Sync,
        receive: impl FnOnce(Results<R>) -> T,
    ) -> T {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(self.look_ahead);
            scope.spawn(move || {
                let stopped = |_| Error::Engine("the results are no longer received".into());
                let pass_on = |_, result| sender.send(Ok(result)).map_err(stopped);
                if let Err(error) = self.in_order(count, name, work, pass_on) {
                    let _ = sender.send(Err(error)); // the receiver may be gone
                }
            });
            receive(Results(receiver))
        })
    }
}
