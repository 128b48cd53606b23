//! Values of fields from and to Python.

use firndb::search::Value;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString, PyTuple, PyType,
};

/// 1970-01-01 as `date.toordinal` counts days.
const EPOCH_ORDINAL: i64 = 719_163;
const DAY_MICROS: i64 = 86_400_000_000;

/// Classes of the module `datetime`, and the beginning of the epoch.
struct Times {
    datetime: Py<PyType>,
    date: Py<PyType>,
    timedelta: Py<PyType>,
    epoch: Py<PyAny>,
}

fn times(py: Python<'_>) -> PyResult<&Times> {
    static TIMES: PyOnceLock<Times> = PyOnceLock::new();
    TIMES.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let class = |name| Ok::<_, PyErr>(module.getattr(name)?.cast_into::<PyType>()?);
        let datetime = class("datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        let epoch = datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
        Ok(Times {
            datetime: datetime.unbind(),
            date: class("date")?.unbind(),
            timedelta: class("timedelta")?.unbind(),
            epoch: epoch.unbind(),
        })
    })
}

/// A value as a Python object: timestamps are aware datetimes in UTC.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::I64(value) => value.into_pyobject(py)?.into_any(),
        Value::U64(value) => value.into_pyobject(py)?.into_any(),
        Value::F64(value) => PyFloat::new(py, *value).into_any(),
        Value::Str(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Timestamp(micros) => timestamp(py, *micros)?,
    })
}

/// A value, or `None`.
pub fn to_optional<'py>(py: Python<'py>, value: Option<&Value>) -> PyResult<Bound<'py, PyAny>> {
    value.map_or_else(|| Ok(py.None().into_bound(py)), |value| to_python(py, value))
}

/// Several values as a tuple.
pub fn to_tuple<'py>(py: Python<'py>, values: &[Option<Value>]) -> PyResult<Bound<'py, PyTuple>> {
    let values = values.iter().map(|value| to_optional(py, value.as_ref()));
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}

fn timestamp(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let times = times(py)?;
    let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
    let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
    let delta = times.timedelta.bind(py).call1((days, seconds, micros))?;
    times.epoch.bind(py).add(delta).map_err(|error| {
        if !error.is_instance_of::<PyOverflowError>(py) {
            return error;
        }
        let text = firndb::search::timestamp_to_text(days.saturating_mul(DAY_MICROS) + rest);
        PyOverflowError::new_err(format!(
            "{text} is outside the years 1 to 9999, which a datetime can have: read the hits with \
             to_arrow()"
        ))
    })
}

/// The value of a Python object; `None` for `None`. Errors: `TypeError` for other types,
/// `ValueError` for integers beyond 64 bits and for datetimes without a time zone.
pub fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let py = object.py();
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(Value::from(text.to_str()?)));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Some(Value::Bool(value.is_true())));
    }
    if object.is_instance_of::<PyInt>() {
        return integer(object).map(Some);
    }
    if let Ok(value) = object.cast::<PyFloat>() {
        return Ok(Some(Value::F64(value.value())));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Some(Value::from(bytes.as_bytes())));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        return Ok(Some(Value::from(&*crate::bytes::to_bytes(object)?)));
    }
    let times = times(py)?;
    if object.is_instance(times.datetime.bind(py))? {
        if object.ne(object)? {
            return Ok(None); // `pandas.NaT`, a missing value.
        }
        return micros(object, times).map(|micros| Some(Value::Timestamp(micros)));
    }
    if object.is_instance(times.date.bind(py))? {
        let ordinal: i64 = object.call_method0("toordinal")?.extract()?;
        return Ok(Some(Value::Timestamp((ordinal - EPOCH_ORDINAL) * DAY_MICROS)));
    }
    if let Some(dtype) = object.getattr_opt("dtype")?
        && object.hasattr("item")?
        && let Some(kind) = dtype.getattr_opt("kind")?
        && !matches!(kind.extract::<String>()?.as_str(), "M" | "m" | "O")
    {
        return from_python(&object.call_method0("item")?); // A scalar of numpy.
    }
    let name = object.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "a value is a bool, int, float, str, bytes, datetime or date, not {name}"
    )))
}

fn integer(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = object.extract::<i64>() {
        return Ok(Value::I64(value));
    }
    let value = object.extract::<u64>();
    value.map(Value::U64).map_err(|_| PyValueError::new_err("an integer has more than 64 bits"))
}

/// Microseconds since 1970 of an aware datetime.
fn micros(object: &Bound<'_, PyAny>, times: &Times) -> PyResult<i64> {
    let py = object.py();
    if object.call_method0("utcoffset")?.is_none() {
        return Err(PyValueError::new_err(
            "a datetime without a time zone is ambiguous: give it one, such as \
             tzinfo=datetime.UTC",
        ));
    }
    let delta = object.sub(times.epoch.bind(py))?;
    let part = |name: &str| -> PyResult<i64> { delta.getattr(name)?.extract() };
    Ok(part("days")? * DAY_MICROS + part("seconds")? * 1_000_000 + part("microseconds")?)
}

/// The same error with more text before its message.
pub fn prefixed(py: Python<'_>, error: &PyErr, prefix: &str) -> PyErr {
    let message = format!("{prefix}: {}", error.value(py));
    let named = PyErr::from_type(error.get_type(py), message);
    named.set_cause(py, error.cause(py));
    named
}
