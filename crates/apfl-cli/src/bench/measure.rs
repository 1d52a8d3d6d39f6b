//! Measures one benchmark in this process.

use std::time::Instant;

use apfl::algorithm::AlgorithmSpec;
use apfl::error::Result;
use apfl::model::Workspace;
use apfl::model::kernels::peak::peak_flops;
use apfl::spec::Resources;
use apfl::training::{Setup, Training};
use serde::{Deserialize, Serialize};

use super::benchmark::Benchmark;

/// Represents the result of a benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The benchmark's name.
    #[serde(rename = "work")]
    pub benchmark: String,
    /// Examples per step.
    pub batch: usize,
    /// Number of ranks of an MPI job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ranks: Option<usize>,
    /// Threads of each process.
    pub threads: usize,
    /// Client-steps per second of wall time.
    pub steps_per_second: f64,
    /// Wall time per round; absent for steps alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds_per_round: Option<f64>,
    /// Client-steps per second of CPU time over all threads; absent if unknown. If it is far above
    /// the rate per wall time, another program was running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steps_per_cpu_second: Option<f64>,
    /// 10⁹ multiplications and additions per second, counted as dense arithmetic.
    pub gflops: f64,
    /// The threads' peak, measured right before.
    pub peak_gflops: f64,
    /// gflops/peak_gflops; kernels that skip zeros may pass 1.
    pub share_of_peak: f64,
    /// The peak memory of the process in 10⁶ bytes; absent if unknown.
    pub peak_rss_mb: Option<f64>,
    /// The description of the data.
    pub data: String,
}

/// Runs a benchmark for the given seconds, after a warm-up.
pub fn measure(
    benchmark: &Benchmark,
    batch: usize,
    threads: usize,
    seconds: f64,
) -> Result<Measurement> {
    let (plan, dataset, data) = benchmark.plan(batch, threads)?;
    let setup = plan.setup_with(dataset, Resources::default())?;
    measure_with(
        benchmark,
        (batch, threads, seconds),
        setup,
        &plan.algorithm,
        data,
    )
}

/// Runs a benchmark on a given setup.
pub fn measure_with(
    benchmark: &Benchmark,
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
        all.into_iter().map(result_of).sum()
    });
    let peak = peak * ranks.unwrap_or(1) as f64;
    let (steps_per_second, steps_per_cpu_second) = if benchmark.is_step() {
        let before = cpu_seconds();
        let rate = steps(&setup, batch, threads, seconds)?;
        let spent = cpu_seconds().zip(before).map(|(now, before)| now - before);
        (rate, spent.map(|spent| rate * seconds / spent))
    } else {
        let mut training = Training::new(setup, algorithm)?;
        training.next_round()?;
        let (started, before) = (Instant::now(), cpu_seconds());
        let first = training.step();
        // An algorithm may sample the steps of a round, and sample none.
        while training.step() == first || started.elapsed().as_secs_f64() < seconds {
            training.next_round()?;
        }
        let steps = ((training.step() - first) * benchmark.clients()) as f64;
        let spent = cpu_seconds().zip(before).map(|(now, before)| now - before);
        let rate = steps / started.elapsed().as_secs_f64();
        // The CPU time of other ranks is unknown.
        let spent = spent.filter(|_| ranks.is_none());
        (rate, spent.map(|spent| steps / spent))
    };
    let gradients = algorithm.properties().gradients;
    let costs = model.network().costs();
    let per_gradient = batch as u64 * (costs.forward + costs.backward);
    let gflops = steps_per_second * (per_gradient * gradients) as f64 / 1e9;
    Ok(Measurement {
        benchmark: benchmark.name(),
        batch,
        ranks,
        threads,
        steps_per_second,
        seconds_per_round: (!benchmark.is_step())
            .then(|| benchmark.steps() as f64 / steps_per_second),
        steps_per_cpu_second,
        gflops,
        peak_gflops: peak / 1e9,
        share_of_peak: gflops * 1e9 / peak,
        peak_rss_mb: peak_memory(),
        data,
    })
}

/// Takes gradient steps, every thread on its own client, and returns steps per second.
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
        all.into_iter().map(result_of).sum()
    }))
}

/// Returns what a thread measured, or passes its panic on.
fn result_of(thread: std::thread::ScopedJoinHandle<'_, f64>) -> f64 {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns this process's CPU time in seconds; Linux counts it in hundredths.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may contain spaces; the fields after the last bracket do not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |k: usize| fields.get(k)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Returns the peak memory of this process in 10⁶ bytes.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}
