//! `Snapshot`.

use crate::arrow::capsule::{export_schema, export_stream};
use crate::arrow::keys::Keys;
use crate::arrow::stream;
use crate::arrow::values::ValuesBuilder;
use crate::bytes::{Form, to_bytes};
use crate::error::Result;
use crate::gil::detached;
use crate::handle::Handle;
use crate::log::iter::{Part, RecordIter, Records};
use crate::log::options::{datetime, key_range};
use crate::log::store::{LogStore, absent, give_many};
use firndb::KeyRange;
use firndb::log;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, OnceLock};

/// A log store at one moment, without what `firndb.Snapshot` adds in Python.
#[pyclass(subclass, frozen, mapping, module = "firndb._native")]
pub struct Snapshot {
    view: Handle<Arc<log::Snapshot>>,
    form: Form,
    is_mapped: bool,
    /// Number of keys, once it was counted.
    len: OnceLock<usize>,
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(py: Python<'_>, store: &LogStore) -> Result<Snapshot> {
        let open = store.handle().get()?;
        let (view, is_mapped) =
            (detached(py, || Ok(Arc::new(open.snapshot())))?, store.is_mapped());
        Ok(Snapshot {
            view: Handle::new(view, "snapshot"),
            form: store.form(),
            is_mapped,
            len: OnceLock::new(),
        })
    }

    /// The value of a key; `default` if it was absent.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.or(default))
    }

    /// The values of many keys, in their order: see `LogStore.get_many`.
    #[pyo3(signature = (keys, default = None, *, arrow = false))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        arrow: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let view = self.view.get()?;
        give_many(py, keys, default, arrow, self.form, |keys: &Keys| {
            let mut values = ValuesBuilder::new(keys.len());
            keys.for_each_chunk(|chunk| {
                for (position, value) in view.get_many(&chunk.keys)?.into_iter().enumerate() {
                    values.push(value.as_deref().filter(|_| !chunk.is_null(position)));
                }
                Ok(())
            })?;
            Ok(values.finish())
        })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        self.find(py, key)?.ok_or_else(|| absent(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<bool> {
        let key = to_bytes(key)?;
        self.read(py, |view| view.contains(&key))
    }

    /// Number of keys. The first call counts them, in one pass over the store.
    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        let view = self.view.get()?;
        if let Some(&len) = self.len.get() {
            return Ok(len);
        }
        let len = detached(py, || view.keys().try_fold(0, |count, key| key.map(|_| count + 1)))?;
        Ok(*self.len.get_or_init(|| len))
    }

    fn __iter__(&self) -> Result<RecordIter> {
        self.parts(Part::Keys)
    }

    fn _iter_values(&self) -> Result<RecordIter> {
        self.parts(Part::Values)
    }

    fn _iter_items(&self) -> Result<RecordIter> {
        self.parts(Part::Items)
    }

    /// The items whose keys are not before `start` and before `end`, in the order of the keys: see
    /// `LogStore.range`.
    #[pyo3(signature = (start = None, end = None, *, reverse = false))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<Bound<'_, PyAny>>,
        end: Option<Bound<'_, PyAny>>,
        reverse: bool,
    ) -> Result<RecordIter> {
        self.in_order(py, key_range(start, end)?, reverse)
    }

    /// The items whose keys begin with `prefix`: see `LogStore.prefix`.
    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(
        &self,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> Result<RecordIter> {
        self.in_order(py, KeyRange::prefix(to_bytes(prefix)?), reverse)
    }

    /// The records as a stream of Arrow record batches with the columns `key`, `value` and
    /// `expires_at`, as they were when the stream was made. Every call begins a new stream.
    /// `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        export_stream(py, stream::of_log(self.iter()?, self.form)?)
    }

    /// The schema of the stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema(py, &*stream::log_schema(self.form)?)
    }

    /// When the record of a key expires, as a `datetime` in UTC; `None` if it does not.
    ///
    /// Raises:
    ///     KeyError: the key was absent.
    fn expiry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let bytes = to_bytes(key)?;
        let expiry = self.read(py, |view| view.expiry(&bytes))?;
        datetime(py, expiry.ok_or_else(|| absent(key))?)
    }

    /// Ends the snapshot: the store may remove what only this snapshot shows. May be called again.
    fn close(&self, py: Python<'_>) {
        let view = self.view.take();
        py.detach(|| drop(view));
    }

    /// Whether the snapshot was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.view.is_closed()
    }
}

impl Snapshot {
    /// The records.
    pub fn iter(&self) -> Result<log::Iter<'static>> {
        self.view.with(|view| Ok(view.iter_shared()))
    }

    /// The records, in the order of the keys if the store is ordered.
    pub fn records(&self) -> Result<Records> {
        match self.view.with(|view| Ok(view.is_ordered()))? {
            true => Ok(Records::InOrder(self.view.get()?.range_shared(KeyRange::from(..))?)),
            false => Ok(Records::InLog(self.iter()?)),
        }
    }

    fn parts(&self, part: Part) -> Result<RecordIter> {
        Ok(RecordIter::new(self.records()?, part, self.form))
    }

    /// The items of a range, in the order of their keys.
    fn in_order(&self, py: Python<'_>, range: KeyRange, reverse: bool) -> Result<RecordIter> {
        let view = self.view.get()?;
        let records = detached(py, || {
            let records = view.range_shared(range)?;
            Ok(if reverse { records.reversed() } else { records })
        })?;
        Ok(RecordIter::new(Records::InOrder(records), Part::Items, self.form))
    }

    /// A read of one record: without the GIL if it is a call of the operating system.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl Fn(&log::Snapshot) -> firndb::Result<T> + Sync,
    ) -> Result<T> {
        if self.is_mapped {
            return self.view.with(|view| read(view));
        }
        let view = self.view.get()?;
        detached(py, || read(&view))
    }

    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let key = to_bytes(key)?;
        let value = self.read(py, |view| view.get(&key))?;
        Ok(value.map(|value| self.form.object(py, &value)).transpose()?)
    }
}
