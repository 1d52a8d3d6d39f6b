//! The clients that live in this process: their shards and their memories.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::algorithm::Algorithm;
use crate::data::{Dataset, Examples, Shard};
use crate::error::{Error, Result};
use crate::metrics::{Tallies, Three};
use crate::model::Model;
use crate::params::Params;
use crate::rng::{Purpose, stream};
use crate::site::{Desk, Pace, Predictor, Site};

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
}

/// A client's answer to a round.
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
#[derive(Clone, Debug)]
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
    pub tallies: Three<Tallies>,
    /// Its models, where they are to be kept.
    pub models: Option<ClientModels>,
}

/// The models a client ends with.
#[derive(Clone, Debug)]
pub struct ClientModels {
    /// The model it serves, as [`Predictor::flat`] gives it.
    pub personal: Params,
    /// vᵢ where there is one, else its copy of the shared model.
    pub local: Params,
}

/// The clients of this process. Nothing is made for a client before it is first drawn.
pub struct Clients<A: Algorithm> {
    world: World,
    algorithm: Arc<A>,
    shards: Vec<OnceLock<Arc<Shard>>>,
    memories: Vec<Mutex<Option<Box<A::Local>>>>,
}

impl<A: Algorithm> Clients<A> {
    /// All clients of the data set, none of them met yet.
    pub fn new(world: World, algorithm: Arc<A>) -> Self {
        let n = world.dataset.clients();
        Self {
            world,
            algorithm,
            shards: (0..n).map(|_| OnceLock::new()).collect(),
            memories: (0..n).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// What every client is given.
    pub fn world(&self) -> &World {
        &self.world
    }

    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        if let Some(shard) = self.shards[client].get() {
            return Ok(shard.clone());
        }
        let shard = self.world.dataset.shard(client)?;
        Ok(self.shards[client].get_or_init(|| shard).clone())
    }

    fn site<'a>(
        &'a self,
        train: &'a Examples,
        purpose: Purpose,
        round: u64,
        client: usize,
        desk: &'a mut Desk,
    ) -> Site<'a> {
        let World {
            seed, model, pace, ..
        } = &self.world;
        let rng = stream(*seed, purpose, round, client as u64);
        let changes = stream(*seed, Purpose::Augmentation, round, client as u64);
        Site::new(&**model, train, *pace, round, rng, desk).augmenting(changes)
    }

    fn checked(&self, site: &Site<'_>, name: &str, round: u64) -> Result<()> {
        match site.trouble() {
            None => Ok(()),
            Some(trouble) => Err(Error::NonFinite {
                client: name.into(),
                place: format!("in round {round}, local step {}", trouble.step),
                loss: trouble.loss,
            }),
        }
    }

    /// A client's part of a round: trains, remembers, and scores where asked.
    pub fn train(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        score: bool,
        desk: &mut Desk,
    ) -> Result<Reply<A::Update>> {
        let shard = self.shard(client)?;
        let mut memory = self.memories[client]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let local = memory.get_or_insert_with(|| Box::new(self.algorithm.join(&self.world.w0)));
        let mut site = self.site(&shard.train, Purpose::Batches, round, client, desk);
        let steps = site.steps();
        let update = self.algorithm.local_round(sent, local, &mut site);
        self.checked(&site, &shard.name, round)?;
        let tallies = if score {
            let place = format!("after the local steps of round {round}");
            let personal = self.algorithm.personal(local, &update, &mut site);
            let localized = Predictor::At(self.algorithm.localized(local, &update));
            Some((
                self.tallies(&localized, &shard, &place, desk)?,
                self.tallies(&personal, &shard, &place, desk)?,
            ))
        } else {
            None
        };
        Ok(Reply {
            update,
            tallies,
            mixing: self.algorithm.mixing(local),
            steps,
        })
    }

    fn tallies(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        place: &str,
        desk: &mut Desk,
    ) -> Result<Tallies> {
        let model = &*self.world.model;
        let tallies = Tallies {
            train: desk.tally(model, predictor, &shard.train),
            valid: desk.tally(model, predictor, &shard.valid),
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
        desk: &mut Desk,
    ) -> Result<Tallies> {
        let place = format!("when the shared model of round {round} was scored");
        self.tallies(&Predictor::At(shared), &*self.shard(client)?, &place, desk)
    }

    /// The last local round, on a copy of the client's memory.
    pub fn deliver(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        keep: bool,
        desk: &mut Desk,
    ) -> Result<Delivered> {
        let shard = self.shard(client)?;
        let algorithm = &*self.algorithm;
        let mut local = match &*self.memories[client]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Some(local) => (**local).clone(),
            None => algorithm.join(&self.world.w0),
        };
        let mut site = self.site(&shard.train, Purpose::Delivery, round, client, desk);
        let concluded = algorithm.conclude(&local, shared, &site);
        let update = algorithm.local_round(sent, &mut local, &mut site);
        self.checked(&site, &shard.name, round)?;
        let personal = match concluded {
            Some(personal) => Predictor::Own(personal),
            None => algorithm.personal(&local, &update, &mut site),
        };
        let localized = Predictor::At(algorithm.localized(&local, &update));
        let tallies = Three {
            shared: self.tallies(&Predictor::At(shared), &shard, "at delivery", desk)?,
            localized: self.tallies(&localized, &shard, "at delivery", desk)?,
            personal: self.tallies(&personal, &shard, "at delivery", desk)?,
        };
        let classes = shard
            .train
            .class_counts(self.world.dataset.schema().task.classes());
        let majority = majority_accuracy(&classes, &shard.valid);
        let models = keep.then(|| ClientModels {
            personal: personal.flat(),
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

    /// Looks at a client's memory; `None` for one that was never drawn.
    pub fn memory<T>(&self, client: usize, look: impl FnOnce(&A::Local) -> T) -> Option<T> {
        let memory = self.memories[client]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        memory.as_ref().map(|local| look(local))
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
