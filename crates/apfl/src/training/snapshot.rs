//! The state of an earlier round, to which training can return.

use super::{Recorded, Training};
use crate::clients::Request;
use crate::error::{Error, Result};
use crate::pack::{Arrays, Field, arrays_from_bytes};

/// The server's state after a round. The states of clients are where the clients are.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    round: u64,
    step: u64,
    fields: Vec<Field>,
    bytes: Vec<u8>,
}

impl Training {
    /// Returns the round and the step of the snapshot, if there is one.
    pub(crate) fn snapshot_at(&self) -> Option<(u64, u64)> {
        let snapshot = self.snapshot.as_ref()?;
        Some((snapshot.round, snapshot.step))
    }

    /// Returns the arrays of the server's state in the snapshot.
    pub(crate) fn snapshot_server(&self) -> Option<(&[Field], &[u8])> {
        let snapshot = self.snapshot.as_ref()?;
        Some((&snapshot.fields, &snapshot.bytes))
    }

    /// Keeps the current state in place of the last snapshot.
    pub(crate) fn take_snapshot(&mut self) -> Result<()> {
        let since = self.snapshot_at().map_or(0, |(round, _)| round);
        let changed = self.sampled_in(since + 1..=self.round);
        let clients: Vec<usize> = changed.into_iter().collect();
        (self.server).exchange(&Request::Snapshot, &clients, &mut |_, _| Ok(()))?;
        let (fields, bytes) = self.server.state();
        self.snapshot = Some(Snapshot {
            round: self.round,
            step: self.step,
            fields,
            bytes,
        });
        Ok(())
    }

    /// Restores the server's part of a snapshot; [`Training::restore_clients`] restores the rest.
    pub(crate) fn restore_snapshot(
        &mut self,
        round: u64,
        step: u64,
        fields: Vec<Field>,
        bytes: Vec<u8>,
    ) {
        self.snapshot = Some(Snapshot {
            round,
            step,
            fields,
            bytes,
        });
    }

    /// Returns to the state of the snapshot, after which no round is trained. Without a snapshot
    /// the state stays.
    pub(crate) fn revert(&mut self) -> Result<()> {
        self.flush_scores()?;
        let Some(snapshot) = self.snapshot.take() else {
            return Ok(());
        };
        if snapshot.round < self.round {
            let changed = self.sampled_in(snapshot.round + 1..=self.round);
            let clients: Vec<usize> = changed.into_iter().collect();
            (self.server).exchange(&Request::Revert, &clients, &mut |_, _| Ok(()))?;
            let arrays: Arrays = arrays_from_bytes(&snapshot.fields, &snapshot.bytes)
                .map_err(|e| Error::Checkpoint(format!("the server's state: {e}")))?;
            let Recorded { absent, .. } = &mut self.recorded;
            absent.retain(|round, _| *round <= snapshot.round);
            self.restore_server(snapshot.round, snapshot.step, arrays)?;
        }
        self.end_here();
        Ok(())
    }
}
