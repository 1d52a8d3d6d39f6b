//! A copy of client states, to which a run can return.

use super::{Clients, StateHome, StateSet, states_at};
use crate::algorithm::Algorithm;
use crate::client_states::ClientStates;
use crate::error::Result;

impl<A: Algorithm> Clients<A> {
    /// Returns a set of client states.
    pub(super) fn set(&self, states: StateSet) -> Result<&ClientStates<A::ClientState>> {
        match states {
            StateSet::Current => Ok(&self.states),
            StateSet::Snapshot => self.snapshot(),
        }
    }

    /// Returns the snapshot, which lives where the states do.
    fn snapshot(&self) -> Result<&ClientStates<A::ClientState>> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let home = match &self.home {
            StateHome::Ram => StateHome::Ram,
            StateHome::Disk { file, budget } => {
                let mut name = file.clone().into_os_string();
                name.push("-snapshot");
                StateHome::Disk {
                    file: name.into(),
                    budget: *budget,
                }
            }
        };
        let clients = self.context.dataset.clients();
        let created = states_at(&home, clients, || self.fields())?;
        Ok(self.snapshot.get_or_init(|| created))
    }

    /// Copies the states of some clients to the snapshot.
    pub(super) fn take_snapshot(&self, clients: &[usize]) -> Result<()> {
        let snapshot = self.snapshot()?;
        for client in clients {
            if let Some(state) = self.states.inspect(*client, Clone::clone)? {
                snapshot.put(*client, state)?;
            }
        }
        Ok(())
    }

    /// Replaces the states of some clients by those of the snapshot. A client without one has its
    /// initial state.
    pub(super) fn revert(&self, clients: &[usize]) -> Result<()> {
        let snapshot = self.snapshot()?;
        for client in clients {
            let state = snapshot.inspect(*client, Clone::clone)?;
            let state = state.unwrap_or_else(|| self.algorithm.join(&self.context.w0));
            self.states.put(*client, state)?;
        }
        Ok(())
    }
}
