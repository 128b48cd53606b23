//! `Indexer`.

use super::feed::removals;
use super::slot::Slot;
use crate::catalog::interrupt::run;
use crate::catalog::origin::Switch;
use crate::catalog::store::Catalog;
use crate::catalog::values::published_json;
use crate::error::Result;
use crate::gil::detached;
use crate::json;
use crate::search::schema::Schema as NativeSchema;
use firndb::ErrorKind;
use firndb::indexer::{self, Applied, Options, Partitioning, Publication};
use firndb::search::Schema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Partitions by default, as `firn index init` has them.
const PARTITIONS: u32 = 64;

/// An index, without what `firndb.Indexer` adds in Python.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Indexer {
    pub slot: Arc<Slot>,
    pub schema: Schema,
}

#[pymethods]
impl Indexer {
    #[new]
    #[pyo3(signature = (
        path, schema = None, *, partitions = None, partition_by = None, memory_bytes = None,
        threads = 0, max_removed = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of a function in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        schema: Option<NativeSchema>,
        partitions: Option<u32>,
        partition_by: Option<String>,
        memory_bytes: Option<usize>,
        threads: usize,
        max_removed: Option<f64>,
    ) -> Result<Indexer> {
        let mut options = Options::new().threads(threads);
        if let Some(bytes) = memory_bytes {
            options = options.memory_limit(bytes);
        }
        if let Some(removals) = removals(max_removed)? {
            options = options.removals(removals);
        }
        let wanted = partitioning(partition_by, partitions);
        let schema = schema.map(|schema| schema.schema);
        let index = detached(py, || open(&path, schema, wanted, options))?;
        let schema = index.schema().clone();
        Ok(Indexer { slot: Arc::new(Slot::new(index, path)), schema })
    }

    /// The directory of the index.
    #[getter]
    fn path(&self) -> String {
        self.slot.path.to_string_lossy().into_owned()
    }

    fn _schema(&self) -> NativeSchema {
        NativeSchema { schema: self.schema.clone() }
    }

    /// Whether the index is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> Result<bool> {
        self.slot.is_closed(py)
    }

    /// Whether the collection was missing when the index was opened, or was not the one that the
    /// index had published. Then the next `publish` rebuilds all of it.
    #[getter]
    fn is_remade(&self, py: Python<'_>) -> Result<bool> {
        self.slot.with(py, |index| Ok(index.is_remade()))
    }

    /// The field by which documents are assigned to partitions, or `None`.
    #[getter]
    fn partition_by(&self, py: Python<'_>) -> Result<Option<String>> {
        self.slot.with(py, |index| Ok(index.partitioning().field().map(str::to_string)))
    }

    /// The number of partitions by the hash of the key, for each value of `partition_by` if that is
    /// set; `None` if documents are not assigned by hash.
    #[getter]
    fn partitions(&self, py: Python<'_>) -> Result<Option<u32>> {
        self.slot.with(py, |index| Ok(index.partitioning().partitions()))
    }

    fn _publish<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let done = self.slot.with(py, indexer::Indexer::publish)?;
        json::to_python(py, &publication(&done))
    }

    fn _publish_to<'py>(
        &self,
        py: Python<'py>,
        catalog: &Catalog,
        name: &str,
    ) -> Result<Bound<'py, PyAny>> {
        let switch = Switch::default();
        let catalog = catalog.switched(&switch);
        let slot = &*self.slot;
        let done = run(py, &switch, None, |_| {
            Ok(slot.with_index(|index| index.publish_to(&catalog, name)))
        })?;
        let (done, version) = done?;
        let version = version.as_ref().map(published_json);
        json::to_python(py, &json!([publication(&done), version]))
    }

    /// Assigns all documents to partitions anew. Reads every document. The published partitions
    /// stay until `publish`, which then rebuilds everything.
    ///
    /// Args:
    ///     partitions: the number of partitions by the hash of the key, 1 to 32,000, for each value
    ///         of `partition_by` if that is set.
    ///     partition_by: the field whose values are partitions.
    ///
    /// Raises:
    ///     ValueError: neither is given.
    ///     InvalidArgumentError: the field does not exist, has several values, or is a float.
    #[pyo3(signature = (partitions = None, *, partition_by = None))]
    fn repartition(
        &self,
        py: Python<'_>,
        partitions: Option<u32>,
        partition_by: Option<String>,
    ) -> Result<()> {
        let Some(wanted) = partitioning(partition_by, partitions) else {
            let message = "name a number of partitions, a field to partition by, or both";
            return Err(PyValueError::new_err(message).into());
        };
        self.slot.with(py, |index| index.repartition(wanted))
    }

    fn _status<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let status = self.slot.with(py, |index| index.status())?;
        let sources: serde_json::Map<String, Json> =
            status.sources.into_iter().map(|(name, count)| (name, count.into())).collect();
        let value = json!({
            "documents": status.documents,
            "partitions": status.partitions,
            "size_bytes": status.bytes,
            "log_bytes": status.log_bytes,
            "version": status.version,
            "dirty_partitions": status.dirty.len(),
            "dirty": status.dirty,
            "sources": sources,
        });
        json::to_python(py, &value)
    }

    fn _backup<'py>(&self, py: Python<'py>, to: PathBuf) -> Result<Bound<'py, PyAny>> {
        let backup = self.slot.with(py, |index| index.backup(&to))?;
        let value = json!({
            "segments": backup.log.segments,
            "kept_segments": backup.log.kept,
            "copied_segments": backup.log.copied,
            "partitions": backup.partitions,
        });
        json::to_python(py, &value)
    }

    fn _close(&self, py: Python<'_>) -> Result<()> {
        self.slot.close(py)
    }
}

fn open(
    path: &Path,
    schema: Option<Schema>,
    wanted: Option<Partitioning>,
    options: Options,
) -> firndb::Result<indexer::Indexer> {
    let (schema, wanted) = match (schema, wanted) {
        (Some(schema), Some(wanted)) => (schema, wanted),
        // What is not given stays as it is.
        (schema, wanted) => match indexer::Indexer::open_existing(path, options.clone()) {
            Ok(index) => {
                let is_same = schema.as_ref().is_none_or(|schema| schema == index.schema())
                    && wanted.as_ref().is_none_or(|wanted| wanted == index.partitioning());
                if is_same {
                    return Ok(index);
                }
                let schema = schema.unwrap_or_else(|| index.schema().clone());
                (schema, wanted.unwrap_or_else(|| index.partitioning().clone()))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => match schema {
                Some(schema) => {
                    (schema, wanted.unwrap_or_else(|| Partitioning::by_hash(PARTITIONS)))
                }
                None => return Err(e),
            },
            Err(e) => return Err(e),
        },
    };
    indexer::Indexer::open(path, schema, wanted, options)
}

/// How documents are assigned to partitions; `None` if nothing is given.
fn partitioning(field: Option<String>, partitions: Option<u32>) -> Option<Partitioning> {
    match (field, partitions) {
        (None, None) => None,
        (None, Some(n)) => Some(Partitioning::by_hash(n)),
        (Some(field), None) => Some(Partitioning::by_field(field)),
        (Some(field), Some(n)) => Some(Partitioning::by_field_and_hash(field, n)),
    }
}

fn publication(done: &Publication) -> Json {
    json!({
        "version": done.version,
        "rebuilt": done.rebuilt,
        "removed": done.removed,
        "documents": done.documents,
        "size_bytes": done.bytes,
    })
}

/// The effect of a feed or of single changes.
pub fn applied<'py>(py: Python<'py>, applied: &Applied) -> Result<Bound<'py, PyAny>> {
    let value = json!({
        "added": applied.added,
        "updated": applied.updated,
        "removed": applied.removed,
        "unchanged": applied.unchanged,
        "repeated": applied.repeated,
        "dirty": applied.dirty,
    });
    json::to_python(py, &value)
}
