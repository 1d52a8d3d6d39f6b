//! How good models are at a client.

use super::Clients;
use crate::algorithm::Algorithm;
use crate::data::{Examples, Labels, Shard};
use crate::error::{Error, Result};
use crate::local_client::{Predictor, Scratch};
use crate::metrics::{Finals, Tallies};
use crate::params::Params;

impl<A: Algorithm> Clients<A> {
    /// The loss of a model, summed over some rows; 0 where there are none.
    pub(super) fn loss_on(
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
        let loss = scratch.tally(&*self.context.model, predictor, rows).loss;
        if loss.is_finite() {
            Ok(loss)
        } else {
            Err(Error::NonFinite {
                client: shard.name.clone(),
                place: place.into(),
                loss,
            })
        }
    }

    pub(super) fn tallies(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        place: &str,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let model = &*self.context.model;
        let mut tallies = Tallies {
            train: scratch.tally(model, predictor, &shard.train),
            valid: scratch.tally(model, predictor, &shard.valid),
        };
        // Errors of predicted numbers are told in the label's own units.
        let unit = self.context.unit();
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
    pub(super) fn finals(
        &self,
        predictor: &Predictor<'_>,
        shard: &Shard,
        scratch: &mut Scratch,
    ) -> Result<Finals> {
        let model = &*self.context.model;
        let classes = self.context.dataset.schema().task.classes();
        let center = match shard.train.all().targets {
            Labels::Classes(_) => 0.0,
            Labels::Values(y) => y.iter().map(|y| f64::from(*y)).sum::<f64>() / y.len() as f64,
        };
        let unit = self.context.unit();
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
    pub(super) fn score(
        &self,
        client: usize,
        shared: &[f32],
        round: u64,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let place = format!("when the shared model of round {round} was scored");
        let own = self.states.look(client, |local| self.cluster(local))?;
        let shared = Predictor::At(self.of_cluster(shared, own.unwrap_or(0)));
        self.tallies(&shared, &*self.shard(client)?, &place, scratch)
    }

    /// The one of several shared models that is a client's.
    pub fn shared_of(&self, client: usize, shared: &[f32]) -> Result<Params> {
        let own = self.states.look(client, |local| self.cluster(local))?;
        Ok(self.of_cluster(shared, own.unwrap_or(0)).to_vec())
    }

    /// Which of several shared models is a client's.
    pub(super) fn cluster(&self, local: &A::ClientState) -> usize {
        let clusters = self.algorithm.extensions().clusters;
        clusters.map_or(0, |clusters| clusters.of_client(local))
    }

    /// One of several shared models that lie one after the other; mostly there is one.
    pub(super) fn of_cluster<'a>(&self, shared: &'a [f32], number: usize) -> &'a [f32] {
        let len = self.context.w0.len();
        &shared[number * len..][..len]
    }
}
