//! A client's held-out rows, by which it chooses.

use std::sync::Arc;

use super::Clients;
use crate::algorithm::{AfterRound, Algorithm};
use crate::choice::HeldOut;
use crate::data::Examples;
use crate::error::{Error, Result};
use crate::local_client::Scratch;
use crate::rng::Purpose;

impl<A: Algorithm> Clients<A> {
    /// A client's training rows that are held out.
    pub(super) fn aside(&self, client: usize) -> Result<Option<Arc<Examples>>> {
        let Some(place) = self.asides.get(client) else {
            return self.context.dataset.held_out(client);
        };
        if let Some(aside) = place.get() {
            return Ok(aside.clone());
        }
        let aside = self.context.dataset.held_out(client)?;
        Ok(place.get_or_init(|| aside).clone())
    }

    /// The losses of all models that a client may choose from, on its held-out rows, after a
    /// local round as in delivery, on a copy of its memory. `None` as in [`Clients::train`].
    pub(super) fn hold_out(
        &self,
        client: usize,
        round: u64,
        sent: &A::Broadcast,
        scratch: &mut Scratch,
    ) -> Result<Option<HeldOut>> {
        match self.held_out(client, round, sent, scratch) {
            Err(Error::NonFinite { .. }) if self.context.skip_nonfinite => Ok(None),
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
        let mut local_client =
            self.local_client(&shard.train, Purpose::Finalization, round, client, scratch);
        let update = self
            .algorithm
            .local_round(sent, &mut local, &mut local_client);
        let when = "in the local round before its choice".to_string();
        self.checked(&local_client, &shard.name, when)?;
        let after = AfterRound {
            local: &local,
            sent,
            update: &update,
        };
        let choice = self.algorithm.extensions().choice;
        let list = choice.map_or(Vec::new(), |choice| choice.candidates(after));
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
}
