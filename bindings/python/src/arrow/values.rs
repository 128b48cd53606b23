//! The values that a batch call returns as Arrow data.

use crate::arrow::capsule::{export_array, export_schema_of};
use crate::bytes::Form;
use crate::error::Result;
use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyIndexError, PyUnicodeDecodeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use std::sync::Arc;

/// Builds the values of a batch call, one after another, without an allocation for each.
pub struct ValuesBuilder {
    values: LargeBinaryBuilder,
}

impl ValuesBuilder {
    /// A builder for this many values.
    pub fn new(len: usize) -> ValuesBuilder {
        ValuesBuilder { values: LargeBinaryBuilder::with_capacity(len, 0) }
    }

    /// Adds a value; `None` for an absent key.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.values.append_option(value);
    }

    /// The values that were added.
    pub fn finish(mut self) -> Values {
        Values(self.values.finish())
    }
}

/// The values of a batch call, with nulls for absent keys.
pub struct Values(LargeBinaryArray);

impl Values {
    /// The values as an Arrow array, of `large_utf8` if they are decoded.
    pub fn into_array(self, py: Python<'_>, form: Form) -> Result<Array> {
        if !form.decode {
            return Ok(Array::new(Arc::new(self.0)));
        }
        match LargeStringArray::try_from_binary(self.0.clone()) {
            Ok(texts) => Ok(Array::new(Arc::new(texts))),
            Err(_) => Err(self.not_utf8(py)?.into()),
        }
    }

    /// The values as a list of `bytes` or `str`, with `default` for absent keys.
    pub fn into_list<'py>(
        self,
        py: Python<'py>,
        form: Form,
        default: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyList>> {
        let objects = self.0.iter().map(|value| match value {
            Some(value) => form.object(py, value),
            None => Ok(default.clone()),
        });
        Ok(PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?)
    }

    /// The error for the first value that is not UTF-8.
    fn not_utf8(&self, py: Python<'_>) -> PyResult<PyErr> {
        for value in self.0.iter().flatten() {
            if let Err(e) = std::str::from_utf8(value) {
                let error = PyUnicodeDecodeError::new_utf8(py, value, e)?;
                return Ok(PyErr::from_value(error.into_any()));
            }
        }
        unreachable!("a value was found that is not UTF-8")
    }
}

/// An Arrow array that a batch call returned: a sequence, and a source for every library that
/// reads Arrow data through the PyCapsule interface.
///
/// `pyarrow.array(a)`, `polars.Series(a)` and `pandas.Series.from_arrow(a)` take it without copying
/// the values; so do the methods below, which import the library of their name.
#[pyclass(frozen, sequence, module = "firndb")]
pub struct Array {
    array: ArrayRef,
}

impl Array {
    pub fn new(array: ArrayRef) -> Array {
        Array { array }
    }

    /// A value as `bytes` or `str`, or `None`.
    fn object<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.array.is_null(at) {
            return Ok(py.None().into_bound(py));
        }
        match self.array.data_type() {
            DataType::LargeUtf8 => {
                Ok(self.array.as_string::<i64>().value(at).into_pyobject(py)?.into_any())
            }
            _ => Form { decode: false }.object(py, self.array.as_binary::<i64>().value(at)),
        }
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let len = self.array.len();
        let at = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < len);
        let at = at.ok_or_else(|| {
            PyIndexError::new_err(format!("index {index} of an array of {len} values"))
        })?;
        self.object(py, at)
    }

    /// Number of nulls: keys that are absent.
    #[getter]
    fn null_count(&self) -> usize {
        self.array.null_count()
    }

    /// Bytes of memory of the array.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array.get_buffer_memory_size()
    }

    /// The values as a list of `bytes` or `str`, with `None` for nulls.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let objects = (0..self.array.len()).map(|at| self.object(py, at));
        PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)
    }

    /// The values as a `pyarrow.Array`. Raises `ImportError` without pyarrow.
    fn to_pyarrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pyarrow")?.call_method1("array", (this,))
    }

    /// The values as a `polars.Series`. Raises `ImportError` without polars.
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("polars")?.call_method1("Series", (this,))
    }

    /// The values as a `pandas.Series`. Raises `ImportError` without pandas and pyarrow.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pandas")?.getattr("Series")?.call_method1("from_arrow", (this,))
    }

    /// The capsules of the array, for other libraries. The type is always that of the array:
    /// `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyTuple>> {
        drop(requested_schema);
        export_array(py, &*self.array)
    }

    /// The capsule of the type of the array, for other libraries.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema_of(py, &Field::new("", self.array.data_type().clone(), true))
    }

    fn __repr__(&self) -> String {
        let kind = match self.array.data_type() {
            DataType::LargeUtf8 => "large_utf8",
            _ => "large_binary",
        };
        let nulls = self.array.null_count();
        format!("<firndb.Array of {} {kind} values, {nulls} of them null>", self.array.len())
    }
}
