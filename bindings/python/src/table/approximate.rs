//! `ApproximateTable`.

use crate::arrow::keys::Keys;
use crate::arrow::values::ValuesBuilder;
use crate::bytes::{Form, to_bytes};
use crate::catalog::generation::Generation;
use crate::error::Result;
use crate::gil::detached;
use crate::handle::Handle;
use crate::json::to_python;
use crate::table::handle::access_of;
use crate::table::store::access_name;
use firndb::table::{self, Access};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// Values are bytes.
const FORM: Form = Form { decode: false };

/// An approximate table, without what `firndb.ApproximateTable` adds in Python.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct ApproximateTable {
    table: Handle<Arc<table::ApproximateTable>>,
    access: Access,
    in_memory: bool,
    path: PathBuf,
}

#[pymethods]
impl ApproximateTable {
    #[new]
    #[pyo3(signature = (path, *, access = "map"))]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>, access: &str) -> Result<ApproximateTable> {
        if let Ok(generation) = path.cast::<Generation>() {
            return generation.get().approximate();
        }
        let (path, access) = (path.extract::<PathBuf>()?, access_of(access)?);
        let table = detached(py, || table::ApproximateTable::open_with(&path, access))?;
        Ok(ApproximateTable::of(Arc::new(table), path, access))
    }

    /// The value of a key that was added. For any other key `default`, or with a small probability
    /// a wrong value.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyBytes>> {
        let found = self.find(py, key)?;
        found.ok_or_else(|| PyKeyError::new_err((key.clone().unbind(),)).into())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<bool> {
        Ok(self.find(py, key)?.is_some())
    }

    fn __len__(&self) -> Result<usize> {
        Ok(self.table.with(|table| Ok(table.len()))? as usize)
    }

    /// The values of many keys, in the order of the keys. Takes less time per key than `get`, and
    /// other threads run meanwhile.
    ///
    /// Args:
    ///     keys: an iterable of keys, or an Arrow array of them.
    ///     default: what the list has for absent keys.
    ///     arrow: return an `Array`, with nulls for absent keys, instead of a list.
    #[pyo3(signature = (keys, default = None, *, arrow = false))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        arrow: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let (keys, table) = (Keys::of(keys)?, self.table.get()?);
        let values = detached(py, || {
            let mut values = ValuesBuilder::new(keys.len());
            keys.for_each_chunk(|chunk| {
                for (at, value) in table.get_many(&chunk.keys)?.iter().enumerate() {
                    values.push(value.as_deref().filter(|_| !chunk.is_null(at)));
                }
                Ok::<(), firndb::Error>(())
            })?;
            Ok(values.finish())
        })?;
        if arrow {
            return Ok(Bound::new(py, values.into_array(py, FORM)?)?.into_any());
        }
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        Ok(values.into_list(py, FORM, &default)?.into_any())
    }

    /// The bytes that the build was given to keep in the table.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        self.table.with(|table| Ok(PyBytes::new(py, table.metadata()?)))
    }

    fn _stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_python(py, &self.table.get()?.stats())
    }

    fn _verify(&self, py: Python<'_>) -> Result<(u64, u64, u64)> {
        let table = self.table.get()?;
        let report = detached(py, || table.verify())?;
        Ok((report.files, report.bytes, report.records))
    }

    /// Whether the table was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.table.is_closed()
    }

    /// How the file is read: "map", "buffered", "direct" or "resident".
    #[getter]
    fn access(&self) -> &'static str {
        access_name(self.access)
    }

    fn _location(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    /// Closes the table. May be called more than once.
    fn close(&self, py: Python<'_>) {
        let table = self.table.take();
        py.detach(|| drop(table));
    }
}

impl ApproximateTable {
    /// A table that is open.
    pub fn of(table: Arc<table::ApproximateTable>, path: PathBuf, access: Access) -> Self {
        let in_memory = matches!(access, Access::Map | Access::Resident);
        ApproximateTable { table: Handle::new(table, "table"), access, in_memory, path }
    }

    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyBytes>>> {
        let key = to_bytes(key)?;
        let found = if self.in_memory {
            self.table.with(|table| table.get(&key))?
        } else {
            let table = self.table.get()?;
            detached(py, || table.get(&key))?
        };
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }
}
