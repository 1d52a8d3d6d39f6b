//! Training, watched from Python.

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

use crate::errors::{RunError, Told};
use crate::frame;
use crate::spec::{self, Given};

/// Trains in a run directory, and delivers. `watch(event, number, text)` is told of every
/// event; where it returns False the run ends, to be resumed. Returns (finished, rounds).
#[pyfunction]
#[pyo3(signature = (spec, data, directory, resume, force, watch))]
pub fn train(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    data: Option<&Bound<'_, PyAny>>,
    directory: PathBuf,
    resume: bool,
    force: bool,
    watch: Option<Py<PyAny>>,
) -> PyResult<(bool, u64)> {
    let plan = planned(spec, data.is_some(), &directory, resume)?;
    if !resume {
        RunDir::require_empty(&directory).map_err(|e| e.told())?;
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
        let run = if resume {
            run.resume(&directory)
        } else {
            run.directory(&directory)
        };
        run.watch(&mut |event| watcher.see(event))
    });
    if let Some(raised) = watcher.raised {
        return Err(raised);
    }
    match ended.map_err(|e| e.told())? {
        Ended::Finished(finished) => Ok((true, finished.summary.rounds)),
        Ended::Stopped(round) => Ok((false, round)),
    }
}

/// The plan of a spec, or of the run that is to go on.
fn planned(spec: &Bound<'_, PyAny>, rows: bool, directory: &Path, resume: bool) -> PyResult<Plan> {
    let mut given = if spec.is_none() && resume {
        match InterruptedRun::open(directory).map_err(|e| e.told())? {
            Some(begun) => begun.spec.table().clone().into(),
            None => {
                return Err(RunError::new_err(format!(
                    "{}: no run was begun there (there is no spec.toml); give its spec to begin \
                     one",
                    directory.display()
                )));
            }
        }
    } else {
        spec::read(spec)?
    };
    if rows {
        of_rows(&mut given);
    }
    let plan = given.plan()?;
    if plan.engine.mpi {
        let mut mpi = Given::default();
        mpi.note(
            "engine.kind",
            "found \"mpi\", which the program runs: mpirun -n 8 apfl run; here it is threads",
        );
        return mpi.plan();
    }
    Ok(plan)
}

/// Lets a spec read its table from rows that are in memory.
fn of_rows(given: &mut Given) {
    let data = given.table.entry("data");
    let data = data.or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(data) = data else {
        return; // the plan says what is wrong
    };
    let kind = data.entry("kind").or_insert_with(|| "table".into()).clone();
    // No file: so says the run's spec too.
    data.insert("path".into(), Value::Array(Vec::new()));
    if kind.as_str() != Some("table") {
        data.insert("kind".into(), "table".into());
        given.note(
            "data.kind",
            format!("found {kind}, but rows were given, which are a table; leave the key out"),
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

/// Tells Python of events, and keeps what it raises.
struct Watcher {
    watch: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Watcher {
    fn see(&mut self, event: Event<'_>) -> ControlFlow<()> {
        Python::attach(|py| match self.tell(py, event) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        })
    }

    fn tell(&self, py: Python<'_>, event: Event<'_>) -> PyResult<bool> {
        // Ctrl-C, where this is the main thread.
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
