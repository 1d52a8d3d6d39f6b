//! Validation of a site's response: a broken or malicious response must not end the run or put NaN
//! into w. A finite update of the right length passes; robust aggregators are for those that lie.

use super::Remote;
use crate::algorithm::Algorithm;
use crate::algorithm::extensions::{choosing, update_len};
use crate::choice::HeldOut;
use crate::clients::wire::PackedResponse;
use crate::clients::{Finalized, Reply, Request, Response};
use crate::metrics::{Finals, Tallies, Tally};
use crate::pack::{Pack, View};

/// The result of a validation, or the reason it failed.
pub(super) type Validated<T> = std::result::Result<T, &'static str>;

impl<A: Algorithm> Remote<A> {
    /// Decodes and validates a client's response to a request.
    pub(super) fn read(
        &self,
        client: usize,
        request: &Request<A::Broadcast>,
        response: PackedResponse,
        body: &[u8],
    ) -> Validated<Response<A::Update>> {
        let unreadable = |_| "its update cannot be read";
        let response = response.unpack::<A>(body).map_err(unreadable)?;
        match (request, &response) {
            (Request::Train { sent, .. }, Response::Trained(reply)) => {
                let len = update_len(&*self.algorithm, sent, self.context.w0.len());
                let check = |reply| self.check_reply(client, reply, len);
                reply.as_ref().map_or(Ok(()), check)
            }
            (Request::Score { .. }, Response::Scored(tallies)) => {
                self.check_scores(client, tallies)
            }
            (Request::HoldOut { .. }, Response::HeldOut(own)) => {
                own.as_ref().map_or(Ok(()), |own| self.check_held_out(own))
            }
            (Request::Finalize { .. }, Response::Finalized(own)) => {
                let check = |own| self.check_final(client, own);
                own.as_deref().map_or(Ok(()), check)
            }
            _ => Err("its response does not match the request"),
        }?;
        Ok(response)
    }

    fn check_reply(&self, client: usize, reply: &Reply<A::Update>, len: usize) -> Validated<()> {
        let (mut fits, mut finite) = (true, true);
        reply.update.visit(&mut |_, array| match array {
            View::F32(a) => {
                fits &= a.len() == len;
                finite &= a.iter().all(|x| x.is_finite());
            }
            View::F64(a) => finite &= a.iter().all(|x| x.is_finite()),
            View::U64(_) => {}
        });
        if !fits {
            return Err("its update has the wrong length");
        }
        if !finite {
            return Err("its update has numbers that are not finite");
        }
        if largest(&reply.update) > LARGEST {
            return Err("its update has numbers whose squares are not finite");
        }
        if !reply.candidates.iter().all(|(loss, _)| loss.is_finite()) {
            return Err(NOT_FINITE);
        }
        if let Some((localized, personal)) = &reply.tallies {
            self.check_scores(client, localized)?;
            // With candidates the personal model is one of them, and has no scores of its own.
            if reply.candidates.is_empty() {
                self.check_scores(client, personal)?;
            } else if *personal != Tallies::default() {
                return Err(OTHER_ROWS);
            }
        }
        for (_, tallies) in &reply.candidates {
            self.check_scores(client, tallies)?;
        }
        if reply.candidates.len() > self.candidates() || !is_summable(reply.steps) {
            return Err("its number of scores or steps is out of range");
        }
        if reply.mixing.is_some_and(|alpha| !alpha.is_finite()) {
            return Err("its mixing weight is not finite");
        }
        Ok(())
    }

    fn check_held_out(&self, HeldOut { rows, sums }: &HeldOut) -> Validated<()> {
        let complete = sums.len() == self.candidates() && sums.iter().all(|sum| sum.is_finite());
        if is_summable(*rows) && complete {
            return Ok(());
        }
        Err("its held-out losses do not match the candidates")
    }

    /// Returns the number of models a client chooses from.
    fn candidates(&self) -> usize {
        choosing(&*self.algorithm).map_or(0, |choosing| choosing.list().len())
    }

    fn check_final(&self, client: usize, own: &Finalized) -> Validated<()> {
        let classes = self.context.dataset.schema().task.classes();
        if !own.classes.is_empty() && own.classes.len() != classes {
            return Err("its class counts do not match the classes");
        }
        let dataset = &self.context.dataset;
        let rows = (dataset.sizes(client), dataset.test_size(client));
        let counted = own
            .classes
            .iter()
            .try_fold(0, |sum: u64, n| sum.checked_add(*n));
        let is_training = |sum: u64| own.classes.is_empty() || sum == rows.0.0 as u64;
        if (own.examples, own.test_examples) != rows || !counted.is_some_and(is_training) {
            return Err("its row counts differ from those of its survey");
        }
        let mut numbers = (own.mixing.map(f64::from).into_iter())
            .chain(own.majority)
            .chain(
                own.gain
                    .iter()
                    .flat_map(|gain| gain.mean.into_iter().chain(gain.sd).chain(gain.skew)),
            );
        if !numbers.all(f64::is_finite) {
            return Err(NOT_FINITE);
        }
        if own.gain.is_some_and(|gain| !is_summable(gain.n)) {
            return Err(OTHER_ROWS);
        }
        if own
            .majority
            .is_some_and(|share| !(0.0..=1.0).contains(&share))
        {
            return Err("its final scores are inconsistent");
        }
        let mut finals: Vec<&Finals> = own.alone.iter().chain(&own.baseline).collect();
        finals.extend([
            &own.finals.shared,
            &own.finals.localized,
            &own.finals.personal,
        ]);
        for model in finals {
            self.check_scores(client, &model.tallies)?;
            check_tally(&model.tested, rows.1)?;
            for (sums, rows) in [(&model.valid, rows.0.1), (&model.test, rows.1)] {
                // Absent where the federation does not disclose them.
                let counts_all = [0, rows as u64].contains(&sums.examples());
                if !sums.fits(classes) || !counts_all {
                    return Err("its final scores are inconsistent");
                }
                if !sums.is_finite() {
                    return Err(NOT_FINITE);
                }
            }
        }
        Ok(())
    }

    /// Checks sums of scores on a client's training and validation rows.
    fn check_scores(&self, client: usize, tallies: &Tallies) -> Validated<()> {
        let (train, valid) = self.context.dataset.sizes(client);
        check_tally(&tallies.train, train)?;
        check_tally(&tallies.valid, valid)
    }
}

const NOT_FINITE: &str = "its scores have numbers that are not finite";
const OTHER_ROWS: &str = "its scores count other rows than it has";

/// The largest number of an update; the square of a larger one is not finite in single precision.
const LARGEST: f32 = 1.8e19;

/// Returns the largest absolute value in the parameters of an update.
pub(super) fn largest(update: &impl Pack) -> f32 {
    let mut largest = 0f32;
    update.visit(&mut |_, array| {
        if let View::F32(a) = array {
            largest = a.iter().fold(largest, |most, x| most.max(x.abs()));
        }
    });
    largest
}

/// Checks that sums are finite and over exactly so many rows, with no more hits than rows.
fn check_tally(tally: &Tally, rows: usize) -> Validated<()> {
    if tally.examples != rows as u64 || tally.correct > tally.examples {
        return Err(OTHER_ROWS);
    }
    if !tally.loss.is_finite() || !tally.squared_error.is_finite() {
        return Err(NOT_FINITE);
    }
    Ok(())
}

/// Returns whether sums of such counts cannot overflow.
fn is_summable(count: u64) -> bool {
    count <= u64::from(u32::MAX)
}
