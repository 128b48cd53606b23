//! `Generation`: one version of a name, opened.

use super::values;
use crate::error::{Failure, Result};
use crate::search::reader::CollectionReader;
use crate::table::approximate::ApproximateTable;
use crate::table::handle::{Location, TableRef};
use crate::table::store::Table;
use firndb::catalog;
use firndb::table::Access;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::Arc;

/// One version of a table or collection, opened by a `CatalogReader`. It never changes, and stays
/// open as long as it is held.
#[pyclass(frozen, module = "firndb")]
pub struct Generation {
    open: Arc<catalog::Generation>,
    access: Access,
    version: PyOnceLock<Py<PyAny>>,
}

impl Generation {
    pub fn new(open: Arc<catalog::Generation>, access: Access) -> Generation {
        Generation { open, access, version: PyOnceLock::new() }
    }

    /// Whether this is that generation.
    pub fn is(&self, open: &Arc<catalog::Generation>) -> bool {
        Arc::ptr_eq(&self.open, open)
    }

    /// The native part of a table in one file.
    pub fn single(&self, decode: bool) -> Result<Table> {
        let table = self.open.shared_table()?;
        let location = Location::File(table.path().to_path_buf());
        Ok(Table::of(TableRef::One(table), location, self.access, decode))
    }

    /// The native part of a sharded table.
    pub fn sharded(&self, decode: bool) -> Result<Table> {
        let table = self.open.shared_sharded_table()?;
        let paths = table.shards().iter().map(|shard| shard.path().to_path_buf());
        let location = Location::Shards(paths.collect());
        Ok(Table::of(TableRef::Sharded(table), location, self.access, decode))
    }

    /// The native part of an approximate table.
    pub fn approximate(&self) -> Result<ApproximateTable> {
        let table = self.open.shared_approximate_table()?;
        let path = table.path().to_path_buf();
        Ok(ApproximateTable::of(table, path, self.access))
    }

    /// Makes an object of a class of the module `firndb` that takes a generation.
    fn make<'py>(
        this: &Bound<'py, Self>,
        class: &str,
        decode: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let options = PyDict::new(this.py());
        if let Some(decode) = decode {
            options.set_item("decode", decode)?;
        }
        Ok(this.py().import("firndb")?.getattr(class)?.call((this,), Some(&options))?)
    }
}

#[pymethods]
impl Generation {
    /// The version: its number, time, labels, files.
    #[getter]
    fn version(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        let version = self.version.get_or_try_init(py, || {
            let values = values::version(py, self.open.version())?;
            let class = py.import("firndb._catalog_values")?.getattr("Version")?;
            Ok::<_, Failure>(class.call_method1("_of", (values,))?.unbind())
        })?;
        Ok(version.clone_ref(py))
    }

    /// The number of the version.
    #[getter]
    fn number(&self) -> u64 {
        self.open.version().number
    }

    /// The name that the version was published under.
    #[getter]
    fn name(&self) -> &str {
        &self.open.version().name
    }

    /// The kind of store: `"table"`, `"approximate table"`, `"sharded table"` or `"collection"`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.open.version().kind.name()
    }

    /// The table. It stays open when the reader switches to another version, and closing it does
    /// not close the generation.
    ///
    /// Args:
    ///     decode: return keys and values as `str` instead of `bytes`.
    ///
    /// Raises:
    ///     InvalidArgumentError: the version is of another kind.
    #[pyo3(signature = (*, decode = false))]
    fn table<'py>(this: &Bound<'py, Self>, decode: bool) -> Result<Bound<'py, PyAny>> {
        Generation::make(this, "Table", Some(decode))
    }

    /// The sharded table, as `table`.
    ///
    /// Args:
    ///     decode: return keys and values as `str` instead of `bytes`.
    ///
    /// Raises:
    ///     InvalidArgumentError: the version is of another kind.
    #[pyo3(signature = (*, decode = false))]
    fn sharded_table<'py>(this: &Bound<'py, Self>, decode: bool) -> Result<Bound<'py, PyAny>> {
        Generation::make(this, "ShardedTable", Some(decode))
    }

    /// The approximate table, as `table`.
    ///
    /// Raises:
    ///     InvalidArgumentError: the version is of another kind.
    fn approximate_table<'py>(this: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        Generation::make(this, "ApproximateTable", None)
    }

    /// The collection, as a `CollectionReader`: it never changes, and has all queries.
    ///
    /// Raises:
    ///     InvalidArgumentError: the version is of another kind.
    fn collection<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let reader = CollectionReader { reader: self.open.collection()?.clone() };
        let class = py.import("firndb._search")?.getattr("CollectionReader")?;
        Ok(class.call1((Py::new(py, reader)?,))?)
    }

    fn __repr__(&self) -> String {
        let version = self.open.version();
        format!("<Generation of {:?}: version {}, {}>", version.name, version.number, self.kind())
    }
}
