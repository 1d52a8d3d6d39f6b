//! `apfl._apfl`: the bridge from Python to the library. The Python package around it is
//! `python/apfl`.

mod errors;
mod federation;
mod frame;
mod model;
mod spec;
mod train;

use std::path::PathBuf;

use apfl::advise::Advice;
use apfl::run::run_dir::{FinishedRun, InterruptedRun};
use pyo3::prelude::*;

use errors::IntoPyErr;

#[global_allocator]
static MEMORY: apfl::model::CacheLines = apfl::model::CacheLines;

/// The module that `import apfl` loads.
#[pymodule]
mod _apfl {
    #[pymodule_export]
    use super::errors::{RunError, SpecError};
    #[pymodule_export]
    use super::federation::{answer, refusal, serve, terms};
    #[pymodule_export]
    use super::model::{TrainedModel, open_model};
    #[pymodule_export]
    use super::train::train;
    #[pymodule_export]
    use super::{advise, quoted, report, require_run, version};
}

/// Returns the program as `environment.json` names it.
fn program() -> apfl::Program {
    apfl::Program {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("APFL_COMMIT").into(),
    }
}

/// Returns the version and the commit of the module.
#[pyfunction]
fn version() -> (String, String) {
    let program = program();
    (program.version, program.commit)
}

/// Returns a string from another party for a message: without control characters, and not long.
#[pyfunction]
fn quoted(text: &str) -> String {
    apfl::quote::quoted(text)
}

/// Writes the HTML report of run directories.
#[pyfunction]
fn report(py: Python<'_>, runs: Vec<PathBuf>, file: PathBuf) -> PyResult<()> {
    py.detach(|| apfl_report::write(&runs, &file, None))
        .map_err(|e| e.into_py_err())
}

/// Returns the advice of a finished run as JSON.
#[pyfunction]
fn advise(py: Python<'_>, directory: PathBuf) -> PyResult<String> {
    let advice = py.detach(|| Advice::of_run(&FinishedRun::open(&directory)?));
    let advice = advice.map_err(|e| e.into_py_err())?;
    Ok(serde_json::to_string(&advice).expect("plain JSON"))
}

/// Returns whether the run in a directory is finished; an error if there is no run.
#[pyfunction]
fn require_run(directory: PathBuf) -> PyResult<bool> {
    let found = InterruptedRun::open(&directory).map_err(|e| e.into_py_err())?;
    match found {
        Some(run) => Ok(run.summary.is_some()),
        None => Err(errors::RunError::new_err(format!(
            "{}: no run was begun there (spec.toml is missing)",
            directory.display()
        ))),
    }
}
