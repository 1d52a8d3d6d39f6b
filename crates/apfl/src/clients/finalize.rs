//! What a client ends with.

use serde::{Deserialize, Serialize};

use super::{Clients, locked};
use crate::algorithm::{AfterRound, Algorithm};
use crate::data::{Examples, Shard};
use crate::error::{Error, Result};
use crate::files::slots::{Slots, SlotsLocation};
use crate::local_client::{Predictor, Scratch};
use crate::metrics::{ByModel, Finals, Gain, Tallies};
use crate::params::{Params, bytes_of};
use crate::rng::Purpose;

/// What delivery leaves at a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalized {
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

impl Finalized {
    /// Loss and hits of its models on training and validation examples.
    pub fn tallies(&self) -> ByModel<Tallies> {
        self.finals.map(|finals| finals.tallies)
    }
}

/// The models a client ends with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientModels {
    /// The model it serves, in the [`ModelForm`](crate::local_client::ModelForm) of the algorithm's personal models.
    pub personal: Params,
    /// Its copy of the shared model after its local steps.
    pub localized: Params,
    /// vᵢ where there is one, else the localized model.
    pub local: Params,
    /// What it trained alone, where it did.
    pub alone: Option<Params>,
}

/// What becomes of the models that delivery makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Keep {
    /// Nothing: scores only.
    Nothing,
    /// They are in [`Finalized::models`].
    HandOver,
    /// The process that owns a client keeps them where it likes, as a site does.
    AtOwner,
    /// The process that owns a client writes them to files, and nobody else sees them.
    InFiles(ModelPlaces),
}

/// Where the files are that have a slot for every client that is delivered to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPlaces {
    /// The models they serve.
    pub personal: SlotsLocation,
    /// Their copies of the shared model.
    pub localized: SlotsLocation,
    /// Their own.
    pub local: SlotsLocation,
    /// What they trained alone, where they did.
    pub alone: Option<SlotsLocation>,
}

/// The same files, open.
#[derive(Debug)]
pub struct ModelFiles {
    personal: Slots,
    localized: Slots,
    local: Slots,
    alone: Option<Slots>,
}

impl ModelFiles {
    /// Opens them.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(places: &ModelPlaces) -> Result<Self> {
        Ok(Self {
            personal: Slots::open(&places.personal)?,
            localized: Slots::open(&places.localized)?,
            local: Slots::open(&places.local)?,
            alone: places.alone.as_ref().map(Slots::open).transpose()?,
        })
    }

    /// Writes the models of the client at that place.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, place: usize, models: &ClientModels) -> Result<()> {
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
    ///
    /// # Errors
    /// A file that cannot be synced.
    pub fn sync(&self) -> Result<()> {
        self.personal.sync()?;
        self.localized.sync()?;
        self.local.sync()?;
        self.alone.as_ref().map_or(Ok(()), Slots::sync)
    }
}

impl<A: Algorithm> Clients<A> {
    /// The last local round, on a copy of the client's memory; the client stands at
    /// `place` among all that are delivered to. `None` as in [`Clients::train`].
    pub(super) fn finalize(
        &self,
        (place, client): (usize, usize),
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        keep: &Keep,
        scratch: &mut Scratch,
    ) -> Result<Option<Finalized>> {
        let keeps = !matches!(keep, Keep::Nothing);
        let finalized = self.finalized(client, round, sent, shared, keeps, scratch);
        let mut finalized = match finalized {
            Err(Error::NonFinite { .. }) if self.context.skip_nonfinite => return Ok(None),
            other => other?,
        };
        let files = locked(&self.models).clone();
        if let (Keep::InFiles(_), Some(files)) = (keep, files)
            && let Some(models) = finalized.models.take()
        {
            files.write(place, &models)?;
        }
        Ok(Some(finalized))
    }

    fn finalized(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        keep: bool,
        scratch: &mut Scratch,
    ) -> Result<Finalized> {
        let shard = self.shard_for_once(client)?;
        let algorithm = &*self.algorithm;
        let mut local = self.copy_of(client)?;
        let mut local_client =
            self.local_client(&shard.train, Purpose::Finalization, round, client, scratch);
        let last = algorithm.extensions().final_models;
        let last = last.map(|models| models.personal(&local, shared, &local_client));
        let update = algorithm.local_round(sent, &mut local, &mut local_client);
        let when = "in the local round of delivery".to_string();
        self.checked(&local_client, &shard.name, when)?;
        let after = AfterRound {
            local: &local,
            sent,
            update: &update,
        };
        let of_round = algorithm.models(after, &mut local_client);
        let personal = last.map_or(of_round.personal, Predictor::Own);
        let localized = Predictor::At(of_round.localized);
        let shared = Predictor::At(self.of_cluster(shared, self.cluster(&local)));
        let finals = ByModel {
            shared: self.finals(&shared, &shard, scratch)?,
            localized: self.finals(&localized, &shard, scratch)?,
            personal: self.finals(&personal, &shard, scratch)?,
        };
        let (mut alone, mut gain) = (None, None);
        if let Some(own) = of_round.alone {
            let own = Predictor::At(own);
            alone = Some(self.finals(&own, &shard, scratch)?);
            let (model, rows) = (&*self.context.model, measuring_rows(&shard, self.tested));
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
            .class_counts(self.context.dataset.schema().task.classes());
        let majority = majority_accuracy(&classes, &shard.valid);
        let models = keep.then(|| ClientModels {
            personal: personal.into_numbers(algorithm.properties().personal),
            localized: of_round.localized.to_vec(),
            local: of_round.local.to_vec(),
            alone: of_round.alone.map(<[f32]>::to_vec),
        });
        Ok(Finalized {
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
}

/// The rows on which the gain of joining is measured, by which nothing was chosen: of the
/// test part, where the federation has one.
fn measuring_rows(shard: &Shard, tested: bool) -> &Examples {
    if tested { &shard.test } else { &shard.valid }
}

/// Validation accuracy of always answering the commonest training class (the first of
/// equally common ones).
fn majority_accuracy(counts: &[u64], valid: &Examples) -> Option<f64> {
    let most = counts.iter().max()?;
    let class = counts.iter().position(|count| count == most)?;
    let hits = valid.class_counts(counts.len())[class];
    (!valid.is_empty()).then(|| hits as f64 / valid.len() as f64)
}
