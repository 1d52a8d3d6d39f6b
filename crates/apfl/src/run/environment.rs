//! The environment of a run, and the check that a resumed run still has the same one.

use std::path::Path;

use crate::data::{self, partition};
use crate::digest::sha256_of;
use crate::engine::threads;
use crate::error::{Error, Result};
use crate::model::kernels::lanes;
use crate::params::bytes_of;
use crate::run::manifest::{FORMAT, Identity};
use crate::run::run_dir::Environment;
use crate::spec::{Plan, identifying_keys};
use crate::training::Setup;

/// The program that executes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit it was built from, or another name of the build.
    pub commit: String,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: "library".into(),
        }
    }
}

/// Returns the environment of a run.
pub(super) fn of(setup: &Setup, program: &Program) -> Environment {
    Environment {
        format: FORMAT,
        version: program.version.clone(),
        commit: program.commit.clone(),
        cpu: cpu(),
        lanes: lanes(),
        engine: setup.engine.name().into(),
        ranks: setup.engine.ranks(),
        threads: threads::count(setup.threads),
        data: setup.context.dataset.files(),
        partition: setup.context.dataset.assignment().map(partition::checksum),
    }
}

/// Returns the identity of the run's checkpoints.
pub(super) fn identity(plan: &Plan, setup: &Setup, environment: &Environment) -> Result<Identity> {
    Ok(Identity {
        spec: identifying_keys(&plan.resolved),
        data: data::digest(&*setup.context.dataset)?,
        start: sha256_of(&bytes_of(&setup.context.w0)),
        program: format!("{} ({})", environment.version, environment.commit),
        lanes: environment.lanes,
    })
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    name.and_then(|line| line.split_once(':'))
        .map_or(std::env::consts::ARCH.into(), |(_, name)| {
            name.trim().into()
        })
}

/// Checks a resumed run's environment.
///
/// # Errors
/// If the format of the directory or the data files differ.
pub(super) fn fits(then: Option<&Environment>, now: &Environment, run: &Path) -> Result<()> {
    let Some(then) = then else {
        return Ok(());
    };
    if then.format != now.format {
        return Err(Error::Format {
            path: run.into(),
            found: then.format,
            known: now.format,
        });
    }
    for (then, now) in then.data.iter().zip(&now.data) {
        if then != now {
            return Err(Error::Checkpoint(format!(
                "{}: the file has changed since the run was begun (SHA-256 {} then, {} now); \
                 restore it, or begin a new run",
                now.path, then.sha256, now.sha256
            )));
        }
    }
    if then.data.len() != now.data.len() {
        return Err(Error::Checkpoint(format!(
            "found {1} data files, the run was begun with {0}; restore them, or begin a new run",
            then.data.len(),
            now.data.len()
        )));
    }
    Ok(())
}
