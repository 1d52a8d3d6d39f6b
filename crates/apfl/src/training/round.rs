//! One round: the cohort trains, its updates are aggregated and models are scored.

use std::ops::RangeInclusive;
use std::time::Instant;

use super::server::Traffic;
use super::{PendingRecord, RoundRecord, Training};
use crate::clients::{Reply, Request, Response};
use crate::error::{Error, Result};
use crate::metrics::{ByModel, Pool, Spread, Tallies};

/// The results of a cohort's local rounds, besides its updates.
#[derive(Default)]
pub(super) struct Trained {
    /// Clients that responded and whose loss stayed finite.
    cohort: Vec<usize>,
    /// Those of them that do not attack; scores are over these.
    pub(super) honest: Vec<usize>,
    /// Clients that were sampled and left out, ascending.
    skipped: Vec<usize>,
    /// Those of the skipped that did not respond.
    absent: Vec<usize>,
    localized: Pool,
    pub(super) personal: Pool,
    /// The loss on held-out rows and the scores of each candidate.
    pub(super) candidates: Vec<(f64, Pool)>,
    mixing: Vec<f64>,
    steps: u64,
}

impl Trained {
    fn add_steps(&mut self, reply: &Reply<()>) {
        self.steps = self.steps.max(reply.steps);
    }

    fn add_scores(&mut self, reply: &Reply<()>) {
        if let Some((localized, personal)) = &reply.tallies {
            self.localized.add(localized);
            self.personal.add(personal);
        }
        let count = reply.candidates.len().max(self.candidates.len());
        self.candidates.resize(count, Default::default());
        for (sums, (loss, tallies)) in self.candidates.iter_mut().zip(&reply.candidates) {
            sums.0 += loss;
            sums.1.add(tallies);
        }
        self.mixing.extend(reply.mixing.map(f64::from));
    }

    /// With candidates, takes as the personal model the one with the least loss on the cohort's
    /// held-out rows.
    fn choose_personal(&mut self) {
        let best = self.candidates.iter().copied();
        let best = best.reduce(|best, next| if next.0 < best.0 { next } else { best });
        if let Some((_, pool)) = best {
            self.personal = pool;
        }
    }
}

impl Training {
    /// Trains one round. The record is incomplete if scores are deferred.
    pub(super) fn train_round(&mut self, round: u64) -> Result<PendingRecord> {
        self.setup.record_release(round)?;
        let started = Instant::now();
        let mut trained = self.train_cohort(round)?;
        let traffic = self.server.finish_round()?;
        let scorers = if self.evaluates(round) {
            trained.honest.clone()
        } else {
            Vec::new()
        };
        self.evaluated = self.pooled_loss(&trained, !scorers.is_empty());
        let shared = if scorers.is_empty() {
            None
        } else {
            Some(self.score(round, &scorers)?)
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
        let mut waiting = PendingRecord {
            record: self.record(trained, traffic, started),
            pools,
            scorers,
        };
        if !self.server.defers_scores() {
            waiting.complete(self.setup.regression());
        }
        Ok(waiting)
    }

    /// Trains the cohort of a round. Deferred scores of an earlier round arrive with its responses.
    fn train_cohort(&mut self, round: u64) -> Result<Trained> {
        let setup = self.setup.clone();
        let mut cohort = setup.cohort(round);
        let mut trained = Trained::default();
        let mut deferred = Vec::new();
        let request = Request::Train {
            round,
            sent: (),
            score: self.evaluates(round),
        };
        trained.absent = (self.server).exchange(&request, &cohort, &mut |client, response| {
            match response {
                Response::Trained(None) => trained.skipped.push(client),
                Response::Trained(Some(reply)) => {
                    trained.add_steps(&reply);
                    if !setup.attackers.has(client) {
                        trained.add_scores(&reply);
                    }
                }
                Response::Scored(tallies) => deferred.push(tallies),
                _ => {}
            }
            Ok(())
        })?;
        if trained.skipped.len() + trained.absent.len() == cohort.len() && !cohort.is_empty() {
            return Err(match trained.skipped.first() {
                Some(&client) if trained.absent.is_empty() => Error::NonFinite {
                    client: setup.context.dataset.name(client),
                    place: format!("in round {round}, and so did those of all sampled clients"),
                    loss: f64::NAN,
                },
                _ => Error::Engine(format!(
                    "round {round} has no update: the loss of {} sampled clients is not finite \
                     and {} did not respond; lower training.learning_rate, or resume when they \
                     are available",
                    trained.skipped.len(),
                    trained.absent.len()
                )),
            });
        }
        self.take_scores(deferred);
        trained.skipped.extend(&trained.absent);
        trained.skipped.sort_unstable();
        trained.choose_personal();
        cohort.retain(|client| trained.skipped.binary_search(client).is_err());
        let honest = |client: &usize| !setup.attackers.has(*client);
        trained.honest = cohort.iter().copied().filter(honest).collect();
        trained.cohort = cohort;
        Ok(trained)
    }

    /// Scores the shared model after a round; the result is empty if scores are deferred.
    pub(super) fn score(&mut self, round: u64, clients: &[usize]) -> Result<Pool> {
        let mut shared = Pool::default();
        let request = Request::Score { round, shared: () };
        (self.server).exchange(&request, clients, &mut |_, response| {
            if let Response::Scored(tallies) = response {
                shared.add(&tallies);
            }
            Ok(())
        })?;
        Ok(shared)
    }

    /// Requests the scores that are still deferred.
    pub(super) fn flush_scores(&mut self) -> Result<()> {
        let mut deferred = Vec::new();
        self.server.flush(&mut |_, response| {
            if let Response::Scored(tallies) = response {
                deferred.push(tallies);
            }
            Ok(())
        })?;
        self.take_scores(deferred);
        Ok(())
    }

    /// Completes the record that waits for scores, if there is one.
    pub(super) fn take_scores(&mut self, scores: Vec<Tallies>) {
        let regression = self.setup.regression();
        let mut waiting = self.recorded.waiting.iter_mut();
        if let Some(waiting) = waiting.find(|waiting| waiting.pools.is_some()) {
            let pools = waiting.pools.get_or_insert_default();
            scores.iter().for_each(|tallies| pools.shared.add(tallies));
            waiting.complete(regression);
        }
    }

    /// Returns the record of a round without its scores.
    fn record(&self, trained: Trained, traffic: Traffic, started: Instant) -> RoundRecord {
        let name = |client: &usize| self.setup.context.dataset.name(*client);
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
            bytes_up: traffic.up,
            bytes_down: traffic.down * trained.cohort.len() as u64,
        }
    }

    pub(super) fn evaluates(&self, round: u64) -> bool {
        self.setup.evaluates(round) || round == self.last_round
    }

    /// Counts the clients' requests and participations in some rounds.
    pub(super) fn count(&mut self, rounds: RangeInclusive<u64>) {
        for round in rounds {
            for client in self.setup.cohort(round) {
                let took_part = self.recorded.took_part(round, client);
                self.rounds_of[client] += u32::from(took_part);
                self.sampled_of[client] += 1;
            }
        }
    }
}
