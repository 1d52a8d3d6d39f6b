//! A pool at work beside the thread that speaks to other ranks.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::engine::threads::WorkerPool;
use crate::error::{Error, Result};
use crate::local_client::Scratch;

/// The results of a pool, in order; a failure is the last of them.
pub struct Results<R>(Receiver<Result<R>>);

impl<R> Results<R> {
    /// The next one, `None` after the last; unless `leave` says, while it waits, that nobody wants
    /// it any more.
    pub fn next_unless(&self, leave: impl Fn() -> bool) -> Option<Result<R>> {
        loop {
            match self.0.recv_timeout(Duration::from_millis(20)) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if leave() => {
                    return Some(Err(Error::Engine("left undone".into())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The next one, if it is there already.
    pub fn ready(&self) -> Option<Result<R>> {
        self.0.try_recv().ok()
    }
}

impl WorkerPool {
    /// Does `work` for 0 … `count` in parallel while `take` takes the results.
    pub(super) fn ahead<R: Send, T>(
        &self,
        count: usize,
        name: impl Fn(usize) -> String + Send + Sync,
        work: impl Fn(usize, &mut Scratch) -> Result<R> + Send + Sync,
        take: impl FnOnce(Results<R>) -> T,
    ) -> T {
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(self.look_ahead);
            scope.spawn(move || {
                let gone = |_| Error::Engine("nobody takes the results any more".into());
                let hand_on = |_, result| send.send(Ok(result)).map_err(gone);
                if let Err(error) = self.in_order(count, name, work, hand_on) {
                    let _ = send.send(Err(error)); // whoever has gone does not want to know
                }
            });
            take(Results(receive))
        })
    }
}
