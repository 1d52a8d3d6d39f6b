//! Validation of a site's response: a broken or malicious response must not end the run or put NaN
//! into w. A finite update of the right length passes; robust aggregators are for those that lie.

use super::Remote;
use crate::algorithm::Algorithm;
use crate::algorithm::extensions::{choosing, update_len};
use crate::choice::HeldOut;
use crate::clients::wire::PackedResponse;
use crate::clients::{EvaluationRows, Finalized, Reply, Request, Response};
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
            (Request::HoldOut { rows, .. }, Response::HeldOut(own)) => {
                let check = |own| self.check_held_out(*rows, own);
                own.as_ref().map_or(Ok(()), check)
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
        let pairs = reply.tallies.iter().flat_map(|(l, p)| [l, p]);
        let scores = pairs.chain(reply.candidates.iter().map(|(_, tallies)| tallies));
        for tallies in scores {
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

    fn check_held_out(&self, on: EvaluationRows, own: &HeldOut) -> Validated<()> {
        let HeldOut { rows, sums } = own;
        let models = match on {
            EvaluationRows::HeldOut => self.candidates().max(1),
            EvaluationRows::Valid => 1,
        };
        let complete = sums.len() == models && sums.iter().all(|sum| sum.is_finite());
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
        let ((train, valid), (m, n)) = (own.examples, self.context.dataset.sizes(client));
        let counts = own.classes.iter().copied();
        let mut counts = counts.chain([own.test_examples as u64]);
        if train.max(valid) > m + n || !counts.all(is_summable) {
            return Err("its row counts differ from those of its survey");
        }
        let mut finals: Vec<&Finals> = own.alone.iter().collect();
        finals.extend([
            &own.finals.shared,
            &own.finals.localized,
            &own.finals.personal,
        ]);
        for model in finals {
            self.check_scores(client, &model.tallies)?;
            if !is_consistent(&model.tested)
                || !model.valid.fits(classes)
                || !model.test.fits(classes)
            {
                return Err("its final scores are inconsistent");
            }
        }
        Ok(())
    }

    /// Checks sums of scores: no more rows than the client has, and no more hits than rows.
    fn check_scores(&self, client: usize, tallies: &Tallies) -> Validated<()> {
        let (train, valid) = self.context.dataset.sizes(client);
        let rows = (train + valid) as u64;
        let fits = |tally: &Tally| is_consistent(tally) && tally.examples <= rows;
        if fits(&tallies.train) && fits(&tallies.valid) {
            return Ok(());
        }
        Err("its scores count more rows than it has")
    }
}

fn is_consistent(tally: &Tally) -> bool {
    is_summable(tally.examples) && tally.correct <= tally.examples
}

/// Returns whether sums of such counts cannot overflow.
fn is_summable(count: u64) -> bool {
    count <= u64::from(u32::MAX)
}
