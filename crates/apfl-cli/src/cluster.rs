//! `apfl run` when it was started many times over, by `mpirun` or the like.

use apfl::error::{Error, Result};

use crate::args;
use crate::run::Prepared;

/// This process's number among those started together, by what the launcher left in the
/// environment; `None` where there is no launcher.
pub fn launched_rank() -> Option<usize> {
    number(&["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"])
}

fn number(names: &[&str]) -> Option<usize> {
    let value = |name: &&str| std::env::var(name).ok()?.parse().ok();
    names.iter().find_map(value)
}

/// An error where several of this program were started together, but not to work together.
pub fn refuse_many() -> Result<()> {
    match number(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]) {
        Some(ranks) if ranks > 1 => Err(Error::Request(format!(
            "{ranks} of this program were started together, and each would do all of the work; \
             --set engine.kind=mpi shares it out (apfl bench: --mpi)"
        ))),
        _ => Ok(()),
    }
}

/// A run on all ranks: the first leads, the others serve.
#[cfg(not(feature = "mpi"))]
pub fn run(_: &args::Run, _: Prepared) -> Result<std::process::ExitCode> {
    unreachable!("a spec with engine.kind = \"mpi\" does not become a plan")
}

#[cfg(feature = "mpi")]
pub use ranks::{agreed, run};

#[cfg(feature = "mpi")]
mod ranks {
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicBool, Ordering};

    use apfl::data::partition;
    use apfl::engine::Kind;
    use apfl::engine::mpi::{Cluster, Facts};
    use apfl::training::{self, Setup};
    use sha2::{Digest, Sha256};

    use super::{Error, Prepared, Result, args};

    /// A run on all ranks: the first leads, the others serve.
    pub fn run(args: &args::Run, prepared: Prepared) -> Result<ExitCode> {
        let (_membership, cluster) = Cluster::join()?;
        if prepared.finished() {
            return match cluster.leads() {
                true => prepared.show_finished(args),
                false => Ok(ExitCode::SUCCESS),
            };
        }
        let Some(setup) = agreed(cluster, &prepared.plan.to_toml(), prepared.plan.setup())? else {
            return Ok(ExitCode::FAILURE); // the leader says why
        };
        if cluster.leads() {
            let _lead = cluster.lead();
            return prepared.train(args, setup);
        }
        ignore_signals()?;
        training::serve(cluster, setup, &prepared.plan.algorithm)?;
        Ok(ExitCode::SUCCESS)
    }

    /// This rank's part of what is to run, if all ranks can begin and are about to do the
    /// same. The leader gets an error otherwise, the others nothing.
    pub fn agreed(cluster: Cluster, spec: &str, setup: Result<Setup>) -> Result<Option<Setup>> {
        let (facts, setup) = match setup {
            Ok(setup) => (Ok(facts(spec, &setup)), Some(setup)),
            Err(error) => (Err(error), None),
        };
        let go = cluster.agree(facts)?;
        let Some(mut setup) = setup.filter(|_| go) else {
            return Ok(None);
        };
        setup.world = setup.world.on(cluster)?;
        setup.engine = Kind::Mpi(cluster);
        Ok(Some(setup))
    }

    /// What must be the same on all ranks: the program, the spec, the data.
    fn facts(spec: &str, setup: &Setup) -> Facts {
        let program = format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("APFL_COMMIT"));
        let digest = Sha256::digest(spec);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut facts = vec![
            ("the program".to_string(), program),
            ("the spec".to_string(), format!("SHA-256 {digest}")),
        ];
        let dataset = &setup.world.dataset;
        for file in dataset.files() {
            facts.push((file.path, format!("SHA-256 {}", file.sha256)));
        }
        let dealing = dataset.dealing().map(partition::checksum);
        facts.extend(dealing.map(|sum| ("the partition".to_string(), sum)));
        facts
    }

    /// Lets the leader decide what a signal means: launchers give it to everybody. A second
    /// one ends this process.
    pub fn ignore_signals() -> Result<()> {
        let seen = AtomicBool::new(false);
        ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })
        .map_err(|e| Error::Data(format!("cannot listen for Ctrl-C: {e}")))
    }
}
