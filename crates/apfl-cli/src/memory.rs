//! Estimates how much memory a run needs.

use std::path::Path;

use apfl::aggregation::Aggregation;
use apfl::data::Normalization;
use apfl::engine::threads;
use apfl::error::{Error, Result};
use apfl::training::Setup;

use crate::output::bytes;

/// Copies of the model at the server: w⁰, w, sums in f64, packed arrays.
const SERVER_COPIES: f64 = 8.0;

/// Copies of the model in a thread: w, v, v̄, gradients, an update.
const THREAD_COPIES: f64 = 7.0;

/// Rows per batch of an evaluation, whose batches are larger than a step's.
const EVALUATION_ROWS: usize = 256;

/// Bytes of the program, libraries and threads.
const PROGRAM_BYTES: f64 = 15e6;

/// Estimates the bytes of the models alone, for any algorithm, without training anything.
pub fn of_models(setup: &Setup) -> f64 {
    let parameters = 4.0 * setup.context.model.layout().len() as f64;
    let threads = threads::count(setup.threads).min(setup.cohort_size()) as f64;
    let batch = setup
        .context
        .local_training
        .batch
        .unwrap_or(EVALUATION_ROWS)
        .max(EVALUATION_ROWS) as f64;
    let activations = setup.context.model.network().costs().activations;
    let passes = 4.0 * batch * (activations + inputs(setup)) as f64;
    let updates = match setup.aggregation {
        Aggregation::Mean => 0.0,
        _ => setup.cohort_size() as f64, // robust aggregators need all updates at once
    };
    PROGRAM_BYTES
        + parameters * (SERVER_COPIES + updates + threads * THREAD_COPIES)
        + threads * passes
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

/// Estimates the bytes of the whole run: data (`examples` per client, each with `extra` bytes
/// beside its numbers), models and client states.
pub fn of_run(setup: &Setup, examples: f64, extra: f64, client_bytes: usize) -> f64 {
    let dataset = &setup.context.dataset;
    let cell = match dataset.schema().normalization {
        Normalization::Bytes { .. } => 1.0,
        _ => 4.0,
    };
    let n = dataset.clients() as f64;
    let rows = examples * (cell * inputs(setup) as f64 + 4.0 + extra);
    let data = if dataset.is_generated() {
        0.0
    } else {
        n * rows
    };
    let skipped = 1.0 - setup.cohort_size() as f64 / n;
    let sampled = if setup.participation < 1.0 {
        n * (1.0 - skipped.powf(setup.rounds as f64))
    } else {
        n
    };
    // Generated data is kept with the client states: only for clients that were sampled.
    let generated = if dataset.is_generated() { rows } else { 0.0 };
    data + sampled * (client_bytes as f64 + generated) + of_models(setup)
}

/// Returns an error if a run needs more memory than this machine has, unless `force` is set.
pub fn require_room(needed: f64, force: bool) -> Result<()> {
    match available() {
        Some(available) if needed > available && !force => Err(Error::data(format!(
            "the run needs about {}, this machine has {}; use fewer features, classes, hidden \
             units or threads, or federation.participation below 1 with engine.memory = \"disk\"; \
             --force runs it anyway",
            bytes(needed),
            bytes(available)
        ))),
        _ => Ok(()),
    }
}

/// Returns the memory available to this process, if known.
fn available() -> Option<f64> {
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
