//! `apfl bench`: measures training speed on this machine.

use std::process::{Command, Stdio};

use apfl::error::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::args;
use crate::output::{columns, counted, print, print_json};
use crate::progress::Progress;

mod benchmark;
mod images;
mod measure;
#[cfg(feature = "mpi")]
mod ranks;

use benchmark::Benchmark;
use measure::{Measurement, measure};

/// Represents the output of `--json`.
#[derive(Serialize, Deserialize)]
struct Report {
    version: String,
    measurements: Vec<Measurement>,
}

/// Runs every selected benchmark on every number of threads.
pub fn run(args: &args::Bench) -> Result<()> {
    let benchmarks = if args.benchmarks.is_empty() {
        Benchmark::defaults()
    } else {
        args.benchmarks
            .iter()
            .map(|name| Benchmark::named(name))
            .collect::<Result<_>>()?
    };
    let threads = threads(&args.threads);
    #[cfg(feature = "mpi")]
    if args.mpi {
        return match ranks::measure_all(args, &benchmarks, &threads)? {
            Some(measurements) => show(args, measurements),
            None => Ok(()),
        };
    }
    crate::cluster::refuse_many()?;
    let measurements = match (&benchmarks[..], &threads[..]) {
        ([benchmark], [threads]) => vec![measure(benchmark, args.batch, *threads, args.seconds)?],
        _ => {
            let progress = Progress::stages(args.quiet);
            let all = (benchmarks.len() * threads.len()) as u64;
            let pairs = benchmarks
                .iter()
                .flat_map(|benchmark| threads.iter().map(move |t| (benchmark, *t)));
            let mut measurements = Vec::new();
            for (done, (benchmark, threads)) in pairs.enumerate() {
                let what = format!("{} on {}", benchmark.name(), counted(threads, "thread"));
                progress.stage(&what, done as u64 + 1, all);
                measurements.push(in_a_process(args, benchmark, threads)?);
            }
            progress.clear();
            measurements
        }
    };
    show(args, measurements)
}

fn show(args: &args::Bench, measurements: Vec<Measurement>) -> Result<()> {
    let report = Report {
        version: env!("CARGO_PKG_VERSION").into(),
        measurements,
    };
    if args.json {
        print_json(&report)
    } else {
        print(&table(&report.measurements))
    }
}

/// Returns the numbers of threads to measure, by default 1 and all cores.
fn threads(given: &[usize]) -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads: Vec<usize> = match given {
        [] => vec![1, all],
        given => given
            .iter()
            .map(|n| if *n == 0 { all } else { *n })
            .collect(),
    };
    threads.dedup();
    threads
}

/// Measures in a new process, so that its peak memory is its own.
fn in_a_process(args: &args::Bench, benchmark: &Benchmark, threads: usize) -> Result<Measurement> {
    let failed = |why: String| Error::data(format!("benchmark {}: {why}", benchmark.name()));
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let output = Command::new(program)
        .args(["bench", &benchmark.name(), "--quiet", "--json"])
        .args(["--threads", &threads.to_string()])
        .args(["--batch", &args.batch.to_string()])
        .args(["--seconds", &args.seconds.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("the process ended with {}", output.status)));
    }
    let report: Report =
        serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
    let one = report.measurements.into_iter().next();
    one.ok_or_else(|| failed("the process printed no measurement".into()))
}

fn table(measurements: &[Measurement]) -> String {
    let heads = [
        "benchmark",
        "threads",
        "steps/s",
        "round",
        "GFLOP/s",
        "of peak",
        "memory",
    ];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for m in measurements {
        rows.push(vec![
            m.benchmark.clone(),
            match m.ranks {
                None => m.threads.to_string(),
                Some(ranks) => format!("{} × {}", counted(ranks, "rank"), m.threads),
            },
            format!("{:.0}", m.steps_per_second),
            m.seconds_per_round
                .map_or("-".into(), |s| format!("{:.1} ms", 1000.0 * s)),
            format!("{:.1}", m.gflops),
            format!("{:.0}%", 100.0 * m.share_of_peak),
            m.peak_rss_mb.map_or("?".into(), |mb| format!("{mb:.0} MB")),
        ]);
    }
    let mut data: Vec<&str> = measurements.iter().map(|m| m.data.as_str()).collect();
    data.sort_unstable();
    data.dedup();
    let batch = measurements.first().map_or(0, |m| m.batch);
    format!(
        "{}\nA step is one client's local step on {batch} examples: all gradients and updates of its \
         algorithm.\nGFLOP/s counts dense arithmetic, zeros included; the peak is measured. Data: {}.\n",
        columns(&rows),
        data.join("; "),
    )
}
