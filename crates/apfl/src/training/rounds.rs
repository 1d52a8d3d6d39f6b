//! The rounds of one algorithm on one engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::aggregator::Aggregator;
use super::{Recorded, RoundRecord, Setup, Waiting};
use crate::aggregation::optimizer::Moments;
use crate::algorithm::Algorithm;
use crate::algorithm::extensions::{self, aggregated, aggregated_mut};
use crate::choice::{Candidate, Choosing, HeldOut};
use crate::clients::{Delivered, Keep};
use crate::digest::{digest_of, digest_of_pieces, hex};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::metrics::{ByModel, Pool, Spread};
use crate::pack::{Arrays, Field, Pack};
use crate::params::{Params, bytes_of};
use crate::store::archive::{MemoryArchive, Written};

/// A run whose algorithm nobody needs to know.
pub(super) trait Rounds: Send {
    fn round(&self) -> u64;
    fn step(&self) -> u64;
    fn until(&self) -> u64;
    /// In how many rounds each client took part so far.
    fn rounds_of(&self) -> &[u32];
    /// In how many rounds each client was drawn so far, whether it answered or not.
    fn asked_of(&self) -> &[u32];
    fn next_round(&mut self) -> Result<Option<RoundRecord>>;
    fn deliver(
        &mut self,
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()>;
    fn hold_out(&mut self, clients: &[usize]) -> Result<BTreeMap<usize, HeldOut>>;
    fn choose(&mut self, choices: &[(usize, Candidate)]) -> Result<()>;
    fn choosing(&self) -> Option<&Choosing>;
    fn shared(&self) -> Params;
    fn output(&self) -> Params;
    fn mixes_outputs(&self) -> bool;
    fn server_bytes(&self) -> (Vec<Field>, Vec<u8>);
    fn client_fields(&self) -> Vec<Field>;
    fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>>;
    fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()>;
    fn restore_clients(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<()>;
    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String>;
    fn recorded(&self) -> &Recorded;
    fn restore_recorded(&mut self, recorded: Recorded);
}

pub(super) struct Typed<A: Algorithm, E> {
    setup: Arc<Setup>,
    algorithm: Arc<A>,
    engine: E,
    server: A::Server,
    /// What the server's optimizer remembers, where there is one.
    moments: Option<Moments>,
    round: u64,
    step: u64,
    rounds_of: Vec<u32>,
    asked_of: Vec<u32>,
    recorded: Recorded,
    /// The last round.
    until: u64,
}

/// What a cohort's local rounds came to, beside the sum of its updates.
struct Trained {
    /// Those drawn who answered and whose loss stayed finite.
    cohort: Vec<usize>,
    /// Those of them that do not attack: scores are theirs.
    honest: Vec<usize>,
    /// Those drawn that were left out.
    skipped: Vec<usize>,
    /// Those of them that did not answer.
    absent: Vec<usize>,
    localized: Pool,
    personal: Pool,
    mixing: Vec<f64>,
    steps: u64,
    bytes_up: u64,
}

impl<A: Algorithm, E: Engine<A>> Typed<A, E> {
    pub(super) fn new(setup: Arc<Setup>, algorithm: Arc<A>, engine: E) -> Result<Self> {
        let clients = setup.world.dataset.clients();
        let mut server = algorithm.start(&setup.world.w0, clients);
        let moments = setup.server.start(aggregated(&*algorithm, &server).len());
        if moments.is_some() && aggregated_mut(&*algorithm, &mut server).is_none() {
            return Err(Error::Request(format!(
                "federation.server: found \"{}\", but the algorithm has no shared model that \
                 an optimizer could move; use mean",
                setup.server.kind()
            )));
        }
        let until = setup.last_round(0, &vec![0; clients]);
        Ok(Self {
            server,
            moments,
            setup,
            algorithm,
            engine,
            round: 0,
            step: 0,
            rounds_of: vec![0; clients],
            asked_of: vec![0; clients],
            recorded: Recorded::default(),
            until,
        })
    }

    /// Ends a round: the algorithm takes the sum of the updates, the optimizer the rest.
    fn finish(&mut self, fold: A::Fold) {
        let (algorithm, server) = (&*self.algorithm, &mut self.server);
        let Some(moments) = &mut self.moments else {
            return algorithm.finish(server, fold);
        };
        let before = aggregated(algorithm, server).to_vec();
        algorithm.finish(server, fold);
        if let Some(w) = aggregated_mut(algorithm, server) {
            self.setup.server.step(moments, &before, w);
        }
    }

    /// The local rounds of a cohort. Returns everybody's updates, added up, and the rest.
    fn train(&mut self, round: u64, sent: &A::Broadcast) -> Result<(A::Fold, Trained)> {
        let setup = &*self.setup;
        let mut cohort = setup.cohort(round);
        let score = self.evaluates(round);
        let (mut localized, mut personal) = (Pool::default(), Pool::default());
        let mut candidates: Vec<(f64, Pool)> = Vec::new();
        let (mut mixing, mut skipped) = (Vec::new(), Vec::new());
        let (mut steps, mut bytes_up) = (0, 0);
        let mut updates = Aggregator::new(setup, &*self.algorithm, &self.server, round);
        let absent = self
            .engine
            .train(round, sent, &cohort, score, &mut |client, reply| {
                let Some(reply) = reply else {
                    skipped.push(client);
                    return;
                };
                if !setup.attackers.has(client) {
                    if let Some((l, p)) = &reply.tallies {
                        localized.add(l);
                        personal.add(p);
                    }
                    candidates.resize(
                        reply.candidates.len().max(candidates.len()),
                        Default::default(),
                    );
                    for (all, (loss, tallies)) in candidates.iter_mut().zip(&reply.candidates) {
                        all.0 += loss;
                        all.1.add(tallies);
                    }
                    mixing.extend(reply.mixing.map(f64::from));
                }
                bytes_up += reply.update.bytes() as u64;
                steps = steps.max(reply.steps);
                updates.add(client, reply.update);
            })?;
        if skipped.len() + absent.len() == cohort.len() && !cohort.is_empty() {
            return Err(Error::NonFinite {
                client: setup.world.dataset.name(cohort[0]),
                place: format!("in round {round}, as did that of every client drawn"),
                loss: f64::NAN,
            });
        }
        let fold = updates.finish()?;
        skipped.extend(&absent);
        skipped.sort_unstable();
        // Where there are several: the one with the least loss on the cohort's held-out rows.
        let best = candidates.iter().copied();
        let best = best.reduce(|best, next| if next.0 < best.0 { next } else { best });
        if let Some((_, pool)) = best {
            personal = pool;
        }
        cohort.retain(|client| skipped.binary_search(client).is_err());
        let honest = |client: &usize| !setup.attackers.has(*client);
        let trained = Trained {
            honest: cohort.iter().copied().filter(honest).collect(),
            cohort,
            skipped,
            absent,
            localized,
            personal,
            mixing,
            steps,
            bytes_up,
        };
        Ok((fold, trained))
    }

    /// The scores of the shared model after a round, where some clients are to score it; of
    /// engines where they ride, those that came so far.
    fn score(&mut self, round: u64, clients: &[usize]) -> Result<Pool> {
        let mut shared = Pool::default();
        let algorithm = &*self.algorithm;
        let model = match algorithm.extensions().clusters {
            Some(clusters) => clusters.models(&self.server),
            None => algorithm.shared(&self.server),
        };
        self.engine
            .score(round, model, clients, &mut |_, tallies| {
                shared.add(&tallies)
            })?;
        Ok(shared)
    }

    /// Takes in scores that rode on an order, or come by one of their own.
    fn take_scores(&mut self, alone: bool) -> Result<()> {
        let regression = self.setup.regression();
        let missing = |waiting: &&mut Waiting| waiting.pools.is_some();
        let Some(waiting) = self.recorded.waiting.iter_mut().find(missing) else {
            return Ok(());
        };
        let pools = waiting.pools.get_or_insert_default();
        self.engine
            .scored(alone, &mut |_, tallies| pools.shared.add(&tallies))?;
        waiting.complete(regression);
        Ok(())
    }

    /// One round, as far as its record can be written.
    fn round_of(&mut self, round: u64) -> Result<Waiting> {
        self.setup.enter(round)?;
        let started = Instant::now();
        let sent = self.algorithm.broadcast(&self.server);
        let (fold, mut trained) = self.train(round, &sent)?;
        self.take_scores(false)?;
        self.finish(fold);
        let scorers = match self.evaluates(round) {
            true => trained.honest.clone(),
            false => Vec::new(),
        };
        let shared = match scorers.is_empty() {
            true => None,
            false => Some(self.score(round, &scorers)?),
        };
        let pools = shared.map(|shared| ByModel {
            shared,
            localized: trained.localized,
            personal: trained.personal,
        });
        self.round = round;
        self.step += trained.steps;
        if !trained.absent.is_empty() {
            let absent = std::mem::take(&mut trained.absent);
            self.recorded.absent.insert(round, absent);
        }
        self.count(round..=round);
        let record = self.record(trained, sent.bytes() as u64, started);
        let mut waiting = Waiting {
            record,
            pools,
            scorers,
        };
        if !self.engine.rides() {
            waiting.complete(self.setup.regression());
        }
        Ok(waiting)
    }

    /// What is written down of a round, but for its scores.
    fn record(&self, trained: Trained, sent: u64, started: Instant) -> RoundRecord {
        let setup = &*self.setup;
        let name = |client: &usize| setup.world.dataset.name(*client);
        RoundRecord {
            round: self.round,
            step: self.step,
            cohort: trained.cohort.len(),
            attackers: trained.cohort.len() - trained.honest.len(),
            seconds: started.elapsed().as_secs_f64(),
            scores: None,
            worst: None,
            mixing: Spread::of(&trained.mixing),
            skipped: trained.skipped.iter().map(name).collect(),
            epsilon: self.epsilon(),
            bytes_up: trained.bytes_up,
            bytes_down: sent * trained.cohort.len() as u64,
        }
    }

    /// ε so far, the largest of all; `None`: infinite, or there is no privacy.
    fn epsilon(&self) -> Option<f64> {
        let budget = self.setup.privacy.as_ref()?;
        let exposures = self.setup.exposures(self.round, &self.asked_of);
        budget.spent(&exposures).epsilon
    }

    fn evaluates(&self, round: u64) -> bool {
        self.setup.evaluates(round) || round == self.until
    }

    /// Notes who was asked and who took part in some rounds.
    fn count(&mut self, rounds: std::ops::RangeInclusive<u64>) {
        for round in rounds {
            for client in self.setup.cohort(round) {
                let took_part = self.recorded.took_part(round, client);
                self.rounds_of[client] += u32::from(took_part);
                self.asked_of[client] += 1;
            }
        }
    }
}

impl<A: Algorithm, E: Engine<A>> Rounds for Typed<A, E> {
    fn round(&self) -> u64 {
        self.round
    }

    fn step(&self) -> u64 {
        self.step
    }

    fn until(&self) -> u64 {
        self.until
    }

    fn rounds_of(&self) -> &[u32] {
        &self.rounds_of
    }

    fn asked_of(&self) -> &[u32] {
        &self.asked_of
    }

    fn next_round(&mut self) -> Result<Option<RoundRecord>> {
        loop {
            let first = self.recorded.waiting.front();
            if first.is_some_and(|waiting| waiting.pools.is_none()) {
                let whole = self.recorded.waiting.pop_front();
                return Ok(whole.map(|waiting| waiting.record));
            }
            match (self.round < self.until, first.is_some()) {
                (true, _) => {
                    let waiting = self.round_of(self.round + 1)?;
                    self.recorded.waiting.push_back(waiting);
                }
                (false, true) => self.take_scores(true)?,
                (false, false) => return Ok(None),
            }
        }
    }

    fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    fn restore_recorded(&mut self, recorded: Recorded) {
        self.recorded = recorded;
    }

    fn deliver(
        &mut self,
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        let sent = self.algorithm.broadcast(&self.server);
        let shared = match self.algorithm.extensions().clusters {
            Some(clusters) => clusters.models(&self.server).to_vec(),
            None => self.output(),
        };
        // The round after the last: its rate, with a random stream of its own.
        let round = self.round + 1;
        self.engine
            .deliver(round, &sent, &shared, clients, keep, each)
    }

    fn hold_out(&mut self, clients: &[usize]) -> Result<BTreeMap<usize, HeldOut>> {
        let sent = self.algorithm.broadcast(&self.server);
        let mut held_out = BTreeMap::new();
        let round = self.round + 1; // as in delivery
        self.engine
            .hold_out(round, &sent, clients, &mut |client, own| {
                held_out.insert(client, own);
            })?;
        Ok(held_out)
    }

    fn choose(&mut self, choices: &[(usize, Candidate)]) -> Result<()> {
        self.engine.choose(choices)
    }

    fn choosing(&self) -> Option<&Choosing> {
        extensions::choosing(&*self.algorithm)
    }

    fn shared(&self) -> Params {
        self.algorithm.shared(&self.server).to_vec()
    }

    fn output(&self) -> Params {
        match self.algorithm.extensions().final_models {
            Some(models) => models.shared(&self.server),
            None => self.shared(),
        }
    }

    fn mixes_outputs(&self) -> bool {
        self.algorithm.properties().mixes_outputs
    }

    fn server_bytes(&self) -> (Vec<Field>, Vec<u8>) {
        let (mut fields, mut bytes) = (self.server.fields(), self.server.to_bytes());
        if let Some(moments) = &self.moments {
            fields.extend(moments.fields());
            bytes.extend(moments.to_bytes());
        }
        (fields, bytes)
    }

    fn client_fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.setup.world.w0).fields()
    }

    fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>> {
        self.engine.save(archive, name, clients)
    }

    fn restore_server(&mut self, round: u64, step: u64, mut server: Arrays) -> Result<()> {
        let wrong = |e| Error::Checkpoint(format!("what the server remembers: {e}"));
        self.server = A::Server::unpack(&mut server).map_err(wrong)?;
        if self.moments.is_some() {
            self.moments = Some(Moments::unpack(&mut server).map_err(wrong)?);
        }
        (self.round, self.step) = (round, step);
        self.rounds_of.fill(0);
        self.asked_of.fill(0);
        if let Some(ledger) = self.setup.ledger() {
            ledger.require(self.setup.pass_number(), round)?;
        }
        self.count(1..=round);
        self.until = self.setup.last_round(round, &self.asked_of);
        // Scores that rode are asked for again.
        let missing = self.recorded.waiting.iter().find(|w| w.pools.is_some());
        if let Some(waiting) = missing.cloned() {
            self.score(waiting.record.round, &waiting.scorers)?;
        }
        Ok(())
    }

    fn restore_clients(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<()> {
        self.engine.restore(archive, name, clients)
    }

    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String> {
        let memories = self.engine.digests(drawn)?;
        let shared = self.algorithm.shared(&self.server);
        let shared = bytes_of(shared);
        let indices: Vec<[u8; 8]> = drawn.iter().map(|k| (*k as u64).to_le_bytes()).collect();
        let mut pieces: Vec<&[u8]> = vec![&shared];
        let server = digest_of(&self.server);
        pieces.push(&server);
        let moments = self.moments.as_ref().map(digest_of);
        pieces.extend(moments.as_ref().map(|digest| &digest[..]));
        for (index, memory) in indices.iter().zip(&memories) {
            pieces.push(index);
            pieces.push(memory);
        }
        Ok(hex(&digest_of_pieces(pieces)))
    }
}
