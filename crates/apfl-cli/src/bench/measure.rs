//! One measurement, in this process.

use std::time::Instant;

use apfl::algorithm::AlgorithmSpec;
use apfl::error::Result;
use apfl::model::Workspace;
use apfl::model::kernels::peak::peak_flops;
use apfl::spec::Resources;
use apfl::training::{Setup, Training};
use serde::{Deserialize, Serialize};

use super::benchmark::Benchmark;

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// What ran.
    pub work: String,
    /// Examples a step.
    pub batch: usize,
    /// Processes it ran on, where it was an MPI job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ranks: Option<usize>,
    /// Threads it ran on; of each process.
    pub threads: usize,
    /// Client-steps a second of wall time.
    pub steps_per_second: f64,
    /// Wall time of a round; absent for steps alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds_per_round: Option<f64>,
    /// Client-steps a second by this process's clock, over all threads; absent where the system does not
    /// tell. Far above the one by wall time, something else was running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steps_per_cpu_second: Option<f64>,
    /// The same arithmetic done densely, in 10⁹ multiplications and additions a second.
    pub gflops: f64,
    /// What the threads can do at most, measured right before.
    pub peak_gflops: f64,
    /// gflops/peak_gflops; kernels that skip zeros may pass 1.
    pub share_of_peak: f64,
    /// The largest memory of the process, in 10⁶ bytes; absent where the system does not tell.
    pub peak_rss_mb: Option<f64>,
    /// What it trained on.
    pub data: String,
}

/// Runs a work for that long, after a warm-up.
pub fn measure(
    work: &Benchmark,
    batch: usize,
    threads: usize,
    seconds: f64,
) -> Result<Measurement> {
    let (plan, dataset, data) = work.plan(batch, threads)?;
    let setup = plan.setup_with(dataset, Resources::default())?;
    measure_with(
        work,
        (batch, threads, seconds),
        setup,
        &plan.algorithm,
        data,
    )
}

/// The same with data that was read before.
pub fn measure_with(
    work: &Benchmark,
    (batch, threads, seconds): (usize, usize, f64),
    setup: Setup,
    algorithm: &AlgorithmSpec,
    data: String,
) -> Result<Measurement> {
    let model = setup.context.model.clone();
    let ranks = setup.engine.ranks();
    let peak: f64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| peak_flops(0.1)))
            .collect();
        all.into_iter().map(joined).sum()
    });
    let peak = peak * ranks.unwrap_or(1) as f64;
    let (steps_per_second, steps_per_cpu_second) = if work.is_step() {
        let before = cpu_seconds();
        let rate = steps(&setup, batch, threads, seconds)?;
        let spent = cpu_seconds().zip(before).map(|(now, before)| now - before);
        (rate, spent.map(|spent| rate * seconds / spent))
    } else {
        let mut training = Training::new(setup, algorithm)?;
        training.next_round()?;
        let (started, before) = (Instant::now(), cpu_seconds());
        let first = training.step();
        // An algorithm may draw the steps of a round, and draw none.
        while training.step() == first || started.elapsed().as_secs_f64() < seconds {
            training.next_round()?;
        }
        let steps = ((training.step() - first) * work.clients()) as f64;
        let spent = cpu_seconds().zip(before).map(|(now, before)| now - before);
        let rate = steps / started.elapsed().as_secs_f64();
        // Of other ranks nothing is known.
        let spent = spent.filter(|_| ranks.is_none());
        (rate, spent.map(|spent| steps / spent))
    };
    let gradients = algorithm.properties().gradients;
    let costs = model.network().costs();
    let per_gradient = batch as u64 * (costs.forward + costs.backward);
    let gflops = steps_per_second * (per_gradient * gradients) as f64 / 1e9;
    Ok(Measurement {
        work: work.name(),
        batch,
        ranks,
        threads,
        steps_per_second,
        seconds_per_round: (!work.is_step()).then(|| work.steps() as f64 / steps_per_second),
        steps_per_cpu_second,
        gflops,
        peak_gflops: peak / 1e9,
        share_of_peak: gflops * 1e9 / peak,
        peak_rss_mb: peak_memory(),
        data,
    })
}

/// Gradient and update again and again, every thread on its own client: steps a second.
fn steps(setup: &Setup, batch: usize, threads: usize, seconds: f64) -> Result<f64> {
    let model = &*setup.context.model;
    let dataset = &setup.context.dataset;
    let shards = (0..threads)
        .map(|thread| dataset.shard(thread % dataset.clients()))
        .collect::<Result<Vec<_>>>()?;
    let train = |examples: &apfl::data::Examples| {
        let mut ws = Workspace::default();
        let mut x = setup.context.w0.to_vec();
        let most = examples.len().saturating_sub(batch).max(1);
        let mut count = 0;
        let mut step = |k: usize| {
            let batch = examples.batch(k * batch % most, batch);
            model.descend(None, &mut x, 0.01, &batch, &mut ws);
        };
        step(0);
        let started = Instant::now();
        while started.elapsed().as_secs_f64() < seconds {
            (1..=20).for_each(&mut step);
            count += 20;
        }
        f64::from(count) / started.elapsed().as_secs_f64()
    };
    Ok(std::thread::scope(|scope| {
        let run = |shard: &std::sync::Arc<apfl::data::Shard>| {
            let shard = shard.clone();
            let train = &train;
            scope.spawn(move || train(&shard.train))
        };
        let all: Vec<_> = shards.iter().map(run).collect();
        all.into_iter().map(joined).sum()
    }))
}

/// What a thread measured; if it panicked, so do we: half a measurement is none.
fn joined(thread: std::thread::ScopedJoinHandle<'_, f64>) -> f64 {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The processor time of this process, in seconds: Linux counts it in hundredths.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold spaces: what follows the last bracket does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |k: usize| fields.get(k)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// The most memory that this process ever had, in 10⁶ bytes.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}
