//! Estimates how long a run takes on this machine by training a few of its clients.

use std::time::Instant;

use apfl::choice::{Candidate, Pass};
use apfl::clients::Rate;
use apfl::engine::threads;
use apfl::error::Result;
use apfl::local_client::LocalWork;
use apfl::run::probe_rounds;
use apfl::spec::Plan;
use apfl::training::{FinalizedClients, Setup, Training};

/// Estimates the seconds of a run on all cores.
pub fn expected_seconds(plan: &Plan, setup: &Setup) -> Result<f64> {
    let n = setup.context.dataset.clients();
    let sampled = (0..n).step_by(n.div_ceil(100));
    let count = sampled.len();
    let examples: usize = sampled
        .map(|client| setup.context.dataset.sizes(client).0)
        .sum();
    Ok(costs(plan, setup, examples / count)?.total())
}

/// Represents the estimated seconds of a run, by pass.
pub struct Costs {
    /// The rounds of the probe that finds the learning rate, and the seconds of all.
    pub probe: Option<(u64, f64)>,
    /// The number of passes before the last one, and the seconds of each.
    pub before: Option<(u64, f64)>,
    last: f64,
}

impl Costs {
    /// Returns the seconds of all passes.
    pub fn total(&self) -> f64 {
        let before = self
            .before
            .map_or(0.0, |(passes, each)| passes as f64 * each);
        self.last + before + self.probe.map_or(0.0, |(_, seconds)| seconds)
    }
}

/// Estimates the seconds of all passes of a run.
pub fn costs(plan: &Plan, setup: &Setup, examples: usize) -> Result<Costs> {
    let estimate = |setup: &Setup| Probe::new(plan, setup, examples)?.seconds();
    let first = estimate(setup)?;
    let probe = if plan.auto_rate {
        let most = plan.algorithm.properties().max_learning_rate;
        let mut probe = setup.clone();
        probe.rounds = probe_rounds(setup.rounds, most);
        probe.evaluate_every = u64::MAX;
        probe.finalized_clients = FinalizedClients::None;
        Some((probe.rounds, estimate(&probe)?))
    } else {
        None
    };
    let Some(choosing) = plan.algorithm.choosing().filter(|c| c.single().is_none()) else {
        let (before, last) = (None, first);
        return Ok(Costs {
            probe,
            before,
            last,
        });
    };
    let mut last = setup.clone();
    last.context.pass = Some(Pass::Last);
    let last = estimate(&last)?;
    let before = Some((choosing.folds, first));
    Ok(Costs {
        probe,
        before,
        last,
    })
}

/// Represents a small version of a run, for estimates.
pub struct Probe<'a> {
    setup: &'a Setup,
    training: Training,
    /// The duration of a client's real round relative to the small one.
    slower: f64,
    examples: usize,
}

impl<'a> Probe<'a> {
    /// Prepares clients with about `examples` training examples. Trains nothing yet.
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

    /// Returns the bytes of a client state.
    pub fn client_bytes(&self) -> usize {
        self.training.client_bytes()
    }

    /// Estimates the seconds of the whole run from one round without and one with scores, or from
    /// the arithmetic if these rounds would take long.
    fn seconds(mut self) -> Result<f64> {
        let clients = self.training.setup().cohort_size();
        let cost = cost(self.training.setup(), self.examples);
        if cost > MAX_FLOPS {
            let threads = threads::count(self.setup.threads) as f64;
            let seconds = cost / clients as f64 / (threads * FLOPS_PER_SECOND);
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

/// Returns the seconds of all rounds and of finalization from those of one client.
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

/// Returns the multiplications and additions of a scored round of all clients.
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

/// The most clients and local steps of a probe.
const PROBE_CLIENTS: usize = 8;
const PROBE_STEPS: u64 = 50;

/// The most multiplications and additions of a probe's round. Beyond them nothing is trained, and
/// a thread is assumed to do `FLOPS_PER_SECOND`.
const MAX_FLOPS: f64 = 3e11;
const FLOPS_PER_SECOND: f64 = 2e10;

/// The learning rate of an estimate for a run whose rate is not known yet.
const ANY_RATE: f64 = 1e-6;

/// Multiplications and additions of a probe: a few seconds on any machine.
const PROBE_FLOPS: f64 = 1e11;

/// Returns the run reduced to a few clients, two rounds and few local steps, and how many times
/// longer a real round is.
fn sample(setup: &Setup, examples: usize) -> (Setup, f64) {
    let n = setup.context.dataset.clients();
    let mut small = setup.clone();
    if small.context.rate == Rate::Unknown {
        small.context.rate = Rate::Set(ANY_RATE); // the time does not depend on it
    }
    (small.rounds, small.evaluate_every) = (2, 2);
    small.aggregation = Default::default(); // a robust aggregator may need more clients
    let local_training = &setup.context.local_training;
    let batch = local_training
        .batch
        .unwrap_or(examples)
        .min(examples)
        .max(1);
    let step = 3.0 * batch as f64 * setup.context.model.network().costs().forward as f64;
    let threads = threads::count(setup.threads);
    let few = (PROBE_FLOPS / (step * PROBE_STEPS as f64)) as usize;
    let clients = few.clamp(threads.min(PROBE_CLIENTS), PROBE_CLIENTS); // no core idle
    small.participation = clients.min(n) as f64 / n as f64;
    let steps = local_training.steps(examples.max(1));
    let probed = ((PROBE_FLOPS / step) as u64).clamp(1, PROBE_STEPS);
    if steps <= probed {
        return (small, 1.0);
    }
    small.context.local_training.work = LocalWork::Steps(probed);
    (small, steps as f64 / probed as f64)
}
