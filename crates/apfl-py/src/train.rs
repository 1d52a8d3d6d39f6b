//! Training with callbacks to Python.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apfl::data::table::Columns;
use apfl::data::{Dataset, Source};
use apfl::run::RunDir;
use apfl::run::run_dir::InterruptedRun;
use apfl::run::{Ended, Event, Run};
use apfl::spec::{Plan, Resources};
use pyo3::prelude::*;
use toml::{Table, Value};

use crate::errors::{IntoPyErr, RunError};
use crate::frame;
use crate::spec::{self, SpecInput};

/// Trains in a run directory and finalizes. `watch(event, number, text)` receives every event; if
/// it returns False, the run stops and can be resumed. `finish` ends the run in the directory at
/// its last checkpoint. Returns (finished, rounds).
#[pyfunction]
#[pyo3(signature = (spec, data, directory, resume, finish, force, watch))]
#[allow(clippy::too_many_arguments)] // Python passes them by position
pub fn train(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    data: Option<&Bound<'_, PyAny>>,
    directory: PathBuf,
    resume: bool,
    finish: bool,
    force: bool,
    watch: Option<Py<PyAny>>,
) -> PyResult<(bool, u64)> {
    let plan = planned(spec, data.is_some(), &directory, resume)?;
    if !resume {
        RunDir::require_empty(&directory).map_err(|e| e.into_py_err())?;
    }
    let rows = data.map(frame::columns).transpose()?;
    let mut watcher = Watcher {
        watch,
        raised: None,
    };
    let ended = py.detach(|| {
        let run = prepared(&plan, rows, &directory)?
            .program(crate::program())
            .force(force);
        let run = if finish {
            run.finish(&directory)
        } else if resume {
            run.resume(&directory)
        } else {
            run.directory(&directory)
        };
        run.watch(&mut |event| watcher.see(event))
    });
    if let Some(raised) = watcher.raised {
        return Err(raised);
    }
    match ended.map_err(|e| e.into_py_err())? {
        Ended::Finished(finished) => Ok((true, finished.summary.rounds)),
        Ended::Stopped(round) => Ok((false, round)),
    }
}

/// Returns the plan of a spec, or of the run to resume.
fn planned(spec: &Bound<'_, PyAny>, rows: bool, directory: &Path, resume: bool) -> PyResult<Plan> {
    let mut given = if spec.is_none() && resume {
        match InterruptedRun::open(directory).map_err(|e| e.into_py_err())? {
            Some(begun) => begun.spec.table().clone().into(),
            None => {
                return Err(RunError::new_err(format!(
                    "{}: no run was begun there (spec.toml is missing); give a spec to begin one",
                    directory.display()
                )));
            }
        }
    } else {
        spec::read(spec)?
    };
    if rows {
        use_rows(&mut given);
    }
    let plan = given.plan()?;
    if plan.engine.mpi {
        let mut mpi = SpecInput::default();
        mpi.note(
            "engine.kind",
            "found \"mpi\", which needs the program: mpirun -n 8 apfl run; allowed in Python is threads",
        );
        return mpi.plan();
    }
    Ok(plan)
}

/// Changes a spec to read its table from rows in memory.
fn use_rows(given: &mut SpecInput) {
    let data = given.table.entry("data");
    let data = data.or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(data) = data else {
        return; // reported by the plan
    };
    let kind = data.entry("kind").or_insert_with(|| "table".into()).clone();
    // The rows are from no file.
    data.insert("path".into(), Value::Array(Vec::new()));
    if kind.as_str() != Some("table") {
        data.insert("kind".into(), "table".into());
        given.note(
            "data.kind",
            format!("found {kind}, but rows were given, which are a table; remove the key"),
        );
    }
}

fn prepared(plan: &Plan, rows: Option<Columns>, directory: &Path) -> apfl::Result<Run> {
    let dataset: Arc<dyn Dataset> = match (&plan.data, rows) {
        (Source::Table(table), Some(rows)) => Arc::new(table.load_from(&rows)?),
        _ => plan.data.load()?,
    };
    let on = Resources {
        directory: Some(directory),
        ..Resources::default()
    };
    Ok(Run::new(plan, plan.setup_with(dataset, on)?))
}

/// Passes events to Python and stores an exception of the callback.
struct Watcher {
    watch: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Watcher {
    fn see(&mut self, event: Event<'_>) -> ControlFlow<()> {
        Python::attach(|py| match self.notify(py, event) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        })
    }

    fn notify(&self, py: Python<'_>, event: Event<'_>) -> PyResult<bool> {
        // Ctrl-C in the main thread.
        py.check_signals()?;
        let Some(watch) = &self.watch else {
            return Ok(true);
        };
        let (name, number, text) = match event {
            Event::Begun(round) => ("begun", round, None),
            Event::Round(record) => {
                let text = serde_json::to_string(record).expect("plain JSON");
                ("round", record.round, Some(text))
            }
            Event::Finalizing(clients) => ("delivering", clients, None),
            Event::Finalized(clients) => ("delivered", clients, None),
            _ => return Ok(true),
        };
        let answer = watch.call1(py, (name, number, text))?;
        Ok(!answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
    }
}
