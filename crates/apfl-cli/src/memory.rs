//! Estimates how much memory a run needs.

use std::path::Path;

use apfl::aggregation::Aggregation;
use apfl::data::Normalization;
use apfl::engine::threads;
use apfl::error::{Error, Result};
use apfl::run::run_dir::ClientRecord;
use apfl::training::Setup;

use crate::estimate::{receivers, sampled_clients};
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
    // Generated data is kept with the client states: only for clients that were sampled.
    let generated = if dataset.is_generated() { rows } else { 0.0 };
    data + sampled_clients(setup) * (client_bytes as f64 + generated)
        + n * CLIENT_BYTES
        + receivers(setup) * of_finalized(setup)
        + of_models(setup)
}

/// Bytes of a client in the lists of a run: its name and how often it took part.
const CLIENT_BYTES: f64 = 16.0;

/// Bytes of a finalized client beside its record: its name, and its place in sets and lists.
const RECEIVER_BYTES: f64 = 120.0;

/// Returns the bytes of a finalized client: in the report, which has all records at once, or in
/// the sums of the summary, which have every score of every model.
fn of_finalized(setup: &Setup) -> f64 {
    let context = &setup.context;
    let classes = context.dataset.schema().task.classes() as f64;
    let report = size_of::<ClientRecord>() as f64 + 8.0 * classes + 24.0;
    // Three models, and perhaps training alone: loss, accuracy and details of each part.
    let scores = 4.0 * 8.0 * (2.0 + 6.0 + 6.0 * f64::from(u8::from(context.scoring().tested)));
    RECEIVER_BYTES + report.max(scores)
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
