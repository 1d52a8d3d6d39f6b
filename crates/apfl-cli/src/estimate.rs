//! How long a run should take on this machine: a few of its clients are tried.

use std::time::Instant;

use apfl::choice::{Candidate, Pass};
use apfl::engine::threads;
use apfl::error::Result;
use apfl::local_client::LocalWork;
use apfl::spec::Plan;
use apfl::training::{FinalizedClients, Setup, Training};

/// The seconds that a run should take here, all cores at work.
pub fn expected_seconds(plan: &Plan, setup: &Setup) -> Result<f64> {
    let n = setup.context.dataset.clients();
    let looked_at = (0..n).step_by(n.div_ceil(100));
    let count = looked_at.len();
    let examples: usize = looked_at
        .map(|client| setup.context.dataset.sizes(client).0)
        .sum();
    Ok(costs(plan, setup, examples / count)?.total())
}

/// The seconds of a run: of the passes before the last one, and of that.
pub struct Costs {
    /// How many passes, and the seconds of each.
    pub before: Option<(u64, f64)>,
    last: f64,
}

impl Costs {
    /// The seconds of all passes.
    pub fn total(&self) -> f64 {
        self.last
            + self
                .before
                .map_or(0.0, |(passes, each)| passes as f64 * each)
    }
}

/// What all trainings of a run should take.
pub fn costs(plan: &Plan, setup: &Setup, examples: usize) -> Result<Costs> {
    let tried = |setup: &Setup| Probe::new(plan, setup, examples)?.seconds();
    let first = tried(setup)?;
    let Some(choosing) = plan.algorithm.choosing().filter(|c| c.single().is_none()) else {
        let (before, last) = (None, first);
        return Ok(Costs { before, last });
    };
    let mut last = setup.clone();
    last.context.pass = Some(Pass::Last);
    let last = tried(&last)?;
    let before = Some((choosing.folds, first));
    Ok(Costs { before, last })
}

/// A few clients of a run, to try.
pub struct Probe<'a> {
    setup: &'a Setup,
    training: Training,
    /// How many times longer a client's real round is.
    slower: f64,
    examples: usize,
}

impl<'a> Probe<'a> {
    /// Clients of about that many examples. Nothing is tried yet.
    pub fn new(plan: &Plan, setup: &'a Setup, examples: usize) -> Result<Self> {
        let (small, slower) = sample(setup, examples);
        let mut training = Training::new(small, &plan.algorithm)?;
        if setup.context.pass == Some(Pass::Last) {
            // The most that it may cost: every client has a model of its own.
            let all = 0..setup.context.dataset.clients();
            training.choose(all.map(|k| (k, Candidate::Mixing(0.5))).collect())?;
        }
        Ok(Self {
            setup,
            training,
            slower,
            examples,
        })
    }

    /// The bytes that a client's state takes.
    pub fn client_bytes(&self) -> usize {
        self.training.client_bytes()
    }

    /// Trains them for a round without and one with scores, where that is quickly done: the
    /// seconds that the whole run should take here.
    fn seconds(mut self) -> Result<f64> {
        let clients = self.training.setup().cohort_size();
        let cost = cost(self.training.setup(), self.examples);
        if cost > MOST_FLOPS {
            let threads = threads::count(self.setup.threads) as f64;
            let seconds = cost / clients as f64 / (threads * FLOPS_A_SECOND);
            return Ok(whole(self.setup, seconds * self.slower, 0.0));
        }
        let mut round = || -> Result<f64> {
            let started = Instant::now();
            self.training.next_round()?;
            Ok(started.elapsed().as_secs_f64() / clients as f64)
        };
        let trained = round()?;
        let scored = (round()? - trained).max(0.0);
        Ok(whole(self.setup, trained * self.slower, scored))
    }
}

/// The seconds of all rounds and deliveries, from those of one client's.
fn whole(setup: &Setup, trained: f64, scored: f64) -> f64 {
    let k = setup.cohort_size();
    let receivers = match setup.finalized_clients {
        FinalizedClients::None => 0,
        FinalizedClients::Sampled => k,
        FinalizedClients::All => setup.context.dataset.clients(),
    };
    let scorings = setup.rounds.div_ceil(setup.evaluate_every);
    let rounds = k as f64 * (setup.rounds as f64 * trained + scorings as f64 * scored);
    rounds + receivers as f64 * (trained + scored)
}

/// The multiplications and additions of a round of all clients, scored.
fn cost(setup: &Setup, examples: usize) -> f64 {
    let local_training = &setup.context.local_training;
    let batch = local_training
        .batch
        .unwrap_or(examples)
        .min(examples)
        .max(1);
    let seen = 3 * local_training.steps(examples.max(1)) * batch as u64 + 3 * examples as u64;
    2.0 * seen as f64
        * setup.context.model.network().costs().forward as f64
        * setup.cohort_size() as f64
}

/// Clients and local steps that are tried.
const TRIED_CLIENTS: usize = 8;
const TRIED_STEPS: u64 = 50;

/// Beyond so many multiplications and additions nothing is tried, and a thread is taken to do
/// so many a second.
const MOST_FLOPS: f64 = 3e11;
const FLOPS_A_SECOND: f64 = 2e10;

/// Multiplications and additions that are tried: some seconds on any machine.
const TRIED_FLOPS: f64 = 1e11;

/// The same run with a few clients, two rounds and few local steps, and how many times
/// longer the real one's rounds are.
fn sample(setup: &Setup, examples: usize) -> (Setup, f64) {
    let n = setup.context.dataset.clients();
    let mut small = setup.clone();
    (small.rounds, small.evaluate_every) = (2, 2);
    small.aggregation = Default::default(); // a rule may want more clients
    let local_training = &setup.context.local_training;
    let batch = local_training
        .batch
        .unwrap_or(examples)
        .min(examples)
        .max(1);
    let step = 3.0 * batch as f64 * setup.context.model.network().costs().forward as f64;
    let threads = threads::count(setup.threads);
    let few = (TRIED_FLOPS / (step * TRIED_STEPS as f64)) as usize;
    let clients = few.clamp(threads.min(TRIED_CLIENTS), TRIED_CLIENTS); // no core idle
    small.participation = clients.min(n) as f64 / n as f64;
    let steps = local_training.steps(examples.max(1));
    let tried = ((TRIED_FLOPS / step) as u64).clamp(1, TRIED_STEPS);
    if steps <= tried {
        return (small, 1.0);
    }
    small.context.local_training.work = LocalWork::Steps(tried);
    (small, steps as f64 / tried as f64)
}
