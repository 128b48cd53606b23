//! Errors of the library as exceptions of `firndb._errors`, one class per kind.

use firndb::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

/// The result of a call of the library that returns to Python.
pub type Result<T> = std::result::Result<T, Failure>;

/// An error on its way to Python: of the library, or an exception that Python code raised.
pub struct Failure(PyErr);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(Python::attach(|py| exception(py, &error)))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        failure.0
    }
}

/// The exception for an error.
fn exception(py: Python<'_>, error: &Error) -> PyErr {
    instance(py, error).unwrap_or_else(|e| e)
}

fn instance(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || {
        let classes = py.import("firndb._errors")?.getattr("BY_KIND")?;
        Ok::<_, PyErr>(classes.cast_into::<PyDict>()?.unbind())
    })?;
    let class = classes.bind(py).as_any().get_item(error.kind().name())?;
    let details = PyDict::new(py);
    details.set_item("path", error.file().map(|file| file.to_string_lossy().into_owned()))?;
    details.set_item("offset", error.offset())?;
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<std::io::Error>());
    details.set_item("errno", source.and_then(std::io::Error::raw_os_error))?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&details))?))
}

/// Name and built-in base class of every kind of error, for the test that compares them with the
/// classes in Python.
pub fn kinds(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, ErrorKind::ALL.map(|kind| (kind.name(), kind.python_base())))
}
