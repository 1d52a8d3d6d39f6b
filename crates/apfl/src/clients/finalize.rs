//! Finalization: the last local round, final scores and final models of a client.

use serde::{Deserialize, Serialize};

use super::{Clients, locked, tuned};
use crate::algorithm::{AfterRound, Algorithm};
use crate::data::{Examples, Shard};
use crate::error::{Error, Result};
use crate::files::slots::{Slots, SlotsLocation};
use crate::local_client::{Predictor, Scratch};
use crate::metrics::{ByModel, Finals, Gain, Tallies};
use crate::params::{Params, bytes_of};
use crate::rng::Purpose;

/// A finalized client: its final scores and, if kept, its models.
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
    /// The number of training examples of each class.
    pub classes: Vec<u64>,
    /// αᵢ
    pub mixing: Option<f32>,
    /// Validation accuracy of always predicting its most common training class.
    pub majority: Option<f64>,
    /// Summary statistics of its final scores.
    pub finals: ByModel<Finals>,
    /// The same for training alone, if the client also did that.
    pub alone: Option<Finals>,
    /// The same for its own tuned fit, in that case: training alone where the model has none.
    pub baseline: Option<Finals>,
    /// The gain of the personal model over that, in that case.
    pub gain: Option<Gain>,
    /// Its models, if they are returned.
    pub models: Option<ClientModels>,
}

impl Finalized {
    /// Returns the tallies of its models on training and validation examples.
    pub fn tallies(&self) -> ByModel<Tallies> {
        self.finals.map(|finals| finals.tallies)
    }
}

/// The final models of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientModels {
    /// The model it serves, in the [`ModelForm`](crate::local_client::ModelForm) of personal models.
    pub personal: Params,
    /// Its copy of the shared model after its local steps.
    pub localized: Params,
    /// vᵢ if there is one, else the localized model.
    pub local: Params,
    /// The model of training alone, if it did that.
    pub alone: Option<Params>,
}

/// What is done with the final models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Keep {
    /// They are discarded; only scores are returned.
    Nothing,
    /// They are returned in [`Finalized::models`].
    HandOver,
    /// The process that owns the client keeps them, as a site does.
    AtOwner,
    /// The process that owns the client writes them to files.
    InFiles(ModelPlaces),
}

/// The places of the model files, which have a slot for every finalized client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPlaces {
    /// Personal models.
    pub personal: SlotsLocation,
    /// Localized models.
    pub localized: SlotsLocation,
    /// Local models.
    pub local: SlotsLocation,
    /// Models of training alone, if there are any.
    pub alone: Option<SlotsLocation>,
}

/// The open model files.
#[derive(Debug)]
pub struct ModelFiles {
    personal: Slots,
    localized: Slots,
    local: Slots,
    alone: Option<Slots>,
}

impl ModelFiles {
    /// Opens the files.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn open(places: &ModelPlaces) -> Result<Self> {
        Ok(Self {
            personal: Slots::open(&places.personal)?,
            localized: Slots::open(&places.localized)?,
            local: Slots::open(&places.local)?,
            alone: places.alone.as_ref().map(Slots::open).transpose()?,
        })
    }

    /// Writes the models of the client with this slot.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, slot: usize, models: &ClientModels) -> Result<()> {
        let slot = slot as u64;
        self.personal.write(slot, &bytes_of(&models.personal))?;
        self.localized.write(slot, &bytes_of(&models.localized))?;
        self.local.write(slot, &bytes_of(&models.local))?;
        match (&self.alone, &models.alone) {
            (Some(slots), Some(alone)) => slots.write(slot, &bytes_of(alone)),
            _ => Ok(()),
        }
    }

    /// Syncs the files to disk.
    ///
    /// # Errors
    /// If a file cannot be synced.
    pub fn sync(&self) -> Result<()> {
        self.personal.sync()?;
        self.localized.sync()?;
        self.local.sync()?;
        self.alone.as_ref().map_or(Ok(()), Slots::sync)
    }
}

impl<A: Algorithm> Clients<A> {
    /// Finalizes a client: a last local round on a copy of its state. `slot` is its position
    /// among the finalized clients. `None` as in [`Clients::train`].
    pub(super) fn finalize(
        &self,
        (slot, client): (usize, usize),
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
            files.write(slot, &models)?;
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
        let shard = self.shard_uncached(client)?;
        let algorithm = &*self.algorithm;
        let mut local = self.copy_state(client)?;
        let mut local_client =
            self.local_client(&shard.train, Purpose::Finalization, round, client, scratch);
        let last = algorithm.extensions().final_models;
        let last = last.map(|models| models.personal(&local, shared, &local_client));
        let update = algorithm.local_round(sent, &mut local, &mut local_client);
        let when = "in the local round of finalization".to_string();
        self.require_finite(&local_client, &shard.name, when)?;
        let after = AfterRound {
            local: &local,
            sent,
            update: &update,
        };
        let models = algorithm.models(after, &mut local_client);
        let personal = last.map_or(models.personal, Predictor::Own);
        let localized = Predictor::At(&models.localized);
        let shared = Predictor::At(self.cluster_model(shared, self.cluster_of(&local)));
        let finals = ByModel {
            shared: self.finals(&shared, &shard, scratch)?,
            localized: self.finals(&localized, &shard, scratch)?,
            personal: self.finals(&personal, &shard, scratch)?,
        };
        let (mut alone, mut baseline, mut gain) = (None, None, None);
        if let Some(own) = models.alone {
            let model = &*self.context.model;
            let scores = self.finals(&Predictor::At(own), &shard, scratch)?;
            let tuned = tuned::fit(model, &shard.train);
            let against = Predictor::At(tuned.as_deref().unwrap_or(own));
            baseline = Some(match &tuned {
                Some(_) => self.finals(&against, &shard, scratch)?,
                None => scores.clone(),
            });
            alone = Some(scores);
            let rows = gain_rows(&shard, self.tested);
            let mut differences = scratch.losses(model, &against, rows);
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
            localized: models.localized.to_vec(),
            local: models.local.unwrap_or(&models.localized).to_vec(),
            alone: models.alone.map(<[f32]>::to_vec),
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
            baseline,
            gain,
            models,
        })
    }
}

/// Returns the rows on which the gain is measured: test rows if the federation has any, else
/// validation rows. Nothing was chosen by them.
fn gain_rows(shard: &Shard, tested: bool) -> &Examples {
    if tested { &shard.test } else { &shard.valid }
}

/// Returns the validation accuracy of always predicting the most common training class (the
/// first of equally common ones).
fn majority_accuracy(counts: &[u64], valid: &Examples) -> Option<f64> {
    let most = counts.iter().max()?;
    let class = counts.iter().position(|count| count == most)?;
    let hits = valid.class_counts(counts.len())[class];
    (!valid.is_empty()).then(|| hits as f64 / valid.len() as f64)
}
