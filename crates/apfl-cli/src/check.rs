//! `apfl check`: a dry run.

use apfl::data::Source;
use apfl::error::Result;
use apfl::local_client::LocalWork;
use apfl::metrics::Spread;
use apfl::spec::Plan;
use apfl::training::Setup;
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::estimate::{Probe, costs};
use crate::memory;
use crate::output::{bytes, counted, duration, print, print_json};

/// Represents what a spec would do; printed by `--json`.
#[derive(Serialize)]
struct Report {
    clients: usize,
    cohort: usize,
    rounds: u64,
    train_examples: Spread,
    valid_examples: Spread,
    /// Present if there are test examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_examples: Option<Spread>,
    features: usize,
    classes: usize,
    parameters: usize,
    memory_bytes: f64,
    seconds: f64,
    /// With training.learning_rate = "auto": the rounds of the probe, and its seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<(u64, f64)>,
    /// With a chosen α: the number of passes that hold rows out, and the seconds of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    passes: Option<(u64, f64)>,
    notes: Vec<String>,
}

/// Extra bytes per table row while it is read: its client, split and label.
const READING_BYTES: f64 = 13.0;

/// The most clients to read sizes of; of more, an evenly spaced sample is read.
const MAX_SAMPLED_SIZES: usize = 10_000;

/// Loads the data, builds the model, trains a few clients for one round and prints a report.
pub fn check(args: &args::Check) -> Result<()> {
    let spec = read_spec(Some(&args.spec), &args.overrides)?;
    let plan = spec.plan()?;
    let setup = plan.setup()?;
    let context = &setup.context;
    let schema = context.dataset.schema();
    let n = context.dataset.clients();
    let sizes: Vec<(usize, usize)> = (0..n)
        .step_by(n.div_ceil(MAX_SAMPLED_SIZES))
        .map(|client| context.dataset.sizes(client))
        .collect();
    let spread = |pick: fn(&(usize, usize)) -> usize| {
        let values: Vec<f64> = sizes.iter().map(|s| pick(s) as f64).collect();
        Spread::of(&values).expect("there is a client")
    };
    let (train, valid) = (spread(|s| s.0), spread(|s| s.1));
    memory::require_room(memory::of_models(&setup), args.force)?;
    let probe = Probe::new(&plan, &setup, train.mean as usize)?;
    let client_bytes = probe.client_bytes();
    let rows = |client: usize| context.dataset.test_size(client) as f64;
    let test: Vec<f64> = (0..n)
        .step_by(n.div_ceil(MAX_SAMPLED_SIZES))
        .map(rows)
        .collect();
    let test = Spread::of(&test).expect("there is a client");
    let reading = match plan.data {
        Source::Table(_) => READING_BYTES,
        _ => 0.0,
    };
    let examples = train.mean + valid.mean + test.mean;
    let needed = memory::of_run(&setup, examples, reading, client_bytes);
    memory::require_room(needed, args.force)?;
    let costs = costs(&plan, &setup, train.mean as usize)?;
    let seconds = costs.total();
    let k = setup.cohort_size();
    let report = Report {
        clients: n,
        cohort: k,
        rounds: setup.rounds,
        train_examples: train,
        valid_examples: valid,
        test_examples: (test.max > 0.0).then_some(test),
        features: schema.shape.iter().product(),
        classes: schema.task.classes(),
        parameters: context.model.layout().len(),
        memory_bytes: needed,
        seconds,
        probe: costs.probe,
        passes: costs.before,
        notes: notes(&plan, &setup),
    };
    if args.json {
        return print_json(&report);
    }
    print(&text(&report, &setup, &plan.algorithm.describe()))
}

/// Returns the notes on the data and the spec.
fn notes(plan: &Plan, setup: &Setup) -> Vec<String> {
    let mut notes = setup.notes.clone();
    if let Source::Synthetic(data) = &plan.data
        && data.gamma > 0.0
        && !data.iid
    {
        notes.push(format!(
            "data.gamma = {} changes nothing: it adds the same number to every class score of an \
             example; clients differ anyway, and data.beta shifts their inputs",
            data.gamma
        ));
    }
    notes
}

fn text(report: &Report, setup: &Setup, algorithm: &str) -> String {
    let work = match setup.context.local_training.work {
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
         clients      {}, {} sampled each round\n\
         examples     training {}; validation {}{}\n\
         model        {} parameters: {} features to {predicts}\n\
         training     {} of {work}\n\
         memory       about {}\n\
         time         about {} on this machine\n",
        report.clients,
        report.cohort,
        range(&report.train_examples),
        range(&report.valid_examples),
        match &report.test_examples {
            Some(test) => format!("; test {}", range(test)),
            None => String::new(),
        },
        report.parameters,
        report.features,
        counted(report.rounds as usize, "round"),
        bytes(report.memory_bytes),
        duration(report.seconds),
    );
    if let Some((rounds, seconds)) = report.probe {
        text.push_str(&format!(
            "probe        {rounds} rounds with all learning rates, about {}\n",
            duration(seconds)
        ));
    }
    if let Some((passes, each)) = report.passes {
        let probe = report.probe.map_or(0.0, |(_, seconds)| seconds);
        let last = report.seconds - probe - passes as f64 * each;
        text.push_str(&format!(
            "passes       {passes} with rows held out, about {} each, then one with the chosen \
             α, about {}\n",
            duration(each),
            duration(last)
        ));
    }
    for note in &report.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}
