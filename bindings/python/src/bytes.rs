//! Keys and values: `bytes`, `str` (as UTF-8) and objects with a buffer, and back.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

/// The bytes of a key or value.
pub fn to_bytes<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str()?.as_bytes()));
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(object) {
        return Ok(Cow::Owned(buffer.to_vec(object.py())?));
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("keys and values are bytes or str, not {name}")))
}

/// How bytes are returned to Python.
#[derive(Clone, Copy)]
pub struct Form {
    /// As `str`, decoded as UTF-8; otherwise as `bytes`.
    pub decode: bool,
}

impl Form {
    #[inline]
    pub fn object<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.decode {
            Ok(PyString::from_bytes(py, bytes)?.into_any())
        } else {
            Ok(PyBytes::new(py, bytes).into_any())
        }
    }

    /// [`Form::object`] that raises no exception, which would run Python code: the bytes if they
    /// are not UTF-8. For calls that hold a lock.
    #[inline]
    pub fn object_or_bytes<'py>(
        self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> std::result::Result<Bound<'py, PyAny>, Vec<u8>> {
        if self.decode {
            let text = std::str::from_utf8(bytes).map_err(|_| bytes.to_vec())?;
            Ok(PyString::new(py, text).into_any())
        } else {
            Ok(PyBytes::new(py, bytes).into_any())
        }
    }
}
