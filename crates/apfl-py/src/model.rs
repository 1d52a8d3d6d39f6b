//! A trained model of a run, for prediction.

use std::path::PathBuf;

use apfl::data::table::{InferenceReader, Table};
use apfl::data::{Normalization, Source, Task};
use apfl::quote::shown;
use apfl::run::run_dir::FinishedRun;
use apfl::{Loss, Prediction, WhichModel};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::errors::{IntoPyErr, RunError};
use crate::frame;

/// A trained model: parameters, model and schema.
#[pyclass(frozen, module = "apfl._apfl")]
pub struct TrainedModel {
    model: apfl::TrainedModel,
    /// The settings of the training table, if the data was one.
    table: Option<Table>,
    /// The client; empty for the shared model.
    client: String,
}

/// Class indices or values, scores of classes, and notes.
type Predictions<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Vec<String>);

/// Opens a model of a finished run: `shared`, or a client's `localized`, `local`, `personal`,
/// `alone`.
#[pyfunction]
pub fn open_model(
    py: Python<'_>,
    directory: PathBuf,
    which: &str,
    client: &str,
) -> PyResult<TrainedModel> {
    let which = match which {
        "shared" => WhichModel::Shared,
        "localized" => WhichModel::Localized,
        "local" => WhichModel::Local,
        "personal" => WhichModel::Personal,
        "alone" => WhichModel::Alone,
        other => {
            return Err(PyValueError::new_err(format!(
                "which: found '{other}', allowed is personal, shared, localized, local or alone"
            )));
        }
    };
    let open = || {
        let run = FinishedRun::open(&directory)?;
        Ok(TrainedModel {
            model: run.model(which, client)?,
            table: match run.plan.data {
                Source::Table(table) => Some(table),
                _ => None,
            },
            client: client.into(),
        })
    };
    // The spec is that of the run: a problem of it is no request of the caller's.
    py.detach(open).map_err(|e: apfl::Error| match e {
        apfl::Error::Spec(problems) => RunError::new_err(shown(&format!(
            "{}: {problems}",
            directory.join("spec.toml").display()
        ))),
        other => other.into_py_err(),
    })
}

#[pymethods]
impl TrainedModel {
    /// Returns the names of the raw feature columns.
    fn features(&self) -> Vec<String> {
        let schema = self.model.schema();
        match &schema.normalization {
            Normalization::Prepared(preparation) => {
                let columns = preparation.columns.iter();
                columns.map(|column| column.name.clone()).collect()
            }
            _ => schema.features.clone(),
        }
    }

    /// Returns the names of the classes; None in regression.
    fn classes(&self) -> Option<Vec<String>> {
        match &self.model.schema().task {
            Task::Classification { classes } => Some(classes.clone()),
            Task::Regression => None,
        }
    }

    /// Returns `schema.json`.
    fn schema(&self) -> String {
        serde_json::to_string(self.model.schema()).expect("plain JSON")
    }

    /// Returns whether its scores are probabilities.
    fn has_probabilities(&self) -> bool {
        matches!(self.model.model().loss(), Loss::Softmax | Loss::Logistic)
    }

    /// Predicts each row: class indices with the scores of all classes, or values; and notes on
    /// the rows, such as unseen categories.
    fn predict<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Predictions<'py>> {
        let py = data.py();
        let rows = frame::columns(data)?;
        let reader = InferenceReader {
            schema: self.model.schema(),
            table: self.table.as_ref(),
            client: Some(self.client.as_str()).filter(|client| !client.is_empty()),
            label: None,
            split: None,
            ids: &[],
        };
        let answers = py.detach(|| {
            let asked = reader.read(&rows)?;
            Ok((self.model.predict(&asked.x)?, asked.unseen.notes()))
        });
        let (answers, notes) = answers.map_err(|e: apfl::Error| e.into_py_err())?;
        let classes = self.model.schema().task.classes();
        if classes == 0 {
            let values: Vec<f64> = answers.iter().filter_map(Prediction::value).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
            let values = array(py, &bytes, "float64", &[values.len()])?;
            return Ok((values, None, notes));
        }
        let mut indices = Vec::with_capacity(8 * answers.len());
        let mut all = Vec::with_capacity(8 * answers.len() * classes);
        for answer in &answers {
            if let Prediction::Class { index, scores } = answer {
                indices.extend((*index as i64).to_ne_bytes());
                all.extend(scores.iter().flat_map(|x| x.to_ne_bytes()));
            }
        }
        let rows = answers.len();
        let indices = array(py, &indices, "int64", &[rows])?;
        let scores = array(py, &all, "float64", &[rows, classes])?;
        Ok((indices, Some(scores), notes))
    }

    /// Returns (name, array) of each tensor.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let params = self.model.params();
        let layout = self.model.layout();
        let each = layout.tensors.iter().map(|tensor| {
            let numbers = &params[tensor.range()];
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
            Ok((
                tensor.name.clone(),
                array(py, &bytes, "float32", &tensor.shape)?,
            ))
        });
        each.collect()
    }
}

/// Creates a writable NumPy array that owns its memory.
fn array<'py>(
    py: Python<'py>,
    bytes: &[u8],
    dtype: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let owner = PyByteArray::new(py, bytes);
    let flat = numpy.call_method1("frombuffer", (owner, dtype))?;
    flat.call_method1("reshape", (shape.to_vec(),))
}

impl std::fmt::Debug for TrainedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.model.fmt(f)
    }
}
