//! Where the program was started many times over, by `mpirun` or the like.

use apfl::error::{Error, Result};

/// This process's number among those started together, by what the launcher left in the
/// environment; `None` where there is no launcher.
pub fn launched_rank() -> Option<usize> {
    number(&[
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ])
}

/// How many of this program were started together.
fn launched() -> usize {
    let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
    number(&sizes).unwrap_or(1)
}

fn number(names: &[&str]) -> Option<usize> {
    let value = |name: &&str| std::env::var(name).ok()?.parse().ok();
    names.iter().find_map(value)
}

/// An error where several of this program were started together, but not to work together.
pub fn refuse_many() -> Result<()> {
    match launched() {
        0 | 1 => Ok(()),
        ranks => Err(Error::Request(format!(
            "{ranks} of this program were started together, and each would do all of the work; \
             apfl run --set engine.kind=mpi and apfl bench --mpi share it out"
        ))),
    }
}

#[cfg(feature = "mpi")]
pub use ranks::{agreed, joined, serve};

#[cfg(feature = "mpi")]
mod ranks {
    use apfl::algorithm::AlgorithmSpec;
    use apfl::data::partition;
    use apfl::digest::sha256_of;
    use apfl::engine::mpi::{Cluster, Facts, Membership};
    use apfl::model::kernels::describe_vectors;
    use apfl::params::bytes_of;
    use apfl::training::{self, Setup};

    use super::{Error, Result};

    /// Joins the job; an error where its launcher and the MPI library do not fit.
    pub fn joined() -> Result<(Membership, Cluster)> {
        let (membership, cluster) = Cluster::join()?;
        let launched = super::launched();
        if launched > 1 && cluster.ranks == 1 {
            return Err(Error::data(format!(
                "{launched} of this program were started together, but each finds itself alone: \
                 the launcher is not that of the MPI library the program was built with; use its \
                 mpirun"
            )));
        }
        Ok((membership, cluster))
    }

    /// Carries out the leader's orders. What goes wrong on the way ends the whole job: others
    /// may wait for this rank.
    pub fn serve(cluster: Cluster, setup: Setup, algorithm: &AlgorithmSpec) {
        if let Err(error) = training::serve(cluster, setup, algorithm) {
            crate::output::tell(format!("error on rank {}: {error}", cluster.rank));
            cluster.abort();
        }
    }

    /// This rank's part of what is to run, if all ranks can begin and are about to do the
    /// same. The leader gets an error otherwise, the others nothing.
    pub fn agreed(
        cluster: Cluster,
        mut facts: Facts,
        spec: &str,
        setup: Result<Setup>,
    ) -> Result<Option<Setup>> {
        let (facts, setup) = match setup {
            Ok(setup) => {
                facts.append(&mut facts_of(spec, &setup));
                (Ok(facts), Some(setup))
            }
            Err(error) => (Err(error), None),
        };
        let go = cluster.agree(facts)?;
        Ok(setup.filter(|_| go))
    }

    /// What must be the same on all ranks: the program, the spec, the start, the data.
    fn facts_of(spec: &str, setup: &Setup) -> Facts {
        let digest = |bytes: &[u8]| format!("SHA-256 {}", sha256_of(bytes));
        let program = format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("APFL_COMMIT"));
        let start = bytes_of(&setup.context.w0);
        let mut facts = vec![
            ("the program".to_string(), program),
            (
                "the CPU's vectors, and with them the bits".into(),
                describe_vectors().into(),
            ),
            ("the spec".into(), digest(spec.as_bytes())),
            ("the initial model".into(), digest(&start)),
        ];
        let dataset = &setup.context.dataset;
        for file in dataset.files() {
            facts.push((file.path, format!("SHA-256 {}", file.sha256)));
        }
        let assignment = dataset.assignment().map(partition::checksum);
        facts.extend(assignment.map(|sum| ("the partition".to_string(), sum)));
        facts
    }
}
