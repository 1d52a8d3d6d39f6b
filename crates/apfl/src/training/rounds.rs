//! The rounds of one algorithm on one engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{RoundRecord, Setup, Weights};
use crate::aggregation::{Aggregation, SplitUpdate};
use crate::algorithm::{Algorithm, Sender};
use crate::clients::{Delivered, Keep};
use crate::digest::{digest_of, digest_of_pieces, hex};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::metrics::{ByModel, Pool, Spread};
use crate::pack::{Arrays, Field, Pack};
use crate::params::{Params, bytes_of};
use crate::store::memory_files::Written;

/// A run whose algorithm nobody needs to know.
pub(super) trait Rounds: Send {
    fn round(&self) -> u64;
    fn next_round(&mut self) -> Result<Option<RoundRecord>>;
    fn deliver(
        &mut self,
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()>;
    fn shared(&self) -> Params;
    fn output(&self) -> Params;
    fn mixes_outputs(&self) -> bool;
    fn step(&self) -> u64;
    fn server_bytes(&self) -> (Vec<Field>, Vec<u8>);
    fn client_fields(&self) -> Vec<Field>;
    fn save(
        &mut self,
        directory: &Path,
        stem: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>>;
    fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()>;
    fn restore_clients(&mut self, file: &Path, clients: &[usize]) -> Result<()>;
    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String>;
}

pub(super) struct Typed<A: Algorithm, E> {
    pub(super) setup: Arc<Setup>,
    pub(super) algorithm: Arc<A>,
    pub(super) engine: E,
    pub(super) server: A::Server,
    pub(super) round: u64,
    pub(super) step: u64,
}

impl<A: Algorithm, E: Engine<A>> Rounds for Typed<A, E> {
    fn round(&self) -> u64 {
        self.round
    }

    fn next_round(&mut self) -> Result<Option<RoundRecord>> {
        if self.round == self.setup.rounds {
            return Ok(None);
        }
        let round = self.round + 1;
        let started = Instant::now();
        let setup = &*self.setup;
        let cohort = setup.cohort(round);
        let score = setup.evaluates(round);

        let sent = self.algorithm.broadcast(&self.server);
        let mut fold = A::Fold::default();
        let (mut localized, mut personal) = (Pool::default(), Pool::default());
        let mut mixing = Vec::new();
        let mut bytes_up = 0;
        let mut steps = 0;
        let mut skipped = Vec::new();
        let mut collected = Vec::new();
        let mut problem = None;
        let (algorithm, server) = (&*self.algorithm, &self.server);
        self.engine
            .train(round, &sent, &cohort, score, &mut |client, reply| {
                let Some(reply) = reply else {
                    skipped.push(client);
                    return;
                };
                let weight = match setup.weights {
                    Weights::Uniform => 1.0,
                    Weights::Examples => setup.world.dataset.sizes(client).0 as f64,
                };
                if !setup.attackers.has(client) {
                    if let Some((l, p)) = &reply.tallies {
                        localized.add(l);
                        personal.add(p);
                    }
                    mixing.extend(reply.mixing.map(f64::from));
                }
                bytes_up += reply.update.bytes() as u64;
                steps = steps.max(reply.steps);
                let from = Sender { client, weight };
                let (forged, rule) = (setup.attackers.forges(client), setup.aggregation);
                if !forged && rule == Aggregation::Mean {
                    algorithm.fold(server, &mut fold, from, reply.update);
                    return;
                }
                match SplitUpdate::of(&reply.update) {
                    Err(error) => problem = problem.take().or(Some(error)),
                    Ok(mut update) => {
                        if forged {
                            let w = algorithm.shared(server);
                            setup.attackers.forge(client, round, w, &mut update.model);
                        }
                        match rule {
                            Aggregation::Mean => {
                                algorithm.fold(server, &mut fold, from, update.joined());
                            }
                            _ => collected.push((from, update)),
                        }
                    }
                }
            })?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        if skipped.len() == cohort.len() {
            return Err(Error::NonFinite {
                client: setup.world.dataset.name(cohort[0]),
                place: format!("in round {round}, as did that of every client drawn"),
                loss: f64::NAN,
            });
        }
        if setup.aggregation != Aggregation::Mean {
            let enough = setup.aggregation.check(collected.len());
            enough.map_err(|e| Error::Data(format!("in round {round}: {e}")))?;
            let take = |(_, update): &mut (_, SplitUpdate)| std::mem::take(&mut update.model);
            let models: Vec<Params> = collected.iter_mut().map(take).collect();
            let combined = setup.aggregation.combine(&models);
            for (from, update) in collected {
                let update = update.with(combined.clone());
                self.algorithm.fold(&self.server, &mut fold, from, update);
            }
        }
        self.algorithm.finish(&mut self.server, fold);
        let cohort: Vec<usize> = match skipped.is_empty() {
            true => cohort,
            false => cohort
                .into_iter()
                .filter(|c| !skipped.contains(c))
                .collect(),
        };

        let honest: Vec<usize> = cohort
            .iter()
            .copied()
            .filter(|client| !setup.attackers.has(*client))
            .collect();
        let mut pools = None;
        if score && !honest.is_empty() {
            let mut shared = Pool::default();
            let model = self.algorithm.shared(&self.server);
            self.engine
                .score(round, model, &honest, &mut |_, tallies| {
                    shared.add(&tallies)
                })?;
            pools = Some(ByModel {
                shared,
                localized,
                personal,
            });
        }
        self.round = round;
        self.step += steps;
        Ok(Some(RoundRecord {
            round,
            step: self.step,
            cohort: cohort.len(),
            attackers: cohort.len() - honest.len(),
            seconds: started.elapsed().as_secs_f64(),
            scores: pools.map(|pools| pools.map(|p| p.sum.scores(setup.regression()))),
            worst: pools.map(|pools| pools.map(|p| p.worst)),
            mixing: Spread::of(&mixing),
            skipped: skipped
                .into_iter()
                .map(|c| setup.world.dataset.name(c))
                .collect(),
            bytes_up,
            bytes_down: sent.bytes() as u64 * cohort.len() as u64,
        }))
    }

    fn deliver(
        &mut self,
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        let sent = self.algorithm.broadcast(&self.server);
        let shared = &*self.algorithm.output(&self.server);
        // The round after the last: its rate, with a random stream of its own.
        let round = self.round + 1;
        self.engine
            .deliver(round, &sent, shared, clients, keep, each)
    }

    fn shared(&self) -> Params {
        self.algorithm.shared(&self.server).to_vec()
    }

    fn output(&self) -> Params {
        self.algorithm.output(&self.server).into_owned()
    }

    fn mixes_outputs(&self) -> bool {
        self.algorithm.mixes_outputs()
    }

    fn step(&self) -> u64 {
        self.step
    }

    fn server_bytes(&self) -> (Vec<Field>, Vec<u8>) {
        (self.server.fields(), self.server.to_bytes())
    }

    fn client_fields(&self) -> Vec<Field> {
        self.algorithm.join(&self.setup.world.w0).fields()
    }

    fn save(
        &mut self,
        directory: &Path,
        stem: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>> {
        self.engine.save(directory, stem, clients)
    }

    fn restore_server(&mut self, round: u64, step: u64, mut server: Arrays) -> Result<()> {
        self.server = A::Server::unpack(&mut server)
            .map_err(|e| Error::Data(format!("what the server remembers: {e}")))?;
        (self.round, self.step) = (round, step);
        Ok(())
    }

    fn restore_clients(&mut self, file: &Path, clients: &[usize]) -> Result<()> {
        self.engine.restore(file, clients)
    }

    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String> {
        let memories = self.engine.digests(drawn)?;
        let shared = self.algorithm.shared(&self.server);
        let shared = bytes_of(shared);
        let indices: Vec<[u8; 8]> = drawn.iter().map(|k| (*k as u64).to_le_bytes()).collect();
        let mut pieces: Vec<&[u8]> = vec![&shared];
        let server = digest_of(&self.server);
        pieces.push(&server);
        for (index, memory) in indices.iter().zip(&memories) {
            pieces.push(index);
            pieces.push(memory);
        }
        Ok(hex(&digest_of_pieces(pieces)))
    }
}
