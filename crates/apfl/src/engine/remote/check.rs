//! Whether a site's response makes sense: one that is broken, or wants to do harm, must not end
//! the run or put NaN into w. A finite update of the right length is taken as it is; robust
//! aggregators are for those that lie.

use super::Remote;
use crate::algorithm::Algorithm;
use crate::algorithm::extensions::{choosing, update_len};
use crate::choice::HeldOut;
use crate::clients::wire::PackedResponse;
use crate::clients::{Finalized, Reply, Request, Response};
use crate::metrics::{Finals, Tallies, Tally};
use crate::pack::{Pack, View};

/// What a response holds, or why it makes no sense.
pub(super) type Sense<T> = std::result::Result<T, &'static str>;

impl<A: Algorithm> Remote<A> {
    /// Reads a client's response to a request.
    pub(super) fn read(
        &self,
        client: usize,
        request: &Request<A::Broadcast>,
        response: PackedResponse,
        body: &[u8],
    ) -> Sense<Response<A::Update>> {
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
            _ => Err("its response is of another kind than the request"),
        }?;
        Ok(response)
    }

    fn check_reply(&self, client: usize, reply: &Reply<A::Update>, len: usize) -> Sense<()> {
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
            return Err("its update is of another length");
        }
        if !finite {
            return Err("its update has numbers that are not finite");
        }
        let pairs = reply.tallies.iter().flat_map(|(l, p)| [l, p]);
        let scores = pairs.chain(reply.candidates.iter().map(|(_, tallies)| tallies));
        for tallies in scores {
            self.check_scores(client, tallies)?;
        }
        if reply.candidates.len() > self.candidates() || !few(reply.steps) {
            return Err("its scores or steps are of something else");
        }
        if reply.mixing.is_some_and(|alpha| !alpha.is_finite()) {
            return Err("its mixing weight is not finite");
        }
        Ok(())
    }

    fn check_held_out(&self, HeldOut { rows, sums }: &HeldOut) -> Sense<()> {
        let right = sums.len() == self.candidates() && sums.iter().all(|sum| sum.is_finite());
        if few(*rows) && right {
            return Ok(());
        }
        Err("its losses are not those of the candidates")
    }

    /// How many models a client chooses from.
    fn candidates(&self) -> usize {
        choosing(&*self.algorithm).map_or(0, |choosing| choosing.list().len())
    }

    fn check_final(&self, client: usize, own: &Finalized) -> Sense<()> {
        let classes = self.context.dataset.schema().task.classes();
        if !own.classes.is_empty() && own.classes.len() != classes {
            return Err("its class counts are of other classes");
        }
        let ((train, valid), (m, n)) = (own.examples, self.context.dataset.sizes(client));
        let counts = own.classes.iter().copied();
        let mut counts = counts.chain([own.test_examples as u64]);
        if train.max(valid) > m + n || !counts.all(few) {
            return Err("its numbers of rows are not those it told");
        }
        let mut finals: Vec<&Finals> = own.alone.iter().collect();
        finals.extend([
            &own.finals.shared,
            &own.finals.localized,
            &own.finals.personal,
        ]);
        for of in finals {
            self.check_scores(client, &of.tallies)?;
            if !counted(&of.tested) || !of.valid.fits(classes) || !of.test.fits(classes) {
                return Err("its final scores cannot be");
            }
        }
        Ok(())
    }

    /// Sums of scores: no more rows than the client has, and no more hits than rows.
    fn check_scores(&self, client: usize, tallies: &Tallies) -> Sense<()> {
        let (train, valid) = self.context.dataset.sizes(client);
        let rows = (train + valid) as u64;
        let fits = |tally: &Tally| counted(tally) && tally.examples <= rows;
        if fits(&tallies.train) && fits(&tallies.valid) {
            return Ok(());
        }
        Err("its scores are of more rows than it has")
    }
}

fn counted(tally: &Tally) -> bool {
    few(tally.examples) && tally.correct <= tally.examples
}

/// Counts of which no sum overflows.
fn few(count: u64) -> bool {
    count <= u64::from(u32::MAX)
}
