//! The clients that live in this process: their shards and their memories.

mod context;
mod finalize;
mod held_out;
mod request;
mod score;
mod train;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

pub use context::RunContext;
pub use finalize::{ClientModels, Finalized, Keep, ModelFiles, ModelPlaces};
pub use request::{Request, Response};
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

/// Where the clients' memories live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateHome {
    /// In RAM.
    Ram,
    /// In a scratch file, at most `budget` bytes of them in RAM.
    Disk {
        /// The file.
        file: PathBuf,
        /// Bytes.
        budget: usize,
    },
}

/// The clients of this process. Nothing is made for a client before it is first drawn.
pub struct Clients<A: Algorithm> {
    context: RunContext,
    algorithm: Arc<A>,
    shards: Vec<Mutex<Option<Arc<Shard>>>>,
    /// Whose data is let go when the next round begins.
    latest: Mutex<Vec<usize>>,
    asides: Vec<OnceLock<Option<Arc<Examples>>>>,
    states: ClientStates<A::ClientState>,
    choices: RwLock<BTreeMap<usize, Candidate>>,
    /// The files that final models are written to, while they are.
    models: Mutex<Option<Arc<ModelFiles>>>,
    /// Whether some client has a test part.
    tested: bool,
}

fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Algorithm> std::fmt::Debug for Clients<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("world", &self.context)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Clients<A> {
    /// All clients of the data set, none of them met yet.
    pub fn new(context: RunContext, algorithm: Arc<A>, home: &StateHome) -> Result<Self> {
        let n = context.dataset.clients();
        let states = match home {
            StateHome::Ram => ClientStates::in_ram(n),
            StateHome::Disk { file, budget } => {
                let fields = algorithm.join(&context.w0).fields();
                ClientStates::Disk(DiskStates::create(file, fields, *budget)?)
            }
        };
        // Where memory is short, data that can be made again is not kept.
        let cached = match (home, context.dataset.is_generated()) {
            (StateHome::Disk { .. }, true) => 0,
            _ => n,
        };
        Ok(Self {
            tested: context.scoring().tested,
            context,
            algorithm,
            shards: (0..cached).map(|_| Mutex::default()).collect(),
            latest: Mutex::default(),
            asides: (0..cached).map(|_| OnceLock::new()).collect(),
            states,
            choices: RwLock::default(),
            models: Mutex::default(),
        })
    }

    /// What every client is given.
    pub fn context(&self) -> &RunContext {
        &self.context
    }

    /// Lets go of the data of the round before where clients are sampled seldom: that of this
    /// round's cohort takes its place in memory.
    fn let_go(&self, cohort: &[usize]) {
        if !(self.context.seldom && self.context.dataset.is_generated()) {
            return;
        }
        let before = std::mem::replace(&mut *locked(&self.latest), cohort.to_vec());
        for place in before.iter().filter_map(|client| self.shards.get(*client)) {
            locked(place).take();
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

    /// Tells clients what they have chosen to serve.
    fn choose(&self, choices: &[(usize, Candidate)]) {
        let mut all = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(choices.iter().copied());
    }

    fn choice(&self, client: usize) -> Option<Candidate> {
        let all = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&client).copied()
    }

    /// A client's data for once: kept only if it is kept already.
    fn shard_for_once(&self, client: usize) -> Result<Arc<Shard>> {
        let kept = self.shards.get(client);
        match kept.and_then(|place| locked(place).clone()) {
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
            .augmenting(changes)
            .dropping(masks)
            .choosing(self.choice(client))
            .privately(*private, noise)
    }

    fn checked(&self, local_client: &LocalClient<'_>, name: &str, when: String) -> Result<()> {
        match local_client.non_finite() {
            None => Ok(()),
            Some(non_finite) => Err(Error::NonFinite {
                client: name.into(),
                place: format!("{when}, local step {}", non_finite.step),
                loss: non_finite.loss,
            }),
        }
    }

    /// A copy of a client's memory.
    fn copy_of(&self, client: usize) -> Result<A::ClientState> {
        let local = self.states.look(client, Clone::clone)?;
        Ok(local.unwrap_or_else(|| self.algorithm.join(&self.context.w0)))
    }

    /// Streams the memories of some clients, all of them drawn before, into an archive.
    fn save(
        &self,
        archive: &ArchiveDirectory,
        name: &str,
        clients: &[usize],
    ) -> Result<ArchivePart> {
        archive.write(name, &self.fields(), clients, &mut |client| {
            let state = self.states.look(client, Pack::to_bytes)?;
            Ok(state.unwrap_or_else(|| self.algorithm.join(&self.context.w0).to_bytes()))
        })
    }

    /// Gives some clients the memories of a part of an archive.
    fn restore_all(&self, archive: &ArchiveDirectory, part: &str, clients: &[usize]) -> Result<()> {
        archive.read(part, &self.fields(), clients, &mut |client, arrays| {
            self.restore(client, arrays)
        })
    }

    /// Whether clients of this algorithm remember anything.
    pub fn remembers(&self) -> bool {
        !self.fields().is_empty()
    }

    /// The arrays of any memory.
    fn fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.context.w0).fields()
    }

    /// The digest of a client's memory; one that has none is as if it had just joined.
    pub fn digest(&self, client: usize) -> Result<[u8; 32]> {
        let digest = self.states.look(client, digest_of)?;
        Ok(digest.unwrap_or_else(|| digest_of(&self.algorithm.join(&self.context.w0))))
    }

    /// Gives a client the memory of those arrays, which must have the fields of any
    /// memory of this run.
    fn restore(&self, client: usize, mut arrays: Arrays) -> Result<()> {
        let wrong = |problem: String| {
            let name = self.context.dataset.name(client);
            Error::Checkpoint(format!("the memory of client '{name}': {problem}"))
        };
        let local = A::ClientState::unpack(&mut arrays).map_err(|e| wrong(e.to_string()))?;
        if local.fields() != self.fields() {
            return Err(wrong("its arrays are not those of this run".into()));
        }
        self.states.put(client, local)
    }
}
