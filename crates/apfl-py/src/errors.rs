//! The library's errors as Python's.

use apfl::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    apfl,
    SpecError,
    PyValueError,
    "What was asked for is wrong; nothing was done. `problems` lists (key, what is wrong)."
);
create_exception!(
    apfl,
    RunError,
    PyRuntimeError,
    "What was asked for could not be done."
);

/// An error in Python's words.
pub trait Told {
    /// `RunError`, or `SpecError` where it lists problems of a spec.
    fn told(self) -> PyErr;
    /// `SpecError` also for a spec that is wrong as a whole.
    fn told_of_spec(self) -> PyErr;
}

impl Told for Error {
    fn told(self) -> PyErr {
        match self {
            Error::Spec(problems) => {
                let words = problems.to_string();
                let list = problems.0.into_iter().map(|p| (p.key, p.message));
                spec_error(words, list.collect())
            }
            Error::OtherProgram { .. } => {
                RunError::new_err(format!("{self}; force=True goes on all the same"))
            }
            Error::NoData { ref kind, .. } => {
                RunError::new_err(format!("{self}; apfl data get {kind} fetches the data"))
            }
            other => RunError::new_err(other.to_string()),
        }
    }

    fn told_of_spec(self) -> PyErr {
        match self {
            Error::Request(words) => spec_error(words.clone(), vec![(String::new(), words)]),
            other => other.told(),
        }
    }
}

/// A `SpecError` with its problems.
pub fn spec_error(words: String, problems: Vec<(String, String)>) -> PyErr {
    let error = SpecError::new_err(words);
    Python::attach(|py| {
        let _ = error.value(py).setattr("problems", problems); // an exception has attributes
    });
    error
}
