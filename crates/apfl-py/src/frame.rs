//! Conversion of frames (pandas, polars, pyarrow, dicts of arrays) to typed columns.
//!
//! Every column is copied once through Python's buffers, contiguously and in native byte order.
//! Columns without a buffer type (objects, strings, integers with gaps) are converted value by
//! value. NaN, None, NA and NaT are missing. An index is not a column.

use apfl::data::table::{Column, Columns};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyFloat, PyInt, PyMapping, PySequence, PyString};

use crate::errors::IntoPyErr;

/// The name of dates and times in error messages.
const TIME: &str = "date or time";

/// Converts a frame of any supported library.
pub fn columns(data: &Bound<'_, PyAny>) -> PyResult<Columns> {
    let mut frame = Frame::default();
    frame.take(data)?;
    Ok(frame.0)
}

#[derive(Default)]
struct Frame(Columns);

/// A value of an untyped column.
enum Value {
    Missing,
    Truth(bool),
    Whole(i64),
    Single(f32),
    Real(f64),
    Text(String),
    Other(String),
}

impl Frame {
    fn take(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        match kind_of(data)?.as_str() {
            "pandas.DataFrame" => self.take_pandas(data)?,
            "polars.DataFrame" => {
                for name in data.getattr("columns")?.try_iter()? {
                    let name: String = name?.extract()?;
                    let column = data.call_method1("get_column", (&name,))?;
                    self.push(name, &column)?;
                }
            }
            "pyarrow.Table" | "pyarrow.RecordBatch" => {
                for (k, name) in data.getattr("column_names")?.try_iter()?.enumerate() {
                    let column = data.call_method1("column", (k,))?;
                    self.push(name?.extract()?, &column)?;
                }
            }
            "numpy.ndarray" => {
                let names = data.getattr("dtype")?.getattr("names")?;
                if names.is_none() {
                    return Err(PyTypeError::new_err(
                        "data: found an array without column names; give a frame, or a dict of \
                         columns: {\"age\": x[:, 0], …}",
                    ));
                }
                for name in names.try_iter()? {
                    let name = name?;
                    self.push(name.extract()?, &data.get_item(&name)?)?;
                }
            }
            "pandas.Series" | "polars.Series" | "pyarrow.Array" => {
                return Err(PyTypeError::new_err(
                    "data: found a Series, which is one column; give a frame such as frame[[\"age\"]]",
                ));
            }
            "polars.LazyFrame" => {
                return Err(PyTypeError::new_err(
                    "data: found a LazyFrame, which has no rows yet; give frame.collect()",
                ));
            }
            other => {
                let Ok(mapping) = data.cast::<PyMapping>() else {
                    return Err(PyTypeError::new_err(format!(
                        "data: found a {other}, expected a frame of pandas, polars or pyarrow, or \
                         a dict of columns"
                    )));
                };
                for item in mapping.items()?.iter() {
                    let (name, column): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
                    self.push(name.str()?.to_cow()?.into_owned(), &column)?;
                }
            }
        }
        Ok(())
    }

    fn take_pandas(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let labels = data.getattr("columns")?;
        if labels.getattr("nlevels")?.extract::<usize>()? > 1 {
            return Err(PyValueError::new_err(
                "data: found column names of several levels; flatten them first",
            ));
        }
        for (k, label) in labels.try_iter()?.enumerate() {
            let column = data
                .getattr("iloc")?
                .get_item((full_slice(data.py())?, k))?;
            let name = label?.str()?.to_cow()?.into_owned();
            self.push(name, &column)?;
        }
        Ok(())
    }

    fn push(&mut self, name: String, column: &Bound<'_, PyAny>) -> PyResult<()> {
        let column = column_of(column).inspect_err(|e| {
            let note = format!("in column '{name}' of the data");
            let _ = e.value(column.py()).call_method1("add_note", (note,));
        })?;
        let all = std::mem::take(&mut self.0);
        self.0 = all.with(name, column).map_err(|e| e.into_py_err())?;
        Ok(())
    }
}

/// Returns the qualified type name, such as `pandas.DataFrame`.
fn kind_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut known = None;
    for class in value.get_type().mro().iter() {
        let module: String = class.getattr("__module__")?.extract().unwrap_or_default();
        let top = module.split('.').next().unwrap_or_default();
        let name: String = class.getattr("__name__")?.extract()?;
        let name = match (top, name.as_str()) {
            ("pyarrow", "ChunkedArray") => "Array".into(),
            _ => name,
        };
        let full = format!("{top}.{name}");
        if matches!(top, "pandas" | "polars" | "pyarrow" | "numpy")
            && [
                "DataFrame",
                "LazyFrame",
                "Series",
                "Table",
                "RecordBatch",
                "Array",
                "ndarray",
                "MaskedArray",
            ]
            .contains(&name.as_str())
        {
            return Ok(full);
        }
        known.get_or_insert(match top {
            "builtins" => name,
            _ => full,
        });
    }
    Ok(known.unwrap_or_default())
}

fn column_of(column: &Bound<'_, PyAny>) -> PyResult<Column> {
    let py = column.py();
    match kind_of(column)?.as_str() {
        "pandas.Series" => {
            let dtype = column.getattr("dtype")?;
            if dtype.get_type().module()?.to_cow()?.starts_with("numpy") {
                return from_array(&column.call_method0("to_numpy")?);
            }
            // Extension types of pandas: floats keep their width.
            let name = dtype.str()?.to_cow()?.into_owned();
            if name.starts_with("datetime") || name.starts_with("period") {
                return Ok(Column::Other(TIME.into(), column.len()?));
            }
            let width = match name.as_str() {
                "Float64" | "double[pyarrow]" => Some("float64"),
                "Float32" | "float[pyarrow]" | "halffloat[pyarrow]" => Some("float32"),
                _ => None,
            };
            if let Some(width) = width {
                let how = [
                    ("dtype", width.into_pyobject(py)?.into_any()),
                    ("na_value", f64::NAN.into_pyobject(py)?.into_any()),
                ]
                .into_py_dict(py)?;
                return from_array(&column.call_method("to_numpy", (), Some(&how))?);
            }
            if name == "category"
                && let Some(categories) = categories(column)?
            {
                return Ok(categories);
            }
            let objects = column.call_method1("astype", ("object",))?;
            from_values(&objects.call_method0("to_list")?)
        }
        "polars.Series" => {
            let name = column.getattr("dtype")?.str()?.to_cow()?.into_owned();
            let gaps = column.call_method0("null_count")?.extract::<usize>()? > 0;
            let float = name.starts_with("Float");
            let whole = name.starts_with("Int") || name.starts_with("UInt");
            if float || (whole && !gaps) {
                return from_array(&column.call_method0("to_numpy")?);
            }
            let time = ["Date", "Datetime", "Duration", "Time"];
            if time.iter().any(|t| name.starts_with(t)) {
                return Ok(Column::Other(TIME.into(), column.len()?));
            }
            from_values(&column.call_method0("to_list")?)
        }
        "pyarrow.Array" => {
            let name = column.getattr("type")?.str()?.to_cow()?.into_owned();
            let gaps = column.getattr("null_count")?.extract::<usize>()? > 0;
            let float = ["halffloat", "float", "double"].contains(&name.as_str());
            let whole = name.starts_with("int") || name.starts_with("uint");
            if float || (whole && !gaps) {
                let how = [("zero_copy_only", false)].into_py_dict(py)?;
                return from_array(&column.call_method("to_numpy", (), Some(&how))?);
            }
            let time = ["timestamp", "date", "time", "duration"];
            if time.iter().any(|t| name.starts_with(t)) {
                return Ok(Column::Other(TIME.into(), column.len()?));
            }
            from_values(&column.call_method0("to_pylist")?)
        }
        "numpy.MaskedArray" => from_values(&column.call_method0("tolist")?),
        "numpy.ndarray" => from_array(column),
        "str" | "bytes" => Err(PyTypeError::new_err(
            "data: found a single text, expected a list or an array for a column",
        )),
        _ if column.cast::<PySequence>().is_ok() => from_values(column),
        other => match column.call_method0("__array__") {
            Ok(array) => match kind_of(&array)?.as_str() {
                "numpy.ndarray" => from_array(&array),
                "numpy.MaskedArray" => from_values(&array.call_method0("tolist")?),
                found => Err(PyTypeError::new_err(format!(
                    "data: found a {other} whose __array__ returns a {found}, expected a NumPy \
                     array; give a list or an array"
                ))),
            },
            Err(_) => Err(PyTypeError::new_err(format!(
                "data: found a {other}, expected a list or an array for a column"
            ))),
        },
    }
}

/// Converts a categorical Series of strings; returns `None` for other categories.
fn categories(column: &Bound<'_, PyAny>) -> PyResult<Option<Column>> {
    let accessor = column.getattr("cat")?;
    let mut names = Vec::new();
    for name in accessor.getattr("categories")?.try_iter()? {
        match name?.cast::<PyString>() {
            Ok(name) => names.push(name.to_cow()?.into_owned()),
            Err(_) => return Ok(None),
        }
    }
    let codes = accessor.getattr("codes")?.call_method0("to_numpy")?;
    let codes: Vec<i64> = native(&codes, "int64")?;
    // −1 is missing.
    let codes = codes.into_iter().map(|code| u32::try_from(code).ok());
    Ok(Some(Column::Categories {
        names,
        codes: codes.collect(),
    }))
}

/// Converts a NumPy array of any type, order and stride.
fn from_array(array: &Bound<'_, PyAny>) -> PyResult<Column> {
    let dimensions = array.getattr("ndim")?.extract::<usize>()?;
    if dimensions != 1 {
        return Err(PyValueError::new_err(format!(
            "data: found an array of {dimensions} dimensions, expected one for a column"
        )));
    }
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    let size: usize = dtype.getattr("itemsize")?.extract()?;
    Ok(match (kind.as_str(), size) {
        ("f", 2 | 4) => Column::Floats(native(array, "float32")?),
        ("f", _) => Column::Numbers(native(array, "float64")?),
        ("b", _) => {
            let truths: Vec<u8> = native(array, "uint8")?;
            Column::Booleans(truths.into_iter().map(|x| Some(x != 0)).collect())
        }
        // Integers of 2⁶³ and above are kept as digits.
        ("u", 8)
            if array.len()? > 0
                && array.call_method0("max")?.extract::<u64>()? > i64::MAX as u64 =>
        {
            return from_values(&array.call_method0("tolist")?);
        }
        ("i" | "u", _) => {
            let wholes: Vec<i64> = native(array, "int64")?;
            Column::Integers(wholes.into_iter().map(Some).collect())
        }
        ("U" | "T", _) => return from_values(&array.call_method0("tolist")?),
        ("O", _) => return from_values(array),
        ("M" | "m", _) => Column::Other(TIME.into(), array.len()?),
        _ => Column::Other(dtype.str()?.to_cow()?.into_owned(), array.len()?),
    })
}

/// Returns a contiguous copy of an array in native byte order.
fn native<T: Element>(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Vec<T>> {
    let copy = array.call_method1("astype", (dtype,))?;
    PyBuffer::<T>::get(&copy)?.to_vec(array.py())
}

/// Converts values one by one: to one type, or all to text as in a CSV file.
fn from_values(values: &Bound<'_, PyAny>) -> PyResult<Column> {
    let values = values.try_iter()?.map(|value| value_of(&value?));
    let values: Vec<Value> = values.collect::<PyResult<_>>()?;
    if let Some(Value::Other(kind)) = values.iter().find(|v| matches!(v, Value::Other(_))) {
        return Ok(Column::Other(kind.clone(), values.len()));
    }
    let all = |fits: fn(&Value) -> bool| {
        values
            .iter()
            .all(|v| fits(v) || matches!(v, Value::Missing))
    };
    let number = |value: &Value| match value {
        Value::Whole(x) => *x as f64,
        Value::Real(x) => *x,
        _ => f64::NAN,
    };
    Ok(if all(|v| matches!(v, Value::Truth(_))) {
        let truth = |value: &Value| match value {
            Value::Truth(x) => Some(*x),
            _ => None,
        };
        Column::Booleans(values.iter().map(truth).collect())
    } else if all(|v| matches!(v, Value::Whole(_))) {
        let whole = |value: &Value| match value {
            Value::Whole(x) => Some(*x),
            _ => None,
        };
        Column::Integers(values.iter().map(whole).collect())
    } else if all(|v| matches!(v, Value::Single(_))) {
        let single = |value: &Value| match value {
            Value::Single(x) => *x,
            _ => f32::NAN,
        };
        Column::Floats(values.iter().map(single).collect())
    } else if all(|v| matches!(v, Value::Real(_) | Value::Whole(_))) {
        Column::Numbers(values.iter().map(number).collect())
    } else {
        let text = |value: Value| match value {
            Value::Text(text) => Some(text),
            Value::Truth(x) => Some(x.to_string()),
            Value::Whole(x) => Some(x.to_string()),
            Value::Single(x) => Some(x.to_string()),
            Value::Real(x) => Some(x.to_string()),
            Value::Missing | Value::Other(_) => None,
        };
        Column::Texts(values.into_iter().map(text).collect())
    })
}

fn value_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Missing);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::Text(text.to_cow()?.into_owned()));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Value::Truth(truth.is_true()));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(match number.value() {
            x if x.is_nan() => Value::Missing,
            x => Value::Real(x),
        });
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(match value.extract::<i64>() {
            Ok(whole) => Value::Whole(whole),
            Err(_) => Value::Text(value.str()?.to_cow()?.into_owned()),
        });
    }
    let class = value.get_type();
    let name: String = class.name()?.to_cow()?.into_owned();
    if name == "NAType" || name == "NaTType" {
        return Ok(Value::Missing);
    }
    let dtype = value
        .getattr("dtype")
        .and_then(|d| d.getattr("kind")?.extract::<String>());
    Ok(match dtype.as_deref() {
        Ok("f") if name == "float32" || name == "float16" => match value.extract::<f32>()? {
            x if x.is_nan() => Value::Missing,
            x => Value::Single(x),
        },
        Ok("b" | "i" | "u" | "f") => {
            let plain = value.call_method0("item")?;
            if plain.is_instance_of::<PyFloat>() || plain.is_instance_of::<PyInt>() {
                value_of(&plain)?
            } else {
                Value::Other(name)
            }
        }
        Ok("M" | "m") => Value::Other(TIME.into()),
        _ => Value::Other(match name.as_str() {
            "datetime" | "date" | "time" | "Timestamp" | "Timedelta" | "timedelta" => TIME.into(),
            _ => name,
        }),
    })
}

fn full_slice(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("builtins")?.getattr("slice")?.call1((py.None(),))
}
