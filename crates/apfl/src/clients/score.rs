//! Scores of models at a client.

use super::Clients;
use crate::algorithm::Algorithm;
use crate::data::{Examples, Labels, Shard};
use crate::error::{Error, Result};
use crate::local_client::{Predictor, Scratch};
use crate::metrics::{Finals, Tallies};
use crate::params::Params;

impl<A: Algorithm> Clients<A> {
    /// Returns the loss of a model, summed over some rows; 0 without rows.
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
        // Errors of a regression are in the label's own units.
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

    /// Returns the summary statistics of a model's final scores at a client.
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
            tallies: self.tallies(predictor, shard, "at finalization", scratch)?,
            tested,
            valid: scratch.assess(model, predictor, &shard.valid, classes, center),
            test: scratch.assess(model, predictor, &shard.test, classes, center),
        })
    }

    /// Returns a client's tallies of the shared model after a round.
    pub(super) fn score(
        &self,
        client: usize,
        shared: &[f32],
        round: u64,
        scratch: &mut Scratch,
    ) -> Result<Tallies> {
        let place = format!("when the shared model of round {round} was scored");
        let cluster = self
            .states
            .inspect(client, |local| self.cluster_of(local))?;
        let shared = Predictor::At(self.cluster_model(shared, cluster.unwrap_or(0)));
        self.tallies(&shared, &*self.shard(client)?, &place, scratch)
    }

    /// Returns the shared model of a client's cluster.
    pub fn shared_model_of(&self, client: usize, shared: &[f32]) -> Result<Params> {
        let cluster = self
            .states
            .inspect(client, |local| self.cluster_of(local))?;
        Ok(self.cluster_model(shared, cluster.unwrap_or(0)).to_vec())
    }

    /// Returns the cluster of a client.
    pub(super) fn cluster_of(&self, local: &A::ClientState) -> usize {
        let clusters = self.algorithm.extensions().clusters;
        clusters.map_or(0, |clusters| clusters.of_client(local))
    }

    /// Returns the shared model of a cluster; they lie one after the other.
    pub(super) fn cluster_model<'a>(&self, shared: &'a [f32], number: usize) -> &'a [f32] {
        let len = self.context.w0.len();
        &shared[number * len..][..len]
    }
}
