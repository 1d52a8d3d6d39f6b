//! Measures the quantities of the paper's theorems on a run.
//!
//! A run is deterministic, so nothing extra is stored: [`measure`] replays it and uses the shared
//! model of some evenly spaced rounds. Suprema are over these visited points. Optima are defined
//! for strongly convex objectives (a linear model with an ℓ2 term), and absent for others.

use std::collections::BTreeMap;

use apfl::algorithm::Apfl;
use apfl::choice::{Candidate, Pass};
use apfl::error::{Error, Result};
use apfl::spec::Plan;
use apfl::training::{FinalizedClients, Setup, Training};
use serde::Serialize;

pub mod bound;
mod client;
pub mod convergence;
mod diversity;
mod federation;
mod minimize;
mod objective;
mod picture;
mod report;
mod smoothness;
mod table;

use bound::Constants;
use client::{ClientMeasurements, measure_client};
use federation::Federation;
use minimize::Accuracy;
use objective::{distance_squared, norm_squared, to_f64};
use report::{Measurements, assemble};

pub use client::{ClientTheory, LocalOptimum};
pub use picture::draw;
pub use report::{Optimum, Report, Theorem3};
pub use table::text;

/// Represents what to measure, and the bound's constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Inputs {
    /// The number of visited points to measure, including the first and the last.
    pub points: usize,
    /// The certified distance from an optimum relative to max(1, its norm).
    pub accuracy: f64,
    /// The most steps of a search for an optimum.
    pub steps: u64,
    /// The bound's constants.
    #[serde(flatten)]
    pub constants: Constants,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            points: 20,
            accuracy: 1e-3,
            steps: 5000,
            constants: Constants::default(),
        }
    }
}

impl Inputs {
    fn check(&self) -> Result<()> {
        let invalid = |name: &str, found: f64, allowed: &str| {
            Err(Error::Request(format!(
                "{name}: found {found}, allowed is {allowed}"
            )))
        };
        let c = &self.constants;
        if self.points < 2 {
            return invalid("points", self.points as f64, "at least 2");
        }
        if !(self.accuracy > 0.0 && self.accuracy < 1.0) {
            return invalid("accuracy", self.accuracy, "above 0 and below 1");
        }
        if !(c.delta > 0.0 && c.delta < 1.0) {
            return invalid("delta", c.delta, "above 0 and below 1");
        }
        let positive = [("B", c.b), ("G", c.g), ("C", c.c), ("C2", c.c2)];
        let given = [("d", c.d), ("R", c.r)];
        let given = given.into_iter().filter_map(|(name, x)| Some((name, x?)));
        for (name, x) in positive.into_iter().chain(given) {
            if !(x > 0.0 && x.is_finite()) {
                return invalid(name, x, "a number above 0");
            }
        }
        Ok(())
    }
}

/// Returns `count` evenly spaced rounds from 0 to the last.
fn visited(rounds: u64, count: usize) -> Vec<u64> {
    let last = count as u64 - 1;
    let mut rounds: Vec<u64> = (0..=last).map(|k| rounds * k / last).collect();
    rounds.dedup();
    rounds
}

/// Replays a run and measures. Calls `progress` with the stage, how much of it is done, and the
/// total (0 if unknown).
pub fn measure(
    plan: &Plan,
    inputs: &Inputs,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<Report> {
    measure_chosen(plan, &BTreeMap::new(), inputs, progress)
}

/// Measures a run whose clients chose their α; `chosen` has the choices by client name.
pub fn measure_chosen(
    plan: &Plan,
    chosen: &BTreeMap<String, Candidate>,
    inputs: &Inputs,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<Report> {
    inputs.check()?;
    let mut setup = plan.setup()?;
    let choosing = plan.algorithm.choosing().filter(|c| c.single().is_none());
    if choosing.is_some() {
        if chosen.is_empty() {
            return Err(Error::Request(
                "algorithm.mixing: found { chosen = … }, whose α is only known after the run; train \
                 it with apfl run, then give its run directory"
                    .into(),
            ));
        }
        setup.context.pass = Some(Pass::Last);
    }
    setup.finalized_clients = FinalizedClients::All;
    setup.keep_models = true;
    setup.evaluate_every = setup.rounds;
    let context = setup.context.clone();
    let linear = plan.architecture.is_linear();

    let visited_rounds = visited(setup.rounds, inputs.points);
    let mut points = vec![to_f64(&context.w0)];
    let mut training = Training::new(setup.clone(), &plan.algorithm)?;
    let name = |client: usize| context.dataset.name(client);
    let choices = (0..context.dataset.clients())
        .filter_map(|client| Some((client, *chosen.get(&name(client))?)));
    training.choose(choices.collect())?;
    while let Some(record) = training.next_round()? {
        if visited_rounds.contains(&record.round) {
            points.push(to_f64(&training.shared()));
        }
        progress("replaying the run", record.round, setup.rounds);
    }
    let fingerprint = training.fingerprint()?;
    let learned = match choosing {
        None => Vec::new(),
        Some(_) => learned(&setup, progress)?,
    };

    let federation = Federation::new(&*context.dataset, &*context.model, linear, setup.threads)?;
    let n = federation.clients();
    let (l_i, smoothness) = smoothness::measure(&federation, &points, plan.seed, progress)?;
    let total = points.len() as u64;
    let batch = setup.context.local_training.batch;
    let diversity = diversity::measure(&federation, &points, batch, plan.seed, &mut |done| {
        progress("gradients at visited points", done, total)
    })?;

    let accuracy = Accuracy {
        mu: smoothness.mu,
        relative: inputs.accuracy,
        steps: inputs.steps,
    };
    let strongly_convex = linear && smoothness.mu > 0.0;
    let shared = to_f64(&training.output());
    let found = if strongly_convex {
        Some(federation.optimum(shared.clone(), accuracy, &mut |count| {
            progress("w*, the optimum of all", count, 0)
        })?)
    } else {
        None
    };
    let optimum = match &found {
        None => None,
        Some(found) => {
            let mut g = vec![0.0; shared.len()];
            let (_, loss) = federation.evaluate(&found.at, &mut g)?;
            let (value, _) = federation.evaluate(&shared, &mut g)?;
            Some(Optimum {
                value: found.value,
                loss,
                norm: norm_squared(&found.at).sqrt(),
                certified_within: found.gradient / smoothness.mu,
                converged: found.converged,
                shared_gap: value - found.value,
                shared_distance: distance_squared(&shared, &found.at),
            })
        }
    };

    // Finalizes in portions, as the models of all clients may not fit in memory.
    const PORTION: usize = 256;
    let mut measurements: Vec<ClientMeasurements> = Vec::with_capacity(n);
    for start in (0..n).step_by(PORTION) {
        let portion: Vec<usize> = (start..n.min(start + PORTION)).collect();
        let mut finalized = Vec::with_capacity(portion.len());
        training.finalize(&portion, &mut |one| {
            finalized.push(one);
            Ok(())
        })?;
        let w_star = found.as_ref().map(|found| &found.at[..]);
        federation.each_of(
            &portion,
            |client| {
                let one = &finalized[client - start];
                measure_client(&federation, client, one, &shared, w_star, accuracy)
            },
            |_, measured| {
                measurements.push(measured);
                progress(
                    "every client's optimum",
                    measurements.len() as u64,
                    n as u64,
                );
            },
        )?;
    }

    Ok(assemble(
        inputs,
        &setup,
        &federation,
        Measurements {
            fingerprint,
            visited: visited_rounds,
            smoothness,
            l_i,
            diversity,
            optimum,
            clients: measurements,
            learned,
            chosen: choosing.is_some(),
        },
    ))
}

/// Returns the α that the paper's rule learns from 0.01 on the same run, with the same path of w.
fn learned(
    setup: &Setup,
    progress: &mut (dyn FnMut(&str, u64, u64) + Send),
) -> Result<Vec<Option<f64>>> {
    let mut setup = setup.clone();
    setup.context.pass = None;
    setup.keep_models = false;
    let mut training = Training::with_algorithm(setup.clone(), Apfl::adaptive(0.01))?;
    while let Some(record) = training.next_round()? {
        progress("the learned α, on the same run", record.round, setup.rounds);
    }
    let mut learned = Vec::new();
    training.finalize(&training.receivers(), &mut |one| {
        learned.push(one.mixing.map(f64::from));
        Ok(())
    })?;
    Ok(learned)
}
