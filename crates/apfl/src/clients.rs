//! The clients of this process: their shards and states.

mod context;
mod finalize;
mod held_out;
mod request;
mod score;
mod snapshot;
mod train;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

pub use context::{Rate, RunContext};
pub use finalize::{ClientModels, Finalized, Keep, ModelFiles, ModelPlaces};
pub use request::{EvaluationRows, Request, Response, StateSet};
pub use train::Reply;

use crate::algorithm::Algorithm;
use crate::choice::Candidate;
use crate::client_states::{ClientStates, DiskStates};
use crate::data::{Examples, Shard};
use crate::digest::digest_of;
use crate::error::{Error, Result};
use crate::files::archive::{ArchiveDirectory, ArchivePart};
use crate::local_client::{LocalClient, Scratch};
use crate::pack::{Arrays, Field, Pack};
use crate::privacy::NoiseSeed;
use crate::rng::{Purpose, stream};

/// Where client states are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateHome {
    /// In RAM.
    Ram,
    /// In a scratch file, with at most `budget` bytes of them in RAM.
    Disk {
        /// The file.
        file: PathBuf,
        /// Bytes of RAM.
        budget: usize,
    },
}

/// The clients of this process. A client's shard and state are created when it is first sampled.
pub struct Clients<A: Algorithm> {
    context: RunContext,
    algorithm: Arc<A>,
    shards: Vec<Mutex<Option<Arc<Shard>>>>,
    /// The cohort of the last round, whose data may be dropped when the next round begins.
    last_cohort: Mutex<Vec<usize>>,
    held_out: Vec<OnceLock<Option<Arc<Examples>>>>,
    states: ClientStates<A::ClientState>,
    /// Where client states live.
    home: StateHome,
    /// Copies of the states, once a snapshot was taken.
    snapshot: OnceLock<ClientStates<A::ClientState>>,
    choices: RwLock<BTreeMap<usize, Candidate>>,
    /// The files for final models, while a finalization is in progress.
    models: Mutex<Option<Arc<ModelFiles>>>,
    /// Whether any client has test rows.
    tested: bool,
}

fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Algorithm> std::fmt::Debug for Clients<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("context", &self.context)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Clients<A> {
    /// Creates the clients of a data set; none has been sampled yet.
    pub fn new(context: RunContext, algorithm: Arc<A>, home: &StateHome) -> Result<Self> {
        let n = context.dataset.clients();
        let states = states_at(home, n, || algorithm.join(&context.w0).fields())?;
        // With states on disk memory is short: generated data is not cached.
        let cached = match (home, context.dataset.is_generated()) {
            (StateHome::Disk { .. }, true) => 0,
            _ => n,
        };
        Ok(Self {
            tested: context.scoring().tested,
            context,
            algorithm,
            shards: (0..cached).map(|_| Mutex::default()).collect(),
            last_cohort: Mutex::default(),
            held_out: (0..cached).map(|_| OnceLock::new()).collect(),
            states,
            home: home.clone(),
            snapshot: OnceLock::new(),
            choices: RwLock::default(),
            models: Mutex::default(),
        })
    }

    /// Returns the run context.
    pub fn context(&self) -> &RunContext {
        &self.context
    }

    /// Drops the previous cohort's data if clients are rarely sampled and the data can be
    /// generated again.
    fn drop_last_cohort(&self, cohort: &[usize]) {
        if !(self.context.rarely_sampled && self.context.dataset.is_generated()) {
            return;
        }
        let before = std::mem::replace(&mut *locked(&self.last_cohort), cohort.to_vec());
        for shard in before.iter().filter_map(|client| self.shards.get(*client)) {
            locked(shard).take();
        }
    }

    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let Some(place) = self.shards.get(client) else {
            return self.context.dataset.shard(client);
        };
        if let Some(shard) = &*locked(place) {
            return Ok(shard.clone());
        }
        let shard = self.context.dataset.shard(client)?;
        Ok(locked(place).get_or_insert(shard).clone())
    }

    /// Notes which candidates clients have chosen.
    fn choose(&self, choices: &[(usize, Candidate)]) {
        let mut all = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(choices.iter().copied());
    }

    fn choice(&self, client: usize) -> Option<Candidate> {
        let all = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&client).copied()
    }

    /// Returns a client's data without caching it.
    fn shard_uncached(&self, client: usize) -> Result<Arc<Shard>> {
        let cached = self.shards.get(client);
        match cached.and_then(|place| locked(place).clone()) {
            Some(shard) => Ok(shard),
            None => self.context.dataset.shard(client),
        }
    }

    fn local_client<'a>(
        &'a self,
        train: &'a Examples,
        purpose: Purpose,
        round: u64,
        client: usize,
        scratch: &'a mut Scratch,
    ) -> LocalClient<'a> {
        let RunContext {
            seed,
            model,
            local_training,
            private,
            ..
        } = &self.context;
        let from = private.map_or(NoiseSeed::Seed, |how| how.noise_seed);
        let rng = from.stream(*seed, purpose, round, client as u64);
        let changes = stream(*seed, Purpose::Augmentation, round, client as u64);
        let masks = stream(*seed, Purpose::Dropout, round, client as u64);
        let noise = from.stream(*seed, Purpose::Noise, round, client as u64);
        LocalClient::new(&**model, train, *local_training, round, rng, scratch)
            .with_augmentation(changes)
            .with_dropout(masks)
            .with_choice(self.choice(client))
            .with_privacy(*private, noise)
    }

    fn require_finite(
        &self,
        local_client: &LocalClient<'_>,
        name: &str,
        when: String,
    ) -> Result<()> {
        match local_client.non_finite() {
            None => Ok(()),
            Some(non_finite) => Err(Error::NonFinite {
                client: name.into(),
                place: format!("{when}, local step {}", non_finite.step),
                loss: non_finite.loss,
            }),
        }
    }

    /// Returns a copy of a client's state.
    fn copy_state(&self, client: usize) -> Result<A::ClientState> {
        let local = self.states.inspect(client, Clone::clone)?;
        Ok(local.unwrap_or_else(|| self.algorithm.join(&self.context.w0)))
    }

    /// Writes the states of some clients to an archive.
    fn save(
        &self,
        archive: &ArchiveDirectory,
        name: &str,
        states: StateSet,
        clients: &[usize],
    ) -> Result<ArchivePart> {
        let states = self.set(states)?;
        archive.write(name, &self.fields(), clients, &mut |client| {
            let state = states.inspect(client, Pack::to_bytes)?;
            Ok(state.unwrap_or_else(|| self.algorithm.join(&self.context.w0).to_bytes()))
        })
    }

    /// Restores the states of some clients from a part of an archive.
    fn restore_all(
        &self,
        archive: &ArchiveDirectory,
        part: &str,
        states: StateSet,
        clients: &[usize],
    ) -> Result<()> {
        let states = self.set(states)?;
        archive.read(part, &self.fields(), clients, &mut |client, arrays| {
            states.put(client, self.unpacked(client, arrays)?)
        })
    }

    /// Returns whether clients of this algorithm have a state.
    pub fn is_stateful(&self) -> bool {
        !self.fields().is_empty()
    }

    /// Returns the fields of a client state.
    fn fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.context.w0).fields()
    }

    /// Returns the digest of a client's state; that of the initial state if it has none yet.
    pub fn digest(&self, client: usize) -> Result<[u8; 32]> {
        let digest = self.states.inspect(client, digest_of)?;
        Ok(digest.unwrap_or_else(|| digest_of(&self.algorithm.join(&self.context.w0))))
    }

    /// Returns a client's state from arrays, which must have the fields of this run's states.
    fn unpacked(&self, client: usize, mut arrays: Arrays) -> Result<A::ClientState> {
        let damaged = |problem: String| {
            let name = self.context.dataset.name(client);
            Error::Checkpoint(format!("the state of client '{name}': {problem}"))
        };
        let local = A::ClientState::unpack(&mut arrays).map_err(|e| damaged(e.to_string()))?;
        if local.fields() != self.fields() {
            return Err(damaged("its arrays differ from those of this run".into()));
        }
        Ok(local)
    }
}

/// Creates an empty store of client states.
fn states_at<L: Pack + Clone>(
    home: &StateHome,
    clients: usize,
    fields: impl FnOnce() -> Vec<Field>,
) -> Result<ClientStates<L>> {
    Ok(match home {
        StateHome::Ram => ClientStates::in_ram(clients),
        StateHome::Disk { file, budget } => {
            ClientStates::Disk(DiskStates::create(file, fields(), *budget)?)
        }
    })
}
