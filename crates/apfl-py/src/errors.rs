//! Conversion of the library's errors to Python exceptions.

use apfl::Error;
use apfl::quote::shown;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    apfl,
    SpecError,
    PyValueError,
    "The request is invalid and nothing was done. `problems` lists (key, message)."
);
create_exception!(
    apfl,
    RunError,
    PyRuntimeError,
    "The request could not be carried out."
);

/// Converts an error to a Python exception.
pub trait IntoPyErr {
    /// Returns a `SpecError` for problems of a spec, else a `RunError`.
    fn into_py_err(self) -> PyErr;
    /// As `into_py_err`, but returns a `SpecError` also for a spec that is wrong as a whole.
    fn into_spec_error(self) -> PyErr;
}

/// The text of an error may quote strings of a file or of another party.
impl IntoPyErr for Error {
    fn into_py_err(self) -> PyErr {
        match self {
            Error::Spec(problems) => {
                let message = shown(&problems.to_string());
                let list = problems.0.into_iter().map(|p| (p.key, p.message));
                spec_error(message, list.collect())
            }
            Error::OtherProgram { .. } => {
                RunError::new_err(format!("{self}; force=True resumes it anyway"))
            }
            Error::NoData { ref kind, .. } => {
                RunError::new_err(format!("{self}; apfl data get {kind} fetches the data"))
            }
            other => RunError::new_err(shown(&other.to_string())),
        }
    }

    fn into_spec_error(self) -> PyErr {
        match self {
            Error::Request(message) => spec_error(message.clone(), vec![(String::new(), message)]),
            other => other.into_py_err(),
        }
    }
}

/// Returns a `SpecError` with its problems.
pub fn spec_error(message: String, problems: Vec<(String, String)>) -> PyErr {
    let error = SpecError::new_err(message);
    Python::attach(|py| {
        let _ = error.value(py).setattr("problems", problems); // an exception has attributes
    });
    error
}
