//! Estimates how long a run takes on this machine by training a few of its clients.

use std::time::Instant;

use apfl::choice::{Candidate, Pass};
use apfl::clients::Finalized;
use apfl::engine::threads;
use apfl::error::{Error, Result};
use apfl::local_client::LocalWork;
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
    /// The number of passes before the last one, and the seconds of each.
    pub before: Option<(u64, f64)>,
    /// The seconds of the last pass.
    pub last: f64,
}

impl Costs {
    /// Returns the seconds of all passes.
    pub fn total(&self) -> f64 {
        self.last
            + self
                .before
                .map_or(0.0, |(passes, each)| passes as f64 * each)
    }
}

/// Estimates the seconds of all passes of a run.
pub fn costs(plan: &Plan, setup: &Setup, examples: usize) -> Result<Costs> {
    let estimate = |setup: &Setup, ends: bool| Probe::new(plan, setup, examples)?.seconds(ends);
    let Some(choosing) = plan.algorithm.choosing().filter(|c| c.single().is_none()) else {
        let (before, last) = (None, estimate(setup, true)?);
        return Ok(Costs { before, last });
    };
    let before = Some((choosing.folds, estimate(setup, false)?));
    let mut last = setup.clone();
    last.context.pass = Some(Pass::Last);
    let last = estimate(&last, true)?;
    Ok(Costs { before, last })
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

    /// Estimates the seconds of the whole run from one round without and one with scores, and from
    /// a finalization if the run `ends` with it; or from the arithmetic if these rounds would take
    /// long.
    fn seconds(mut self, ends: bool) -> Result<f64> {
        let clients = self.training.setup().cohort_size();
        let cost = cost(self.training.setup(), self.examples);
        if cost > MAX_FLOPS {
            let threads = threads::count(self.setup.threads) as f64;
            let seconds = cost / clients as f64 / (threads * FLOPS_PER_SECOND);
            let trained = seconds * self.slower;
            return Ok(whole(self.setup, trained, 0.0, trained));
        }
        let mut round = || -> Result<f64> {
            let started = Instant::now();
            self.training.next_round()?;
            Ok(started.elapsed().as_secs_f64() / clients as f64)
        };
        let trained = round()?;
        let scored = (round()? - trained).max(0.0);
        let finalized = if ends {
            self.finalization()? + trained * (self.slower - 1.0)
        } else {
            trained * self.slower + scored
        };
        Ok(whole(self.setup, trained * self.slower, scored, finalized))
    }

    /// Returns the seconds of a client's finalization in the small run and of its record.
    fn finalization(&mut self) -> Result<f64> {
        let n = self.setup.context.dataset.clients();
        let mut count = self.training.setup().cohort_size();
        loop {
            let clients: Vec<usize> = (0..n).step_by(n.div_ceil(count)).collect();
            let started = Instant::now();
            let mut all = Vec::new();
            self.training.finalize(&clients, &mut |finalized| {
                all.push(Finalized {
                    models: None,
                    ..finalized
                });
                Ok(())
            })?;
            handle_records(&all)?;
            let seconds = started.elapsed().as_secs_f64();
            // The start of the threads would count more than a few small clients.
            if seconds >= LEAST_SECONDS || clients.len() == n || count >= MAX_FINALIZED {
                return Ok(seconds / clients.len() as f64);
            }
            count *= 4;
        }
    }
}

/// The shortest finalization that is measured, unless all clients take less, and the number of
/// clients at which it is long enough anyway.
const LEAST_SECONDS: f64 = 0.1;
const MAX_FINALIZED: usize = 10_000;

/// Writes the sums of clients, which are about as long as their records, and reads them as often as
/// a run reads records.
fn handle_records(all: &[Finalized]) -> Result<()> {
    let unreadable = |e: serde_json::Error| Error::Engine(e.to_string());
    for finalized in all {
        let text = serde_json::to_vec(finalized).map_err(unreadable)?;
        for _ in 0..RECORD_READINGS {
            let read: Finalized = serde_json::from_slice(&text).map_err(unreadable)?;
            std::hint::black_box(read);
        }
    }
    Ok(())
}

/// How often the records of clients are read at the end of a run: for the report, and to compare
/// the models.
const RECORD_READINGS: usize = 2;

/// Returns the seconds of all rounds and of finalization from those of one client: of its local
/// round, of its scores in a round, and of its finalization.
fn whole(setup: &Setup, trained: f64, scored: f64, finalized: f64) -> f64 {
    let k = setup.cohort_size();
    let scorings = setup.rounds.div_ceil(setup.evaluate_every);
    let rounds = k as f64 * (setup.rounds as f64 * trained + scorings as f64 * scored);
    rounds + receivers(setup) * finalized
}

/// Returns the number of clients that are finalized.
pub fn receivers(setup: &Setup) -> f64 {
    match setup.finalized_clients {
        FinalizedClients::None => 0.0,
        FinalizedClients::Sampled => sampled_clients(setup),
        FinalizedClients::All => setup.context.dataset.clients() as f64,
    }
}

/// Returns the expected number of clients that are sampled in some round.
pub fn sampled_clients(setup: &Setup) -> f64 {
    let n = setup.context.dataset.clients() as f64;
    let skipped = 1.0 - setup.cohort_size() as f64 / n;
    if setup.participation < 1.0 {
        n * (1.0 - skipped.powf(setup.rounds as f64))
    } else {
        n
    }
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

/// Multiplications and additions of a probe: a few seconds on any machine.
const PROBE_FLOPS: f64 = 1e11;

/// Returns the run reduced to a few clients, two rounds and few local steps, and how many times
/// longer a real round is.
fn sample(setup: &Setup, examples: usize) -> (Setup, f64) {
    let n = setup.context.dataset.clients();
    let mut small = setup.clone();
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
