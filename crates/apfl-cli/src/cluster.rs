//! The ranks of an MPI job, started by `mpirun` or a similar launcher.

use apfl::error::{Error, Result};

/// Returns this process's rank as the launcher put it into the environment; `None` without a
/// launcher.
pub fn launched_rank() -> Option<usize> {
    number(&[
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ])
}

/// Returns the number of processes that the launcher started.
fn launched() -> usize {
    let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
    number(&sizes).unwrap_or(1)
}

fn number(names: &[&str]) -> Option<usize> {
    let value = |name: &&str| std::env::var(name).ok()?.parse().ok();
    names.iter().find_map(value)
}

/// Returns an error if a launcher started several processes for a command that runs in one.
pub fn refuse_many() -> Result<()> {
    match launched() {
        0 | 1 => Ok(()),
        ranks => Err(Error::Request(format!(
            "{ranks} processes of this program were started together, but this command runs in \
             one; start it without a launcher, or use apfl run --set engine.kind=mpi or apfl bench \
             --mpi"
        ))),
    }
}

#[cfg(feature = "mpi")]
pub use ranks::{agree, join, serve};

#[cfg(feature = "mpi")]
mod ranks {
    use apfl::algorithm::AlgorithmSpec;
    use apfl::engine::mpi::{Cluster, Facts, Membership};
    use apfl::run::ranks::facts_of;
    use apfl::training::{self, Setup};

    use super::{Error, Result};

    /// Joins the job, or returns an error if its launcher and the MPI library do not match.
    pub fn join() -> Result<(Membership, Cluster)> {
        let (membership, cluster) = Cluster::join()?;
        let launched = super::launched();
        if launched > 1 && cluster.ranks == 1 {
            return Err(Error::data(format!(
                "{launched} processes of this program were started together, but each finds only \
                 itself: the launcher does not belong to the MPI library that the program was \
                 built with; use that library's mpirun"
            )));
        }
        Ok((membership, cluster))
    }

    /// Answers the leader's requests until the run ends. An error ends the whole job, because
    /// other ranks may be waiting for this one.
    pub fn serve(cluster: Cluster, setup: Setup, algorithm: &AlgorithmSpec) {
        if let Err(error) = training::serve(cluster, setup, algorithm) {
            crate::output::tell(format!("error on rank {}: {error}", cluster.rank));
            cluster.abort();
        }
    }

    /// Returns this rank's setup if all ranks can begin and are about to run the same. Otherwise
    /// the leader gets an error, the other ranks `None`.
    pub fn agree(
        cluster: Cluster,
        mut facts: Facts,
        spec: &str,
        setup: Result<Setup>,
    ) -> Result<Option<Setup>> {
        let (facts, setup) = match setup {
            Ok(setup) => {
                facts.append(&mut facts_of(&crate::program(), spec, &setup));
                (Ok(facts), Some(setup))
            }
            Err(error) => (Err(error), None),
        };
        let agreed = cluster.agree(facts)?;
        Ok(setup.filter(|_| agreed))
    }
}
