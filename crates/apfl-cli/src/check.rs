//! `apfl check`: a dry run.

use std::time::Instant;

use apfl::data::Normalization;
use apfl::error::Result;
use apfl::metrics::Spread;
use apfl::site::LocalWork;
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
    let (small, slower) = sample(&setup, train.mean as usize);
    let mut training = Training::new(small, &plan.algorithm)?;
    let started = Instant::now();
    training.next_round()?;
    let sampled = started.elapsed().as_secs_f64();
    let k = setup.cohort_size();
    let receivers = match setup.deliver_to {
        DeliverTo::None => 0,
        DeliverTo::Drawn => k,
        DeliverTo::All => n,
    };
    let client_rounds = setup.rounds as f64 * k as f64 + receivers as f64;
    let seconds = sampled * slower * client_rounds / sample_size(n) as f64;
    let met = match setup.participation < 1.0 {
        true => n as f64 * (1.0 - (1.0 - k as f64 / n as f64).powf(setup.rounds as f64)),
        false => n as f64,
    };
    let cell = match schema.normalization {
        Normalization::Bytes { .. } => 1.0,
        _ => 4.0,
    };
    let per_client = training.client_bytes() as f64
        + cell * (train.mean + valid.mean) * schema.shape.iter().product::<usize>() as f64;
    let report = Report {
        clients: n,
        cohort: k,
        rounds: setup.rounds,
        train_examples: train,
        valid_examples: valid,
        features: schema.shape.iter().product(),
        classes: schema.task.classes(),
        parameters: world.model.layout().len(),
        memory_bytes: met * per_client,
        seconds,
        notes: setup.notes.clone(),
    };
    if args.json {
        return print_json(&report);
    }
    print(&text(&report, &setup, &plan.algorithm.describe()))
}

fn sample_size(n: usize) -> usize {
    n.min(8)
}

/// Local steps that are tried.
const TRIED_STEPS: u64 = 50;

/// The same run with a few clients, one round and few local steps, and how many times
/// longer the real one's rounds are.
fn sample(setup: &Setup, examples: usize) -> (Setup, f64) {
    let n = setup.world.dataset.clients();
    let mut small = setup.clone();
    small.participation = sample_size(n) as f64 / n as f64;
    small.rounds = 1;
    small.aggregation = Default::default(); // a rule may want more clients
    let steps = setup.world.pace.steps(examples.max(1));
    if steps <= TRIED_STEPS {
        return (small, 1.0);
    }
    small.world.pace.work = LocalWork::Steps(TRIED_STEPS);
    (small, steps as f64 / TRIED_STEPS as f64)
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
