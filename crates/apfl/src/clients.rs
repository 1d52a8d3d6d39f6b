//! The clients that live in this process: their shards and their memories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::choice::{Candidate, Choosing, HeldOut, Pass};
use crate::data::aside::{Aside, put_aside};
use crate::data::{Dataset, Examples, Labels, Shard};
use crate::digest::digest_of;
use crate::error::{Error, Result};
use crate::memories::{DiskMemories, Memories};
use crate::metrics::{ByModel, Finals, Gain, Scoring, Tallies};
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

impl World {
    /// What 1 is in the label's own units, where it is a number that was standardized.
    pub fn unit(&self) -> f64 {
        let scale = self.dataset.schema().label_scale();
        scale.map_or(1.0, |scale| scale.deviation)
    }

    /// How final scores are made.
    pub fn scoring(&self) -> Scoring {
        let dataset = &self.dataset;
        Scoring {
            classes: dataset.schema().task.classes(),
            unit: self.unit(),
            tested: (0..dataset.clients()).any(|client| dataset.test_size(client) > 0),
        }
    }
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

impl World {
    /// The same in a pass of a choice: with a part of everybody's training rows put aside, or
    /// with all of them.
    pub fn in_pass(mut self, choosing: &Choosing, pass: Pass) -> Self {
        if let Pass::HeldOut(part) = pass {
            let aside = Aside {
                seed: self.seed,
                folds: choosing.folds,
                part,
                share: choosing.aside,
            };
            self.dataset = put_aside(self.dataset, aside);
        }
        self
    }
}

/// A client's answer to a round.
#[derive(Debug)]
pub struct Reply<U> {
    /// What travels back.
    pub update: U,
    /// Scores of (localized, personal), where they were asked for.
    pub tallies: Option<(Tallies, Tallies)>,
    /// Where the client has several models to choose from and scores were asked for: each
    /// one's scores, and its loss summed over the held-out rows. Which of them is personal,
    /// all clients decide together.
    pub candidates: Vec<(f64, Tallies)>,
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
    /// Its test examples.
    pub test_examples: usize,
    /// Its training examples of every class.
    pub classes: Vec<u64>,
    /// αᵢ
    pub mixing: Option<f32>,
    /// Validation accuracy of always answering its commonest training class.
    pub majority: Option<f64>,
    /// What its final scores are made of.
    pub finals: ByModel<Finals>,
    /// The same of training alone, where the client did that too.
    pub alone: Option<Finals>,
    /// What joining gave it then.
    pub gain: Option<Gain>,
    /// Its models, where they are to be handed over.
    pub models: Option<ClientModels>,
}

impl Delivered {
    /// Loss and hits of its models on training and validation examples.
    pub fn tallies(&self) -> ByModel<Tallies> {
        self.finals.map(|finals| finals.tallies)
    }
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
    /// What it trained alone, where it did.
    pub alone: Option<Params>,
}

/// What becomes of the models that delivery makes.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// Nothing: scores only.
    Nothing,
    /// They are in [`Delivered::models`].
    HandOver,
    /// The process that owns a client keeps them where it likes, as a site does.
    There,
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
    /// What they trained alone, where they did.
    pub alone: Option<Slots>,
}

impl ModelFiles {
    pub(crate) fn write(&self, place: usize, models: &ClientModels) -> Result<()> {
        let place = place as u64;
        self.personal.write(place, &bytes_of(&models.personal))?;
        self.localized.write(place, &bytes_of(&models.localized))?;
        self.local.write(place, &bytes_of(&models.local))?;
        match (&self.alone, &models.alone) {
            (Some(slots), Some(alone)) => slots.write(place, &bytes_of(alone)),
            _ => Ok(()),
        }
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.personal.sync()?;
        self.localized.sync()?;
        self.local.sync()?;
        self.alone.as_ref().map_or(Ok(()), Slots::sync)
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
    asides: Vec<OnceLock<Option<Arc<Examples>>>>,
    memories: Memories<A::Memory>,
    choices: RwLock<BTreeMap<usize, Candidate>>,
    /// Whether some client has a test part.
    tested: bool,
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
            tested: world.scoring().tested,
            world,
            algorithm,
            shards: (0..cached).map(|_| OnceLock::new()).collect(),
            asides: (0..cached).map(|_| OnceLock::new()).collect(),
            memories,
            choices: RwLock::default(),
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

    /// Tells clients what they have chosen to serve.
    pub fn choose(&self, choices: &[(usize, Candidate)]) {
        let mut all = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(choices.iter().copied());
    }

    fn choice(&self, client: usize) -> Option<Candidate> {
        let all = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&client).copied()
    }

    /// A client's training rows that are held out.
    fn aside(&self, client: usize) -> Result<Option<Arc<Examples>>> {
        let Some(place) = self.asides.get(client) else {
            return self.world.dataset.held_out(client);
        };
        if let Some(aside) = place.get() {
            return Ok(aside.clone());
        }
        let aside = self.world.dataset.held_out(client)?;
        Ok(place.get_or_init(|| aside).clone())
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
            .choosing(self.choice(client))
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
        let update = self.algorithm.local_round(sent, &mut local, &mut site);
        let steps = site.steps();
        self.checked(&site, &shard.name, format!("in round {round}"))?;
        let mut candidates = Vec::new();
        let tallies = if score {
            let place = format!("after the local steps of round {round}");
            let list = self.algorithm.candidates(&local, sent, &update);
            let personal = self.algorithm.serves(&local, sent, &update, &mut site);
            let localized = Predictor::At(self.algorithm.localized(&local, &update));
            let localized = self.tallies(&localized, &shard, &place, scratch)?;
            let held_out = match list.is_empty() {
                true => None,
                false => self.aside(client)?,
            };
            for (candidate, model) in &list {
                let loss = self.loss_on(model, held_out.as_deref(), &shard, &place, scratch)?;
                let tallies = match candidate {
                    Candidate::Mixing(0.0) => localized,
                    _ => self.tallies(model, &shard, &place, scratch)?,
                };
                candidates.push((loss, tallies));
            }
            let personal = match list.is_empty() {
                true => self.tallies(&personal, &shard, &place, scratch)?,
                false => Tallies::default(),
            };
            Some((localized, personal))
        } else {
            None
        };
        let mixing = self.mixing(client, &local);
        self.memories.put(client, local)?;
        Ok(Reply {
            update,
            tallies,
            candidates,
            mixing,
            steps,
        })
    }

    /// αᵢ: what the client chose, or what it remembers.
    fn mixing(&self, client: usize, local: &A::Memory) -> Option<f32> {
        match self.choice(client) {
            Some(choice) => choice.mixing(),
            None => self.algorithm.mixing(local),
        }
    }

    /// The loss of a model, summed over some rows; 0 where there are none.
    fn loss_on(
        &self,
        predictor: &Predictor<'_>,
        rows: Option<&Examples>,
        shard: &Shard,
        place: &str,
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let Some(rows) = rows else {
            return Ok(0.0);
        };
        let loss = scratch.tally(&*self.world.model, predictor, rows).loss;
        match loss.is_finite() {
            true => Ok(loss),
            false => Err(Error::NonFinite {
                client: shard.name.clone(),
                place: place.into(),
                loss,
            }),
        }
    }

    fn tallies(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        place: &str,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let model = &*self.world.model;
        let mut tallies = Tallies {
            train: scratch.tally(model, predictor, &shard.train),
            valid: scratch.tally(model, predictor, &shard.valid),
        };
        // Errors of predicted numbers are told in the label's own units.
        let unit = self.world.unit();
        tallies.train.squared_error *= unit * unit;
        tallies.valid.squared_error *= unit * unit;
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

    /// What a model's final scores at a client are made of.
    fn finals(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        scratch: &mut Scratch,
    ) -> Result<Finals> {
        let model = &*self.world.model;
        let classes = self.world.dataset.schema().task.classes();
        let center = match shard.train.all().targets {
            Labels::Classes(_) => 0.0,
            Labels::Values(y) => y.iter().map(|y| f64::from(*y)).sum::<f64>() / y.len() as f64,
        };
        let unit = self.world.unit();
        let mut tested = scratch.tally(model, predictor, &shard.test);
        tested.squared_error *= unit * unit;
        Ok(Finals {
            tallies: self.tallies(predictor, shard, "at delivery", scratch)?,
            tested,
            valid: scratch.assess(model, predictor, &shard.valid, classes, center),
            test: scratch.assess(model, predictor, &shard.test, classes, center),
        })
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
        let algorithm = &*self.algorithm;
        let own = self.memories.look(client, |m| algorithm.cluster(m))?;
        let shared = Predictor::At(self.of_cluster(shared, own.unwrap_or(0)));
        self.tallies(&shared, &*self.shard(client)?, &place, scratch)
    }

    /// One of several shared models that lie one after the other; mostly there is one.
    fn of_cluster<'a>(&self, shared: &'a [f32], number: usize) -> &'a [f32] {
        let len = self.world.w0.len();
        &shared[number * len..][..len]
    }

    /// The one of several shared models that is a client's.
    pub fn shared_of(&self, client: usize, shared: &[f32]) -> Result<Params> {
        let own = self.memories.look(client, |m| self.algorithm.cluster(m))?;
        Ok(self.of_cluster(shared, own.unwrap_or(0)).to_vec())
    }

    /// The losses of all models that a client may choose from, on its held-out rows, after a
    /// local round as in delivery, on a copy of its memory. `None` as in [`Clients::train`].
    pub fn hold_out(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        scratch: &mut Scratch,
    ) -> Result<Option<HeldOut>> {
        match self.held_out(client, round, sent, scratch) {
            Err(Error::NonFinite { .. }) if self.world.skip_nonfinite => Ok(None),
            other => other.map(Some),
        }
    }

    fn held_out(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        scratch: &mut Scratch,
    ) -> Result<HeldOut> {
        let shard = self.shard_for_once(client)?;
        let rows = self.aside(client)?;
        let mut local = self.copy_of(client)?;
        let mut site = self.site(&shard.train, Purpose::Delivery, round, client, scratch);
        let update = self.algorithm.local_round(sent, &mut local, &mut site);
        let when = "in the local round before its choice".to_string();
        self.checked(&site, &shard.name, when)?;
        let list = self.algorithm.candidates(&local, sent, &update);
        let rows = rows.as_deref();
        let place = "on its held-out rows";
        let losses = list
            .iter()
            .map(|(_, model)| self.loss_on(model, rows, &shard, place, scratch));
        Ok(HeldOut {
            sums: losses.collect::<Result<_>>()?,
            rows: rows.map_or(0, |rows| rows.len() as u64),
        })
    }

    /// A copy of a client's memory.
    fn copy_of(&self, client: usize) -> Result<A::Memory> {
        let local = self.memories.look(client, Clone::clone)?;
        Ok(local.unwrap_or_else(|| self.algorithm.join(&self.world.w0)))
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
        let mut local = self.copy_of(client)?;
        let mut site = self.site(&shard.train, Purpose::Delivery, round, client, scratch);
        let concluded = algorithm.conclude(&local, shared, &site);
        let update = algorithm.local_round(sent, &mut local, &mut site);
        let when = "in the local round of delivery".to_string();
        self.checked(&site, &shard.name, when)?;
        let personal = match concluded {
            Some(personal) => Predictor::Own(personal),
            None => algorithm.serves(&local, sent, &update, &mut site),
        };
        let localized = Predictor::At(algorithm.localized(&local, &update));
        let shared = Predictor::At(self.of_cluster(shared, algorithm.cluster(&local)));
        let finals = ByModel {
            shared: self.finals(&shared, &shard, scratch)?,
            localized: self.finals(&localized, &shard, scratch)?,
            personal: self.finals(&personal, &shard, scratch)?,
        };
        let (mut alone, mut gain) = (None, None);
        if let Some(own) = algorithm.alone(&local) {
            let own = Predictor::At(own);
            alone = Some(self.finals(&own, &shard, scratch)?);
            let (model, rows) = (&*self.world.model, measuring_rows(&shard, self.tested));
            let mut differences = scratch.losses(model, &own, rows);
            let served = scratch.losses(model, &personal, rows);
            differences
                .iter_mut()
                .zip(served)
                .for_each(|(d, s)| *d -= s);
            gain = Some(Gain::of(&differences));
        }
        let classes = shard
            .train
            .class_counts(self.world.dataset.schema().task.classes());
        let majority = majority_accuracy(&classes, &shard.valid);
        let models = keep.then(|| ClientModels {
            personal: personal.flat(),
            localized: algorithm.localized(&local, &update).to_vec(),
            local: algorithm.own(&local, &update).to_vec(),
            alone: algorithm.alone(&local).map(<[f32]>::to_vec),
        });
        Ok(Delivered {
            client,
            name: shard.name.clone(),
            examples: (shard.train.len(), shard.valid.len()),
            test_examples: shard.test.len(),
            classes,
            mixing: self.mixing(client, &local),
            majority,
            finals,
            alone,
            gain,
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

    /// Whether clients of this algorithm remember anything.
    pub fn remembers(&self) -> bool {
        !self.fields().is_empty()
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

/// The rows on which the gain of joining is measured, by which nothing was chosen: of the
/// test part, where the federation has one.
fn measuring_rows(shard: &Shard, tested: bool) -> &Examples {
    match tested {
        true => &shard.test,
        false => &shard.valid,
    }
}

/// Validation accuracy of always answering the commonest training class (the first of
/// equally common ones).
fn majority_accuracy(counts: &[u64], valid: &Examples) -> Option<f64> {
    let most = counts.iter().max()?;
    let class = counts.iter().position(|count| count == most)?;
    let hits = valid.class_counts(counts.len())[class];
    (!valid.is_empty()).then(|| hits as f64 / valid.len() as f64)
}
