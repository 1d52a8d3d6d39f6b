//! Whether what a site answers makes sense: one that is broken, or wants to do harm, must not
//! end the run or put NaN into w. A finite update of the right length is taken as it is; what
//! stands against those that lie is a rule of aggregation.

use super::*;
use crate::algorithm::extensions::{choosing, update_len};
use crate::engine::message::ReplyTail;
use crate::metrics::{Finals, Tally};
use crate::pack::View;

/// What an answer says, or why it makes no sense.
pub(super) type Sense<T> = std::result::Result<T, &'static str>;

/// A reply to a round where there is one, and the digest of what the client remembers then.
type Trained<U> = (Option<Reply<U>>, [u8; 32]);

const OTHER_ORDER: &str = "it answered another order than it got";

impl<A: Algorithm> Remote<A> {
    /// A reply to a round, and the digest of what the client remembers then.
    pub(super) fn trained(
        &self,
        client: usize,
        fruit: Fruit,
        body: &[u8],
        sent: &A::Broadcast,
    ) -> Sense<Trained<A::Update>> {
        let Fruit::Trained { reply, digest } = fruit else {
            return Err(OTHER_ORDER);
        };
        let read = |tail: ReplyTail| tail.reply(body).map_err(|_| "its update cannot be read");
        let reply: Option<Reply<A::Update>> = reply.map(read).transpose()?;
        if let Some(reply) = &reply {
            let len = update_len(&*self.algorithm, sent, self.world.w0.len());
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
                self.sense_of_scores(client, tallies)?;
            }
            if reply.candidates.len() > self.candidates() || !few(reply.steps) {
                return Err("its scores or steps are of something else");
            }
            if reply.mixing.is_some_and(|alpha| !alpha.is_finite()) {
                return Err("its mixing weight is not finite");
            }
        }
        Ok((reply, digest))
    }

    /// Losses on held-out rows, one for each candidate.
    pub(super) fn held_out(&self, fruit: Fruit) -> Sense<Option<HeldOut>> {
        let Fruit::HeldOut(held_out) = fruit else {
            return Err(OTHER_ORDER);
        };
        match &held_out {
            Some(HeldOut { rows, sums })
                if !few(*rows)
                    || sums.len() != self.candidates()
                    || sums.iter().any(|sum| !sum.is_finite()) =>
            {
                Err("its losses are not those of the candidates")
            }
            _ => Ok(held_out),
        }
    }

    /// How many models a client chooses from.
    fn candidates(&self) -> usize {
        choosing(&*self.algorithm).map_or(0, |choosing| choosing.list().len())
    }

    /// Final scores.
    pub(super) fn delivered(&self, client: usize, fruit: Fruit) -> Sense<Option<Box<Delivered>>> {
        let Fruit::Delivered(delivered) = fruit else {
            return Err(OTHER_ORDER);
        };
        let Some(own) = &delivered else {
            return Ok(None);
        };
        let classes = self.world.dataset.schema().task.classes();
        if !own.classes.is_empty() && own.classes.len() != classes {
            return Err("its class counts are of other classes");
        }
        let ((train, valid), (m, n)) = (own.examples, self.world.dataset.sizes(client));
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
            self.sense_of_scores(client, &of.tallies)?;
            if !counted(&of.tested) || !of.valid.fits(classes) || !of.test.fits(classes) {
                return Err("its final scores cannot be");
            }
        }
        Ok(delivered)
    }

    /// Sums of scores: no more rows than the client has, and no more hits than rows.
    pub(super) fn sense_of_scores(&self, client: usize, tallies: &Tallies) -> Sense<()> {
        let (train, valid) = self.world.dataset.sizes(client);
        let rows = (train + valid) as u64;
        let fits = |tally: &Tally| counted(tally) && tally.examples <= rows;
        match fits(&tallies.train) && fits(&tallies.valid) {
            true => Ok(()),
            false => Err("its scores are of more rows than it has"),
        }
    }
}

fn counted(tally: &Tally) -> bool {
    few(tally.examples) && tally.correct <= tally.examples
}

/// Counts of which no sum overflows.
fn few(count: u64) -> bool {
    count <= u64::from(u32::MAX)
}
