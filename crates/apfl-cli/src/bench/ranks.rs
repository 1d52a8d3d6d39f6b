//! Runs benchmarks on all ranks of an MPI job.

use apfl::engine::EngineKind;
use apfl::error::{Error, Result};
use apfl::spec::Resources;

use super::benchmark::Benchmark;
use super::measure::{Measurement, measure_with};
use crate::args;
use crate::cluster::{agree, join, serve};

/// Runs the selected benchmarks; returns `None` on ranks other than the leader.
pub fn measure_all(
    args: &args::Bench,
    benchmarks: &[Benchmark],
    threads: &[usize],
) -> Result<Option<Vec<Measurement>>> {
    let (_membership, cluster) = join()?;
    let mut measurements = Vec::new();
    let rounds = || benchmarks.iter().filter(|benchmark| !benchmark.is_step());
    if rounds().count() == 0 {
        let problem =
            "--mpi measures rounds; give a benchmark <algorithm>-<model>, not step-<model>";
        return Err(Error::Request(problem.into()));
    }
    for benchmark in rounds() {
        for threads in threads {
            let (plan, dataset, data) = benchmark.plan(args.batch, *threads)?;
            let resources = Resources {
                engine: EngineKind::Mpi(cluster),
                ..Resources::default()
            };
            let setup = plan.setup_with(dataset, resources);
            let Some(setup) = agree(cluster, Vec::new(), &benchmark.name(), setup)? else {
                return Ok(None); // the leader returns the error
            };
            if cluster.leads() {
                let _leader = cluster.lead();
                let extent = (args.batch, *threads, args.seconds);
                let one = measure_with(benchmark, extent, setup, &plan.algorithm, data)?;
                measurements.push(one);
            } else {
                serve(cluster, setup, &plan.algorithm)
            }
        }
    }
    Ok(cluster.leads().then_some(measurements))
}
