//! `apfl check`: a dry run.

use std::time::Instant;

use apfl::data::{Normalization, Source};
use apfl::engine::threads;
use apfl::error::Result;
use apfl::metrics::Spread;
use apfl::site::LocalWork;
use apfl::spec::Plan;
use apfl::training::{DeliverTo, Setup, Training};
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::output::{bytes, counted, duration, print, print_json};

/// What a spec would do.
#[derive(Serialize)]
struct Report {
    clients: usize,
    cohort: usize,
    rounds: u64,
    train_examples: Spread,
    valid_examples: Spread,
    features: usize,
    classes: usize,
    parameters: usize,
    memory_bytes: f64,
    seconds: f64,
    notes: Vec<String>,
}

/// What the program takes before it has any data.
const PROGRAM: f64 = 8e6;

/// Clients that are looked at for sizes: all, or an evenly spaced sample of many.
const LOOKED_AT: usize = 10_000;

/// Loads the data, builds the model, trains a few clients for one round and reports.
pub fn check(args: &args::Check) -> Result<()> {
    let spec = read_spec(Some(&args.spec), &args.overrides)?;
    let plan = spec.plan()?;
    let setup = plan.setup()?;
    let world = &setup.world;
    let schema = world.dataset.schema();
    let n = world.dataset.clients();
    let sizes: Vec<(usize, usize)> = (0..n)
        .step_by(n.div_ceil(LOOKED_AT))
        .map(|client| world.dataset.sizes(client))
        .collect();
    let spread = |pick: fn(&(usize, usize)) -> usize| {
        let values: Vec<f64> = sizes.iter().map(|s| pick(s) as f64).collect();
        Spread::of(&values).expect("there is a client")
    };
    let (train, valid) = (spread(|s| s.0), spread(|s| s.1));
    let (seconds, client_bytes) = tried(&plan, &setup, train.mean as usize)?;
    let k = setup.cohort_size();
    let met = match setup.participation < 1.0 {
        true => n as f64 * (1.0 - (1.0 - k as f64 / n as f64).powf(setup.rounds as f64)),
        false => n as f64,
    };
    let cell = match schema.normalization {
        Normalization::Bytes { .. } => 1.0,
        _ => 4.0,
    };
    let rows = |client: usize| world.dataset.test_size(client) as f64;
    let looked_at = (0..n).step_by(n.div_ceil(LOOKED_AT));
    let test = looked_at.clone().map(rows).sum::<f64>() / looked_at.count() as f64;
    // Features and a label; while a table is read, whose each row is and what for.
    let reading = match plan.data {
        Source::Table(_) => 13.0,
        _ => 0.0,
    };
    let row = cell * schema.shape.iter().product::<usize>() as f64 + 4.0 + reading;
    let per_client = client_bytes as f64 + row * (train.mean + valid.mean + test);
    let report = Report {
        clients: n,
        cohort: k,
        rounds: setup.rounds,
        train_examples: train,
        valid_examples: valid,
        features: schema.shape.iter().product(),
        classes: schema.task.classes(),
        parameters: world.model.layout().len(),
        memory_bytes: PROGRAM + met * per_client,
        seconds,
        notes: setup.notes.clone(),
    };
    if args.json {
        return print_json(&report);
    }
    print(&text(&report, &setup, &plan.algorithm.describe()))
}

/// The seconds that a run should take here, all cores at work.
pub fn expected_seconds(plan: &Plan, setup: &Setup) -> Result<f64> {
    let n = setup.world.dataset.clients();
    let looked_at = (0..n).step_by(n.div_ceil(100));
    let count = looked_at.len();
    let examples: usize = looked_at
        .map(|client| setup.world.dataset.sizes(client).0)
        .sum();
    Ok(tried(plan, setup, examples / count)?.0)
}

/// Trains a few clients of about that many examples for a round without and one with scores:
/// the seconds that the whole run should take, and the bytes of a client's memory.
fn tried(plan: &Plan, setup: &Setup, examples: usize) -> Result<(f64, usize)> {
    let (small, slower) = sample(setup, examples);
    let clients = small.cohort_size();
    let mut training = Training::new(small, &plan.algorithm)?;
    let mut round = || -> Result<f64> {
        let started = Instant::now();
        training.next_round()?;
        Ok(started.elapsed().as_secs_f64() / clients as f64)
    };
    let trained = round()?;
    let scored = (round()? - trained).max(0.0);
    let trained = trained * slower;
    let k = setup.cohort_size();
    let receivers = match setup.deliver_to {
        DeliverTo::None => 0,
        DeliverTo::Drawn => k,
        DeliverTo::All => setup.world.dataset.clients(),
    };
    let scorings = setup.rounds.div_ceil(setup.evaluate_every);
    let rounds = k as f64 * (setup.rounds as f64 * trained + scorings as f64 * scored);
    let seconds = rounds + receivers as f64 * (trained + scored);
    Ok((seconds, training.client_bytes()))
}

/// Clients and local steps that are tried.
const TRIED_CLIENTS: usize = 8;
const TRIED_STEPS: u64 = 50;

/// Multiplications and additions that are tried: some seconds on any machine.
const TRIED_FLOPS: f64 = 1e11;

/// The same run with a few clients, two rounds and few local steps, and how many times
/// longer the real one's rounds are.
fn sample(setup: &Setup, examples: usize) -> (Setup, f64) {
    let n = setup.world.dataset.clients();
    let mut small = setup.clone();
    (small.rounds, small.evaluate_every) = (2, 2);
    small.aggregation = Default::default(); // a rule may want more clients
    let pace = &setup.world.pace;
    let batch = pace.batch.unwrap_or(examples).min(examples).max(1);
    let step = 3.0 * batch as f64 * setup.world.model.flops() as f64;
    let threads = threads::count(setup.threads);
    let few = (TRIED_FLOPS / (step * TRIED_STEPS as f64)) as usize;
    let clients = few.clamp(threads.min(TRIED_CLIENTS), TRIED_CLIENTS); // no core idle
    small.participation = clients.min(n) as f64 / n as f64;
    let steps = pace.steps(examples.max(1));
    let tried = ((TRIED_FLOPS / step) as u64).clamp(1, TRIED_STEPS);
    if steps <= tried {
        return (small, 1.0);
    }
    small.world.pace.work = LocalWork::Steps(tried);
    (small, steps as f64 / tried as f64)
}

fn text(report: &Report, setup: &Setup, algorithm: &str) -> String {
    let work = match setup.world.pace.work {
        LocalWork::Steps(steps) => counted(steps as usize, "local step"),
        LocalWork::Epochs(epochs) => counted(epochs as usize, "local epoch"),
    };
    let range = |s: &Spread| format!("{:.0} to {:.0}, median {:.0}", s.min, s.max, s.q50);
    let predicts = match report.classes {
        0 => "a number".into(),
        classes => format!("{classes} classes"),
    };
    let mut text = format!(
        "the spec is fine\n\n\
         algorithm    {algorithm}\n\
         clients      {}, {} drawn each round\n\
         examples     training {}; validation {}\n\
         model        {} parameters: {} features to {predicts}\n\
         training     {} of {work}\n\
         memory       about {}\n\
         time         about {} on this machine\n",
        report.clients,
        report.cohort,
        range(&report.train_examples),
        range(&report.valid_examples),
        report.parameters,
        report.features,
        counted(report.rounds as usize, "round"),
        bytes(report.memory_bytes),
        duration(report.seconds),
    );
    for note in &report.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}
