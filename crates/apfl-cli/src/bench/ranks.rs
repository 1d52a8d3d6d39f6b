//! Measurements on all ranks of an MPI job.

use apfl::engine::mpi::Cluster;
use apfl::error::{Error, Result};
use apfl::training;

use super::measure::{Measurement, measure_with};
use super::work::Work;
use crate::args;
use crate::cluster::agreed;

/// Measures the rounds asked for; `None` on ranks that do not lead.
pub fn measure_all(
    args: &args::Bench,
    works: &[Work],
    threads: &[usize],
) -> Result<Option<Vec<Measurement>>> {
    let (_membership, cluster) = Cluster::join()?;
    let mut measurements = Vec::new();
    for work in works.iter().filter(|work| !work.is_step()) {
        for threads in threads {
            let (plan, dataset, data) = work.plan(args.batch, *threads)?;
            let setup = plan.setup_with(dataset);
            let Some(setup) = agreed(cluster, &work.name(), setup)? else {
                return Err(Error::Data("the first rank could not begin".into()));
            };
            match cluster.leads() {
                true => {
                    let _lead = cluster.lead();
                    let how = (args.batch, *threads, args.seconds);
                    let one = measure_with(work, how, setup, &plan.algorithm, data)?;
                    measurements.push(one);
                }
                false => training::serve(cluster, setup, &plan.algorithm)?,
            }
        }
    }
    Ok(cluster.leads().then_some(measurements))
}
