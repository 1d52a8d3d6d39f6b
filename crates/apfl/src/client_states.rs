//! Storage of client states: in RAM, or in a file with the most recent ones in RAM.
//!
//! All states of a run have the same fields, so the file has slots of equal size. A client gets a
//! slot when its state first leaves RAM: the file grows with the number of clients sampled so far,
//! not with that of all clients.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::files::slots::Slots;
use crate::pack::{Field, Pack, arrays_from_bytes};

/// The states of this process's clients.
pub enum ClientStates<L> {
    /// All in RAM.
    Ram(Vec<Mutex<Option<Box<L>>>>),
    /// The most recent in RAM, the others in a file.
    Disk(DiskStates<L>),
}

impl<L: Pack + Clone> ClientStates<L> {
    /// Creates an empty store in RAM for `clients` clients.
    pub fn in_ram(clients: usize) -> Self {
        Self::Ram((0..clients).map(|_| Mutex::new(None)).collect())
    }

    /// Takes a client's state out, to be put back with [`ClientStates::put`]; `None` if it has
    /// none yet.
    pub fn take(&self, client: usize) -> Result<Option<L>> {
        match self {
            Self::Ram(slots) => Ok(locked(&slots[client])
                .take()
                .map(|client_state| *client_state)),
            Self::Disk(disk) => disk.take(client),
        }
    }

    /// Stores a client's state.
    pub fn put(&self, client: usize, client_state: L) -> Result<()> {
        match self {
            Self::Ram(slots) => {
                *locked(&slots[client]) = Some(Box::new(client_state));
                Ok(())
            }
            Self::Disk(disk) => disk.put(client, client_state),
        }
    }

    /// Applies a function to a client's state in place.
    pub fn inspect<T>(&self, client: usize, inspect: impl FnOnce(&L) -> T) -> Result<Option<T>> {
        match self {
            Self::Ram(slots) => Ok(locked(&slots[client])
                .as_ref()
                .map(|client_state| inspect(client_state))),
            Self::Disk(disk) => disk.inspect(client, inspect),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Client states that may be larger than RAM.
pub struct DiskStates<L> {
    fields: Vec<Field>,
    /// How many states may stay in RAM.
    capacity: usize,
    state: Mutex<State<L>>,
    file: Slots,
}

struct State<L> {
    /// States in RAM, with the time they were put there.
    hot: HashMap<usize, (u64, L)>,
    /// Clients by that time; the oldest is evicted first.
    by_time: BTreeMap<u64, usize>,
    /// The slot of a client's state in the file; current unless the state is in RAM.
    slots: HashMap<usize, u64>,
    clock: u64,
}

impl<L: Pack + Clone> DiskStates<L> {
    /// Creates an empty store in the file `path`, which is removed when the store is dropped.
    /// At most `budget` bytes of states with `fields` stay in RAM.
    pub fn create(path: &Path, fields: Vec<Field>, budget: usize) -> Result<Self> {
        let slot_bytes: usize = fields.iter().map(Field::bytes).sum();
        Ok(Self {
            fields,
            capacity: (budget / slot_bytes.max(1)).max(1),
            state: Mutex::new(State {
                hot: HashMap::new(),
                by_time: BTreeMap::new(),
                slots: HashMap::new(),
                clock: 0,
            }),
            file: Slots::create(path, slot_bytes)?,
        })
    }

    fn take(&self, client: usize) -> Result<Option<L>> {
        let mut state = locked(&self.state);
        if let Some((time, client_state)) = state.hot.remove(&client) {
            state.by_time.remove(&time);
            return Ok(Some(client_state));
        }
        let slot = state.slots.get(&client).copied();
        drop(state);
        slot.map(|slot| self.read(slot)).transpose()
    }

    fn put(&self, client: usize, client_state: L) -> Result<()> {
        let mut evicted = Vec::new();
        let mut state = locked(&self.state);
        state.clock += 1;
        let time = state.clock;
        if let Some((before, _)) = state.hot.insert(client, (time, client_state)) {
            state.by_time.remove(&before);
        }
        state.by_time.insert(time, client);
        while state.hot.len() > self.capacity {
            let (_, oldest) = state.by_time.pop_first().expect("as many times as states");
            let (_, client_state) = state.hot.remove(&oldest).expect("as many states as times");
            let next = state.slots.len() as u64;
            evicted.push((*state.slots.entry(oldest).or_insert(next), client_state));
        }
        // Written before the lock is released: no slot may be read before its bytes are there.
        for (slot, client_state) in evicted {
            self.write(slot, &client_state)?;
        }
        Ok(())
    }

    fn inspect<T>(&self, client: usize, inspect: impl FnOnce(&L) -> T) -> Result<Option<T>> {
        let state = locked(&self.state);
        if let Some((_, client_state)) = state.hot.get(&client) {
            return Ok(Some(inspect(client_state)));
        }
        let slot = state.slots.get(&client).copied();
        drop(state);
        slot.map(|slot| self.read(slot).map(|client_state| inspect(&client_state)))
            .transpose()
    }

    fn read(&self, slot: u64) -> Result<L> {
        arrays_from_bytes(&self.fields, &self.file.read(slot)?)
            .and_then(|mut arrays| L::unpack(&mut arrays))
            .map_err(|e| Error::in_file(self.file.path(), format!("slot {slot}: {e}")))
    }

    fn write(&self, slot: u64, client_state: &L) -> Result<()> {
        self.file.write(slot, &client_state.to_bytes())
    }
}

impl<L> Drop for DiskStates<L> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.file.path()); // a scratch file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::ModelOnly;

    #[test]
    fn a_full_store_keeps_the_latest_in_ram_and_everything_in_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memories.bin");
        let client_state = |k: usize| ModelOnly {
            model: vec![k as f32, -1.0],
        };
        let disk = DiskStates::create(&path, client_state(0).fields(), 3 * 8).unwrap();
        let store = ClientStates::Disk(disk);
        for k in 0..10 {
            assert_eq!(store.take(k).unwrap(), None);
            store.put(k, client_state(k)).unwrap();
        }
        // Ten states of 8 bytes, three of them in RAM: seven slots.
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 7 * 8);
        assert_eq!(store.inspect(2, |m| m.model[0]).unwrap(), Some(2.0));
        assert_eq!(store.take(2).unwrap(), Some(client_state(2)));
        store.put(2, client_state(200)).unwrap();
        for k in 0..10 {
            let expected = if k == 2 { 200 } else { k };
            assert_eq!(store.take(k).unwrap(), Some(client_state(expected)));
            store.put(k, client_state(expected)).unwrap();
        }
        drop(store);
        assert!(!path.exists());
    }
}
