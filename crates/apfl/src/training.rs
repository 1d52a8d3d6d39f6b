//! The only round loop.
//!
//! [`Training`] is a run with its algorithm's type erased once. The caller owns the
//! `while`: progress, storage and stopping early are statements there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::aggregation::{Aggregation, Parted};
use crate::algorithm::{Algorithm, Choice, Sender};
use crate::attack::Attackers;
use crate::clients::{Delivered, Home, World};
use crate::digest::{digest_of, digest_of_pieces, hex};
use crate::engine::{Engine, Threads};
use crate::error::{Error, Result};
use crate::metrics::{Losses, Pool, Scores, Spread, Three};
use crate::pack::{Arrays, Field, Pack};
use crate::params::Params;
use crate::rng::{Purpose, stream};

/// How updates are weighted in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All alike: the paper's.
    Uniform,
    /// By training examples.
    Examples,
}

/// Who gets a last local round at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverTo {
    /// Every client.
    All,
    /// Every client that was ever drawn.
    Drawn,
    /// Nobody.
    None,
}

/// What a run is, apart from its algorithm.
#[derive(Clone)]
pub struct Setup {
    /// Data, model, pace and seed.
    pub world: World,
    /// Rounds to train.
    pub rounds: u64,
    /// K/n
    pub participation: f64,
    /// How updates are weighted.
    pub weights: Weights,
    /// How updates become one model.
    pub aggregation: Aggregation,
    /// Who attacks.
    pub attackers: Attackers,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Who gets a model at the end.
    pub deliver_to: DeliverTo,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// What a user should be told, such as numbers that were taken from the data.
    pub notes: Vec<String>,
    /// Where the clients' memories live.
    pub home: Home,
}

impl Setup {
    /// K: the clients drawn each round, at least one.
    pub fn cohort_size(&self) -> usize {
        let n = self.world.dataset.clients();
        ((self.participation * n as f64).round() as usize).clamp(1, n)
    }

    /// U_r: K of n clients, uniformly without replacement, ascending.
    pub fn cohort(&self, round: u64) -> Vec<usize> {
        let n = self.world.dataset.clients();
        let k = self.cohort_size();
        if k == n {
            return (0..n).collect();
        }
        let mut rng = stream(self.world.seed, Purpose::Cohort, round, 0);
        let mut cohort = rand::seq::index::sample(&mut rng, n, k).into_vec();
        cohort.sort_unstable();
        cohort
    }

    /// Whether a round is evaluated; the last one always is.
    pub fn evaluates(&self, round: u64) -> bool {
        round.is_multiple_of(self.evaluate_every) || round == self.rounds
    }

    fn regression(&self) -> bool {
        self.world.dataset.schema().task.classes() == 0
    }
}

/// A line of `rounds.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// The round, from 1.
    pub round: u64,
    /// Local steps so far; where clients differ, those of the longest in each round.
    pub step: u64,
    /// Clients that took part and were not left out.
    pub cohort: usize,
    /// How many of them attack; the scores are over the others, and absent if there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attackers: usize,
    /// Wall time.
    pub seconds: f64,
    /// Scores over the cohort's honest clients, in evaluated rounds.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Three<Scores>>,
    /// The highest loss of any client of the cohort, in evaluated rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worst: Option<Three<Losses>>,
    /// αᵢ over the same clients after the round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<Spread>,
    /// Clients whose loss was not finite and who were left out.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<String>,
    /// Bytes of all updates.
    pub bytes_up: u64,
    /// Bytes of all broadcasts.
    pub bytes_down: u64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A run.
pub struct Training {
    setup: Arc<Setup>,
    rounds: Box<dyn Rounds>,
}

impl Training {
    /// A run of one of the algorithms, before its first round.
    pub fn new(setup: Setup, algorithm: &Choice) -> Result<Self> {
        match algorithm.clone() {
            Choice::Apfl(a) => Self::of(setup, a),
            Choice::Averaged(a) => Self::of(setup, a),
            Choice::AgnosticApfl(a) => Self::of(setup, a),
            Choice::FedAvg(a) => Self::of(setup, a),
            Choice::AgnosticFedAvg(a) => Self::of(setup, a),
            Choice::Scaffold(a) => Self::of(setup, a),
            Choice::PerFedAvg(a) => Self::of(setup, a),
            Choice::PFedMe(a) => Self::of(setup, a),
            Choice::Local(a) => Self::of(setup, a),
        }
    }

    /// A run of any algorithm.
    pub fn of<A: Algorithm>(setup: Setup, algorithm: A) -> Result<Self> {
        let setup = Arc::new(setup);
        let algorithm = Arc::new(algorithm);
        let world = setup.world.clone();
        let engine = Threads::new(world, algorithm.clone(), setup.threads, &setup.home)?;
        let server = algorithm.start(&setup.world.w0, setup.world.dataset.clients());
        let rounds = Typed {
            setup: setup.clone(),
            algorithm,
            engine,
            server,
            round: 0,
            step: 0,
        };
        Ok(Self {
            setup,
            rounds: Box::new(rounds),
        })
    }

    /// Trains one more round; `None` when all are done.
    pub fn next_round(&mut self) -> Result<Option<RoundRecord>> {
        self.rounds.next_round()
    }

    /// The clients that delivery is for, in order.
    pub fn receivers(&self) -> Vec<usize> {
        match self.setup.deliver_to {
            DeliverTo::All => (0..self.setup.world.dataset.clients()).collect(),
            DeliverTo::Drawn => self.drawn().into_keys().collect(),
            DeliverTo::None => Vec::new(),
        }
    }

    /// Hands those clients their models; the run itself does not change. `each` sees
    /// them in their order.
    pub fn deliver(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        self.rounds.deliver(clients, each)
    }

    /// In how many rounds each client took part so far; those never drawn are absent.
    pub fn drawn(&self) -> BTreeMap<usize, u64> {
        let mut drawn = BTreeMap::new();
        for round in 1..=self.rounds.round() {
            for client in self.setup.cohort(round) {
                *drawn.entry(client).or_default() += 1;
            }
        }
        drawn
    }

    /// The clients drawn in some rounds.
    pub fn drawn_in(&self, rounds: RangeInclusive<u64>) -> BTreeSet<usize> {
        rounds.flat_map(|round| self.setup.cohort(round)).collect()
    }

    /// Rounds trained so far.
    pub fn round(&self) -> u64 {
        self.rounds.round()
    }

    /// Local steps so far, as in [`RoundRecord::step`].
    pub fn step(&self) -> u64 {
        self.rounds.step()
    }

    /// The arrays of what the server remembers.
    pub fn server_bytes(&self) -> (Vec<Field>, Vec<u8>) {
        self.rounds.server_bytes()
    }

    /// The arrays of what any client remembers.
    pub fn client_fields(&self) -> Vec<Field> {
        self.rounds.client_fields()
    }

    /// The memories of some clients, in their order, as bytes.
    pub fn snapshot(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, Vec<u8>) -> Result<()> + Send),
    ) -> Result<()> {
        self.rounds.snapshot(clients, each)
    }

    /// Puts the server back to what it was after `round`.
    pub fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()> {
        self.rounds.restore_server(round, step, server)
    }

    /// Gives a client back its memory.
    pub fn restore_client(&mut self, client: usize, memory: Arrays) -> Result<()> {
        self.rounds.restore_client(client, memory)
    }

    /// The shared model.
    pub fn shared(&self) -> Params {
        self.rounds.shared()
    }

    /// The shared model that the run ends with: the last one, or the average of all.
    pub fn output(&self) -> Params {
        self.rounds.output()
    }

    /// Whether personal models are mixtures of two models' outputs.
    pub fn mixes_outputs(&self) -> bool {
        self.rounds.mixes_outputs()
    }

    /// A hash of the shared model, of what the server remembers and of every client's
    /// memory. Equal fingerprints mean equal bits.
    pub fn fingerprint(&mut self) -> Result<String> {
        let drawn: Vec<usize> = self.drawn().into_keys().collect();
        self.rounds.fingerprint(&drawn)
    }

    /// Bytes that one client remembers.
    pub fn client_bytes(&self) -> usize {
        self.client_fields().iter().map(Field::bytes).sum()
    }

    /// What the run is.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// A run whose algorithm nobody needs to know.
trait Rounds: Send {
    fn round(&self) -> u64;
    fn next_round(&mut self) -> Result<Option<RoundRecord>>;
    fn deliver(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()>;
    fn shared(&self) -> Params;
    fn output(&self) -> Params;
    fn mixes_outputs(&self) -> bool;
    fn step(&self) -> u64;
    fn server_bytes(&self) -> (Vec<Field>, Vec<u8>);
    fn client_fields(&self) -> Vec<Field>;
    fn snapshot(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, Vec<u8>) -> Result<()> + Send),
    ) -> Result<()>;
    fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()>;
    fn restore_client(&mut self, client: usize, memory: Arrays) -> Result<()>;
    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String>;
}

struct Typed<A: Algorithm, E> {
    setup: Arc<Setup>,
    algorithm: Arc<A>,
    engine: E,
    server: A::Server,
    round: u64,
    step: u64,
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
                match Parted::of(&reply.update) {
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
            setup.aggregation.check(collected.len())?;
            let take = |(_, update): &mut (_, Parted)| std::mem::take(&mut update.model);
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
            pools = Some(Three {
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
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        let sent = self.algorithm.broadcast(&self.server);
        let shared = &*self.algorithm.output(&self.server);
        let keep = self.setup.keep_models;
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

    fn snapshot(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(usize, Vec<u8>) -> Result<()> + Send),
    ) -> Result<()> {
        self.engine.snapshot(clients, each)
    }

    fn restore_server(&mut self, round: u64, step: u64, mut server: Arrays) -> Result<()> {
        self.server = A::Server::unpack(&mut server)
            .map_err(|e| Error::Data(format!("what the server remembers: {e}")))?;
        (self.round, self.step) = (round, step);
        Ok(())
    }

    fn restore_client(&mut self, client: usize, memory: Arrays) -> Result<()> {
        self.engine.restore(client, memory)
    }

    fn fingerprint(&mut self, drawn: &[usize]) -> Result<String> {
        let memories = self.engine.digests(drawn)?;
        let shared = self.algorithm.shared(&self.server);
        let shared: Vec<u8> = shared.iter().flat_map(|x| x.to_le_bytes()).collect();
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
