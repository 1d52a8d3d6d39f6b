//! The clients that live in this process: their shards and their memories.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::data::{Dataset, Examples, Shard};
use crate::digest::digest_of;
use crate::error::{Error, Result};
use crate::memories::{DiskMemories, Memories};
use crate::metrics::{ByModel, Tallies};
use crate::model::Model;
use crate::pack::{Arrays, Field, Pack};
use crate::params::{Params, bytes_of};
use crate::rng::{Purpose, stream};
use crate::site::{Pace, Predictor, PrivateSteps, Scratch, Site};
use crate::store::archive::{MemoryArchive, Written};
use crate::store::slots::Slots;

/// What every client is given: the same on every thread and every machine.
#[derive(Clone)]
pub struct World {
    /// The seed of training.
    pub seed: u64,
    /// The clients' data.
    pub dataset: Arc<dyn Dataset>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// w⁰
    pub w0: Arc<Params>,
    /// How clients train.
    pub pace: Pace,
    /// Whether a client whose loss is not finite is left out of the round, its memory as
    /// before, instead of ending the run.
    pub skip_nonfinite: bool,
    /// How clients' steps are private, where they are.
    pub private: Option<PrivateSteps>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("seed", &self.seed)
            .field("clients", &self.dataset.clients())
            .field("parameters", &self.w0.len())
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// A client's answer to a round.
#[derive(Debug)]
pub struct Reply<U> {
    /// What travels back.
    pub update: U,
    /// Scores of (localized, personal), where they were asked for.
    pub tallies: Option<(Tallies, Tallies)>,
    /// αᵢ after the round.
    pub mixing: Option<f32>,
    /// Local steps it took.
    pub steps: u64,
}

/// What delivery leaves at a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivered {
    /// The client's index.
    pub client: usize,
    /// Its name.
    pub name: String,
    /// Its (training, validation) examples.
    pub examples: (usize, usize),
    /// Its training examples of every class.
    pub classes: Vec<u64>,
    /// αᵢ
    pub mixing: Option<f32>,
    /// Validation accuracy of always answering its commonest training class.
    pub majority: Option<f64>,
    /// The scores.
    pub tallies: ByModel<Tallies>,
    /// Its models, where they are to be handed over.
    pub models: Option<ClientModels>,
}

/// The models a client ends with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientModels {
    /// The model it serves, as [`Predictor::flat`] returns it.
    pub personal: Params,
    /// Its copy of the shared model after its local steps.
    pub localized: Params,
    /// vᵢ where there is one, else the localized model.
    pub local: Params,
}

/// What becomes of the models that delivery makes.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// Nothing: scores only.
    Nothing,
    /// They are in [`Delivered::models`].
    HandOver,
    /// The process that owns a client writes them, and nobody else sees them.
    In(&'a ModelFiles),
}

/// Files with a slot for every client that is delivered to.
#[derive(Debug)]
pub struct ModelFiles {
    /// The models they serve.
    pub personal: Slots,
    /// Their copies of the shared model.
    pub localized: Slots,
    /// Their own.
    pub local: Slots,
}

impl ModelFiles {
    fn write(&self, place: usize, models: &ClientModels) -> Result<()> {
        let place = place as u64;
        self.personal.write(place, &bytes_of(&models.personal))?;
        self.localized.write(place, &bytes_of(&models.localized))?;
        self.local.write(place, &bytes_of(&models.local))
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.personal.sync()?;
        self.localized.sync()?;
        self.local.sync()
    }
}

/// Where the clients' memories live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryHome {
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
    world: World,
    algorithm: Arc<A>,
    shards: Vec<OnceLock<Arc<Shard>>>,
    memories: Memories<A::Memory>,
}

impl<A: Algorithm> std::fmt::Debug for Clients<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("world", &self.world)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Clients<A> {
    /// All clients of the data set, none of them met yet.
    pub fn new(world: World, algorithm: Arc<A>, home: &MemoryHome) -> Result<Self> {
        let n = world.dataset.clients();
        let memories = match home {
            MemoryHome::Ram => Memories::in_ram(n),
            MemoryHome::Disk { file, budget } => {
                let fields = algorithm.join(&world.w0).fields();
                Memories::Disk(DiskMemories::create(file, fields, *budget)?)
            }
        };
        // Where memory is short, data that can be made again is not kept.
        let cached = match (home, world.dataset.is_generated()) {
            (MemoryHome::Disk { .. }, true) => 0,
            _ => n,
        };
        Ok(Self {
            world,
            algorithm,
            shards: (0..cached).map(|_| OnceLock::new()).collect(),
            memories,
        })
    }

    /// What every client is given.
    pub fn world(&self) -> &World {
        &self.world
    }

    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let Some(place) = self.shards.get(client) else {
            return self.world.dataset.shard(client);
        };
        if let Some(shard) = place.get() {
            return Ok(shard.clone());
        }
        let shard = self.world.dataset.shard(client)?;
        Ok(place.get_or_init(|| shard).clone())
    }

    /// A client's data for once: kept only if it is kept already.
    fn shard_for_once(&self, client: usize) -> Result<Arc<Shard>> {
        match self.shards.get(client).and_then(OnceLock::get) {
            Some(shard) => Ok(shard.clone()),
            None => self.world.dataset.shard(client),
        }
    }

    fn site<'a>(
        &'a self,
        train: &'a Examples,
        purpose: Purpose,
        round: u64,
        client: usize,
        scratch: &'a mut Scratch,
    ) -> Site<'a> {
        let World {
            seed,
            model,
            pace,
            private,
            ..
        } = &self.world;
        let rng = stream(*seed, purpose, round, client as u64);
        let changes = stream(*seed, Purpose::Augmentation, round, client as u64);
        let noise = stream(*seed, Purpose::Noise, round, client as u64);
        Site::new(&**model, train, *pace, round, rng, scratch)
            .augmenting(changes)
            .privately(*private, noise)
    }

    fn checked(&self, site: &Site<'_>, name: &str, when: String) -> Result<()> {
        match site.trouble() {
            None => Ok(()),
            Some(trouble) => Err(Error::NonFinite {
                client: name.into(),
                place: format!("{when}, local step {}", trouble.step),
                loss: trouble.loss,
            }),
        }
    }

    /// A client's part of a round: trains, remembers, and scores where asked. `None`: its
    /// loss was not finite and the run is to go on without it.
    pub fn train(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        score: bool,
        scratch: &mut Scratch,
    ) -> Result<Option<Reply<A::Update>>> {
        if !self.world.skip_nonfinite {
            return self.attempt(client, round, sent, score, scratch).map(Some);
        }
        let before = self.memories.look(client, Clone::clone)?;
        match self.attempt(client, round, sent, score, scratch) {
            Err(Error::NonFinite { .. }) => {
                let before = before.unwrap_or_else(|| self.algorithm.join(&self.world.w0));
                self.memories.put(client, before)?;
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn attempt(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        score: bool,
        scratch: &mut Scratch,
    ) -> Result<Reply<A::Update>> {
        let shard = self.shard(client)?;
        let mut local = match self.memories.take(client)? {
            Some(local) => local,
            None => self.algorithm.join(&self.world.w0),
        };
        let mut site = self.site(&shard.train, Purpose::Batches, round, client, scratch);
        let steps = site.steps();
        let update = self.algorithm.local_round(sent, &mut local, &mut site);
        self.checked(&site, &shard.name, format!("in round {round}"))?;
        let tallies = if score {
            let place = format!("after the local steps of round {round}");
            let personal = self.algorithm.personal(&local, &update, &mut site);
            let localized = Predictor::At(self.algorithm.localized(&local, &update));
            Some((
                self.tallies(&localized, &shard, &place, scratch)?,
                self.tallies(&personal, &shard, &place, scratch)?,
            ))
        } else {
            None
        };
        let mixing = self.algorithm.mixing(&local);
        self.memories.put(client, local)?;
        Ok(Reply {
            update,
            tallies,
            mixing,
            steps,
        })
    }

    fn tallies(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        place: &str,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let model = &*self.world.model;
        let tallies = Tallies {
            train: scratch.tally(model, predictor, &shard.train),
            valid: scratch.tally(model, predictor, &shard.valid),
        };
        match [tallies.train.loss, tallies.valid.loss]
            .into_iter()
            .find(|loss| !loss.is_finite())
        {
            None => Ok(tallies),
            Some(loss) => Err(Error::NonFinite {
                client: shard.name.clone(),
                place: place.into(),
                loss,
            }),
        }
    }

    /// A client's scores of the shared model after a round.
    pub fn score(
        &self,
        client: usize,
        shared: &[f32],
        round: u64,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let place = format!("when the shared model of round {round} was scored");
        self.tallies(
            &Predictor::At(shared),
            &*self.shard(client)?,
            &place,
            scratch,
        )
    }

    /// The last local round, on a copy of the client's memory; the client stands at
    /// `place` among all that are delivered to. `None` as in [`Clients::train`].
    pub fn deliver(
        &self,
        (place, client): (usize, usize),
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        keep: Keep<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Delivered>> {
        let keeps = !matches!(keep, Keep::Nothing);
        let delivered = self.delivered(client, round, sent, shared, keeps, scratch);
        let mut delivered = match delivered {
            Err(Error::NonFinite { .. }) if self.world.skip_nonfinite => return Ok(None),
            other => other?,
        };
        if let Keep::In(files) = keep
            && let Some(models) = delivered.models.take()
        {
            files.write(place, &models)?;
        }
        Ok(Some(delivered))
    }

    fn delivered(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        keep: bool,
        scratch: &mut Scratch,
    ) -> Result<Delivered> {
        let shard = self.shard_for_once(client)?;
        let algorithm = &*self.algorithm;
        let mut local = match self.memories.look(client, Clone::clone)? {
            Some(local) => local,
            None => algorithm.join(&self.world.w0),
        };
        let mut site = self.site(&shard.train, Purpose::Delivery, round, client, scratch);
        let concluded = algorithm.conclude(&local, shared, &site);
        let update = algorithm.local_round(sent, &mut local, &mut site);
        let when = "in the local round of delivery".to_string();
        self.checked(&site, &shard.name, when)?;
        let personal = match concluded {
            Some(personal) => Predictor::Own(personal),
            None => algorithm.personal(&local, &update, &mut site),
        };
        let localized = Predictor::At(algorithm.localized(&local, &update));
        let tallies = ByModel {
            shared: self.tallies(&Predictor::At(shared), &shard, "at delivery", scratch)?,
            localized: self.tallies(&localized, &shard, "at delivery", scratch)?,
            personal: self.tallies(&personal, &shard, "at delivery", scratch)?,
        };
        let classes = shard
            .train
            .class_counts(self.world.dataset.schema().task.classes());
        let majority = majority_accuracy(&classes, &shard.valid);
        let models = keep.then(|| ClientModels {
            personal: personal.flat(),
            localized: algorithm.localized(&local, &update).to_vec(),
            local: algorithm.own(&local, &update).to_vec(),
        });
        Ok(Delivered {
            client,
            name: shard.name.clone(),
            examples: (shard.train.len(), shard.valid.len()),
            classes,
            mixing: algorithm.mixing(&local),
            majority,
            tallies,
            models,
        })
    }

    /// Streams the memories of some clients, all of them drawn before, into an archive.
    pub fn save(
        &self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Written> {
        archive.write(name, &self.fields(), clients, &mut |client| {
            let memory = self.memories.look(client, Pack::to_bytes)?;
            Ok(memory.unwrap_or_else(|| self.algorithm.join(&self.world.w0).to_bytes()))
        })
    }

    /// Gives some clients the memories of a part of an archive.
    pub fn restore_all(
        &self,
        archive: &dyn MemoryArchive,
        part: &str,
        clients: &[usize],
    ) -> Result<()> {
        archive.read(part, &self.fields(), clients, &mut |client, arrays| {
            self.restore(client, arrays)
        })
    }

    /// The arrays of any memory.
    fn fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.world.w0).fields()
    }

    /// The digest of a client's memory; one that has none is as if it had just joined.
    pub fn digest(&self, client: usize) -> Result<[u8; 32]> {
        let digest = self.memories.look(client, digest_of)?;
        Ok(digest.unwrap_or_else(|| digest_of(&self.algorithm.join(&self.world.w0))))
    }

    /// Gives a client the memory of those arrays, which must have the fields of any
    /// memory of this run.
    fn restore(&self, client: usize, mut arrays: Arrays) -> Result<()> {
        let wrong = |problem: String| {
            let name = self.world.dataset.name(client);
            Error::Checkpoint(format!("the memory of client '{name}': {problem}"))
        };
        let local = A::Memory::unpack(&mut arrays).map_err(|e| wrong(e.to_string()))?;
        if local.fields() != self.fields() {
            return Err(wrong("its arrays are not those of this run".into()));
        }
        self.memories.put(client, local)
    }
}

/// Validation accuracy of always answering the commonest training class (the first of
/// equally common ones).
fn majority_accuracy(counts: &[u64], valid: &Examples) -> Option<f64> {
    let most = counts.iter().max()?;
    let class = counts.iter().position(|count| count == most)?;
    let hits = valid.class_counts(counts.len())[class];
    Some(hits as f64 / valid.len() as f64)
}
