//! Losses by which models are compared: those of candidates, or of the personal model.

use std::sync::Arc;

use super::{Clients, EvaluationRows};
use crate::algorithm::{AfterRound, Algorithm};
use crate::choice::{Candidate, HeldOut};
use crate::data::Examples;
use crate::error::{Error, Result};
use crate::local_client::Scratch;
use crate::rng::Purpose;

impl<A: Algorithm> Clients<A> {
    /// Returns the training rows of a client that are held out.
    pub(super) fn held_out_rows(&self, client: usize) -> Result<Option<Arc<Examples>>> {
        let Some(cell) = self.held_out.get(client) else {
            return self.context.dataset.held_out(client);
        };
        if let Some(rows) = cell.get() {
            return Ok(rows.clone());
        }
        let rows = self.context.dataset.held_out(client)?;
        Ok(cell.get_or_init(|| rows).clone())
    }

    /// Returns the losses of all candidates (on validation rows, or without candidates: of the
    /// personal model) on a client's rows, after a local round on a copy of its state. `None` as
    /// in [`Clients::train`].
    pub(super) fn hold_out(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        rows: EvaluationRows,
        scratch: &mut Scratch,
    ) -> Result<Option<HeldOut>> {
        match self.candidate_losses(client, round, sent, rows, scratch) {
            Err(Error::NonFinite { .. }) if self.context.skip_nonfinite => Ok(None),
            other => other.map(Some),
        }
    }

    fn candidate_losses(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        rows: EvaluationRows,
        scratch: &mut Scratch,
    ) -> Result<HeldOut> {
        let shard = self.shard_uncached(client)?;
        let held_out = match rows {
            EvaluationRows::HeldOut => self.held_out_rows(client)?,
            EvaluationRows::Valid => None,
        };
        let mut local = self.copy_state(client)?;
        let mut local_client =
            self.local_client(&shard.train, Purpose::Finalization, round, client, scratch);
        let update = self
            .algorithm
            .local_round(sent, &mut local, &mut local_client);
        let when = format!("in a local round from the models of round {}", round - 1);
        self.require_finite(&local_client, &shard.name, when)?;
        let after = AfterRound {
            local: &local,
            sent,
            update: &update,
        };
        let choice = self.algorithm.extensions().choice;
        let compared = choice.filter(|_| rows == EvaluationRows::HeldOut);
        let mut list = compared.map_or(Vec::new(), |choice| choice.candidates(after));
        if list.is_empty() {
            let personal = self.algorithm.models(after, &mut local_client).personal;
            list.push((Candidate::Mixing(0.0), personal)); // the name is not used
        }
        let (rows, place) = match rows {
            EvaluationRows::HeldOut => (held_out.as_deref(), "on its held-out rows"),
            EvaluationRows::Valid => (Some(&shard.valid), "on its validation rows"),
        };
        let losses = list
            .iter()
            .map(|(_, model)| self.loss_on(model, rows, &shard, place, scratch));
        Ok(HeldOut {
            sums: losses.collect::<Result<_>>()?,
            rows: rows.map_or(0, |rows| rows.len() as u64),
        })
    }
}
