//! How much memory a run takes, before it takes it.

use std::path::Path;

use apfl::aggregation::Aggregation;
use apfl::data::Normalization;
use apfl::engine::threads;
use apfl::error::{Error, Result};
use apfl::training::Setup;

use crate::output::bytes;

/// Copies of the model that the server has at once: w⁰, w, sums in f64, what is packed.
const SERVERS: f64 = 8.0;

/// Copies of the model that a thread works with: w, v, v̄, gradients, an update.
const WORKERS: f64 = 7.0;

/// Rows of an evaluation, which takes more at once than a step.
const ROWS: usize = 256;

/// Program, libraries and threads.
const PROGRAM: f64 = 15e6;

/// What the models alone take, whatever the algorithm: known before anything is tried.
pub fn of_models(setup: &Setup) -> f64 {
    let parameters = 4.0 * setup.context.model.layout().len() as f64;
    let threads = threads::count(setup.threads).min(setup.cohort_size()) as f64;
    let batch = setup.context.local_training.batch.unwrap_or(ROWS).max(ROWS) as f64;
    let activations = setup.context.model.network().costs().activations;
    let passes = 4.0 * batch * (activations + inputs(setup)) as f64;
    let updates = match setup.aggregation {
        Aggregation::Mean => 0.0,
        _ => setup.cohort_size() as f64, // a rule looks at all of them at once
    };
    PROGRAM + parameters * (SERVERS + updates + threads * WORKERS) + threads * passes
}

fn inputs(setup: &Setup) -> u64 {
    setup
        .context
        .dataset
        .schema()
        .shape
        .iter()
        .product::<usize>() as u64
}

/// What the whole run takes: its data (`examples` a client, each with so many bytes `more`),
/// models and what clients remember.
pub fn of_run(setup: &Setup, examples: f64, more: f64, client_bytes: usize) -> f64 {
    let dataset = &setup.context.dataset;
    let cell = match dataset.schema().normalization {
        Normalization::Bytes { .. } => 1.0,
        _ => 4.0,
    };
    let n = dataset.clients() as f64;
    let rows = examples * (cell * inputs(setup) as f64 + 4.0 + more);
    let data = if dataset.is_generated() {
        0.0
    } else {
        n * rows
    };
    let sampled = 1.0 - setup.cohort_size() as f64 / n;
    let met = if setup.participation < 1.0 {
        n * (1.0 - sampled.powf(setup.rounds as f64))
    } else {
        n
    };
    // Data that is made is kept by those who were met, as their memories are.
    let made = if dataset.is_generated() { rows } else { 0.0 };
    data + met * (client_bytes as f64 + made) + of_models(setup)
}

/// An error where something needs more than this machine has.
pub fn require_room(needed: f64, force: bool) -> Result<()> {
    match room() {
        Some(room) if needed > room && !force => Err(Error::data(format!(
            "the run needs about {}, this machine has {}; use fewer features, classes, hidden \
             units or threads, federation.participation below 1 with engine.memory = \"disk\", \
             or --force to try all the same",
            bytes(needed),
            bytes(room)
        ))),
        _ => Ok(()),
    }
}

/// The memory that this process may have, where that can be known.
fn room() -> Option<f64> {
    let number = |path: &str| -> Option<f64> {
        let text = std::fs::read_to_string(Path::new(path)).ok()?;
        text.trim().parse().ok()
    };
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limit = limits.iter().find_map(|path| number(path));
    Some((kilobytes * 1024.0).min(limit.unwrap_or(f64::INFINITY)))
}
