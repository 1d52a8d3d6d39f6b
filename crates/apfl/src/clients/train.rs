//! The local round of a client.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Clients;
use crate::algorithm::{AfterRound, Algorithm, Models};
use crate::choice::Candidate;
use crate::error::{Error, Result};
use crate::local_client::{Predictor, Scratch};
use crate::metrics::Tallies;
use crate::rng::Purpose;

/// The result of a client's local round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply<U> {
    /// The algorithm's update.
    pub update: U,
    /// Tallies of the localized and the personal model, if requested. Also `None` if the run
    /// continues without clients whose loss is not finite and a model that was trained for its
    /// scores alone diverged.
    pub tallies: Option<(Tallies, Tallies)>,
    /// If scores were requested and the client has candidates to choose from: the loss of each,
    /// summed over held-out rows, and its tallies. The cohort's sums decide which one is personal.
    pub candidates: Vec<(f64, Tallies)>,
    /// αᵢ after the round.
    pub mixing: Option<f32>,
    /// The number of local steps.
    pub steps: u64,
}

impl<A: Algorithm> Clients<A> {
    /// Trains a client for a round, updates its state and, if requested, scores. Returns `None` if
    /// its loss was not finite and the run continues without it.
    pub(super) fn train(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        score: bool,
        scratch: &mut Scratch,
    ) -> Result<Option<Reply<A::Update>>> {
        if !self.context.skip_nonfinite {
            return self.attempt(client, round, sent, score, scratch).map(Some);
        }
        let before = self.states.inspect(client, Clone::clone)?;
        match self.attempt(client, round, sent, score, scratch) {
            Err(Error::NonFinite { .. }) => {
                let before = before.unwrap_or_else(|| self.algorithm.join(&self.context.w0));
                self.states.put(client, before)?;
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
        let mut local = match self.states.take(client)? {
            Some(local) => local,
            None => self.algorithm.join(&self.context.w0),
        };
        let mut local_client =
            self.local_client(&shard.train, Purpose::Batches, round, client, scratch);
        let update = self
            .algorithm
            .local_round(sent, &mut local, &mut local_client);
        let steps = local_client.steps();
        self.require_finite(&local_client, &shard.name, format!("in round {round}"))?;
        let mut candidates = Vec::new();
        let tallies = 'scores: {
            if !score {
                break 'scores None;
            }
            let place = format!("after the local steps of round {round}");
            let after = AfterRound {
                local: &local,
                sent,
                update: &update,
            };
            let choice = self.algorithm.extensions().choice;
            let list = choice.map_or(Vec::new(), |choice| choice.candidates(after));
            let Models {
                localized,
                personal,
                ..
            } = self.algorithm.models(after, &mut local_client);
            // Such a model says nothing about the update, which must not be lost with it.
            let is_for_scores_alone = matches!(localized, Cow::Owned(_));
            let localized = Predictor::At(&localized);
            let localized = match self.tallies(&localized, &shard, &place, scratch) {
                Err(Error::NonFinite { .. })
                    if is_for_scores_alone && self.context.skip_nonfinite =>
                {
                    break 'scores None;
                }
                other => other?,
            };
            let held_out = if list.is_empty() {
                None
            } else {
                self.held_out_rows(client)?
            };
            for (candidate, model) in &list {
                let loss = self.loss_on(model, held_out.as_deref(), &shard, &place, scratch)?;
                let tallies = match candidate {
                    Candidate::Mixing(0.0) => localized,
                    _ => self.tallies(model, &shard, &place, scratch)?,
                };
                candidates.push((loss, tallies));
            }
            let personal = if list.is_empty() {
                self.tallies(&personal, &shard, &place, scratch)?
            } else {
                Tallies::default()
            };
            Some((localized, personal))
        };
        let mixing = self.mixing(client, &local);
        self.states.put(client, local)?;
        Ok(Reply {
            update,
            tallies,
            candidates,
            mixing,
            steps,
        })
    }

    /// Returns αᵢ: that of the client's choice, else that of its state.
    pub(super) fn mixing(&self, client: usize, local: &A::ClientState) -> Option<f32> {
        match self.choice(client) {
            Some(choice) => choice.mixing(),
            None => self.algorithm.mixing(local),
        }
    }
}
