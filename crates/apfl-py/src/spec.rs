//! Conversion of a Python spec (a path, TOML text or a dict) to the library's.

use std::path::{Path, PathBuf};

use apfl::settings::Problems;
use apfl::{Error, Plan, Spec};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use toml::{Table, Value};

use crate::errors::IntoPyErr;

/// The largest nesting depth of a spec.
const MAX_DEPTH: usize = 16;

/// A spec as given, and the problems of its values.
#[derive(Debug, Default)]
pub struct SpecInput {
    /// The table.
    pub table: Table,
    problems: Problems,
}

/// Reads a spec; None is the default spec.
pub fn read(spec: &Bound<'_, PyAny>) -> PyResult<SpecInput> {
    if spec.is_none() {
        return Ok(SpecInput::default());
    }
    if let Ok(text) = spec.cast::<PyString>() {
        let text = text.to_cow()?;
        return if is_path(&text) {
            file(Path::new(&*text))
        } else {
            parsed(&text, None)
        };
    }
    if let Ok(mapping) = spec.cast::<PyMapping>() {
        let mut problems = Problems::default();
        let table = from_mapping(mapping, "", 0, &mut problems)?;
        return Ok(SpecInput { table, problems });
    }
    match spec.extract::<PathBuf>() {
        Ok(path) => file(&path),
        Err(_) => Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "spec: found a {}, expected a dict, TOML text or a path",
            spec.get_type().name()?
        ))),
    }
}

impl From<Table> for SpecInput {
    fn from(table: Table) -> Self {
        Self {
            table,
            problems: Problems::default(),
        }
    }
}

impl SpecInput {
    /// Adds a problem.
    pub fn note(&mut self, key: &str, message: impl Into<String>) {
        self.problems.note(key, message);
    }

    /// Checks the spec and returns its plan; an error lists all problems.
    pub fn plan(mut self) -> PyResult<Plan> {
        let text = toml::to_string(&self.table).expect("a table of plain values is TOML");
        match Spec::parse(&text).and_then(|spec| spec.plan()) {
            Ok(plan) if self.problems.0.is_empty() => Ok(plan),
            Err(Error::Spec(more)) => {
                self.problems.0.extend(more.0);
                Err(Error::Spec(self.problems).into_py_err())
            }
            Ok(_) => Err(Error::Spec(self.problems).into_py_err()),
            Err(other) => Err(other.into_spec_error()),
        }
    }
}

/// Returns whether a text is a path: one line that ends in `.toml` or cannot be TOML.
fn is_path(text: &str) -> bool {
    let one_line = !text.contains('\n') && !text.trim().is_empty();
    one_line && (text.ends_with(".toml") || !text.contains(['=', '[', '#']))
}

fn file(path: &Path) -> PyResult<SpecInput> {
    let text = std::fs::read_to_string(path).map_err(|source| {
        Error::File {
            path: path.into(),
            action: "read",
            source,
        }
        .into_py_err()
    })?;
    parsed(&text, Some(path))
}

fn parsed(text: &str, path: Option<&Path>) -> PyResult<SpecInput> {
    let spec = Spec::parse(text).map_err(|e| match (e, path) {
        (Error::Request(message), Some(path)) => {
            Error::Request(format!("{}: {message}", path.display())).into_spec_error()
        }
        (e, _) => e.into_spec_error(),
    })?;
    Ok(spec.table().clone().into())
}

fn from_mapping(
    mapping: &Bound<'_, PyMapping>,
    path: &str,
    depth: usize,
    problems: &mut Problems,
) -> PyResult<Table> {
    let mut table = Table::new();
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let name = key.str()?.to_cow()?.into_owned();
        let full = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        if !key.is_instance_of::<PyString>() {
            problems.note(full, "keys must be texts");
        } else if let Some(value) = from_value(&value, &full, depth + 1, problems)? {
            table.insert(name, value);
        }
    }
    Ok(table)
}

/// Converts a value; adds a problem and returns `None` if a spec cannot hold it.
fn from_value(
    value: &Bound<'_, PyAny>,
    path: &str,
    depth: usize,
    problems: &mut Problems,
) -> PyResult<Option<Value>> {
    let mut wrong = |message: String| {
        problems.note(path, message);
        Ok(None)
    };
    if depth > MAX_DEPTH {
        return wrong(format!("nested too deeply; allowed are {MAX_DEPTH} levels"));
    }
    if value.is_none() {
        return wrong("found None; leave the key out for its default".into());
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(truth.is_true().into()));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(whole) => Ok(Some(whole.into())),
            Err(_) => wrong(format!("found {value}, which does not fit 64 bits")),
        };
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Some(number.value().into()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_cow()?.into_owned().into()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut list = Vec::new();
        for (k, item) in value.try_iter()?.enumerate() {
            let path = format!("{path}[{k}]");
            list.extend(from_value(&item?, &path, depth + 1, problems)?);
        }
        return Ok(Some(list.into()));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return Ok(Some(from_mapping(mapping, path, depth, problems)?.into()));
    }
    if let Ok(file) = value.extract::<PathBuf>() {
        return Ok(Some(file.display().to_string().into()));
    }
    // NumPy scalars convert to Python numbers.
    match value.call_method0("item") {
        Ok(plain) if !plain.is(value) => from_value(&plain, path, depth + 1, problems),
        _ => wrong(format!(
            "found a value of type {}, allowed are texts, numbers, true or false, lists and dicts",
            value.get_type().name()?
        )),
    }
}
