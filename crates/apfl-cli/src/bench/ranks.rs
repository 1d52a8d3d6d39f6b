//! Measurements on all ranks of an MPI job.

use apfl::engine::EngineKind;
use apfl::error::{Error, Result};
use apfl::spec::Resources;

use super::benchmark::Benchmark;
use super::measure::{Measurement, measure_with};
use crate::args;
use crate::cluster::{agreed, joined, serve};

/// Measures the rounds asked for; `None` on ranks that do not lead.
pub fn measure_all(
    args: &args::Bench,
    works: &[Benchmark],
    threads: &[usize],
) -> Result<Option<Vec<Measurement>>> {
    let (_membership, cluster) = joined()?;
    let mut measurements = Vec::new();
    let rounds = || works.iter().filter(|work| !work.is_step());
    if rounds().count() == 0 {
        let problem = "--mpi measures rounds; steps alone are the same on every rank";
        return Err(Error::Request(problem.into()));
    }
    for work in rounds() {
        for threads in threads {
            let (plan, dataset, data) = work.plan(args.batch, *threads)?;
            let on = Resources {
                engine: EngineKind::Mpi(cluster),
                ..Resources::default()
            };
            let setup = plan.setup_with(dataset, on);
            let Some(setup) = agreed(cluster, Vec::new(), &work.name(), setup)? else {
                return Ok(None); // the leader says why, and fails
            };
            if cluster.leads() {
                let _leader = cluster.lead();
                let how = (args.batch, *threads, args.seconds);
                let one = measure_with(work, how, setup, &plan.algorithm, data)?;
                measurements.push(one);
            } else {
                serve(cluster, setup, &plan.algorithm)
            }
        }
    }
    Ok(cluster.leads().then_some(measurements))
}
