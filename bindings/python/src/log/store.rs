//! `LogStore`.

use crate::arrow::capsule::{export_schema, export_stream};
use crate::arrow::keys::Keys;
use crate::arrow::stream;
use crate::arrow::values::{Values, ValuesBuilder};
use crate::bytes::{Form, to_bytes};
use crate::error::{Failure, Result};
use crate::gil::detached;
use crate::handle::Handle;
use crate::log::batch::Batch;
use crate::log::iter::{Part, RecordIter, Records};
use crate::log::options::{self, WriteArgs, datetime};
use crate::log::update;
use crate::log::{admin, pairs};
use crate::progress::Reporter;
use firndb::KeyRange;
use firndb::log::{self, Access, Durability, WriteOptions};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Length of a value from which on a put gives the GIL up: copying it takes longer than that.
const LONG_VALUE: usize = 32 << 10;

/// A log store, without what `firndb.LogStore` adds in Python.
#[pyclass(subclass, frozen, mapping, module = "firndb._native")]
pub struct LogStore {
    store: Handle<log::LogStore>,
    form: Form,
    path: PathBuf,
    mode: String,
    access: Access,
    is_read_only: AtomicBool,
    /// Whether writes that do not say otherwise wait for the disk.
    is_sync: bool,
    /// Where `popitem` continues its scan.
    pop_cursor: AtomicU64,
}

#[pymethods]
impl LogStore {
    #[new]
    #[pyo3(signature = (
        path, mode = "c", *, decode = false, ordered = false, durability = "os", access = "map",
        segment_bytes = None, compaction_threshold = None, compaction_rate = None,
        checkpoint_bytes = None, background = true
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        decode: bool,
        ordered: bool,
        durability: &str,
        access: &str,
        segment_bytes: Option<u64>,
        compaction_threshold: Option<f64>,
        compaction_rate: Option<u64>,
        checkpoint_bytes: Option<u64>,
        background: bool,
    ) -> Result<LogStore> {
        let (durability, access) =
            (options::of_durability(durability)?, options::of_access(access)?);
        let mut options = options::of_mode(mode)?.durability(durability).access(access);
        options = options.background(background).ordered(ordered);
        if let Some(bytes) = segment_bytes {
            options = options.segment_bytes(bytes);
        }
        if let Some(share) = compaction_threshold {
            options = options.compaction_threshold(share);
        }
        if let Some(rate) = compaction_rate {
            options = options.compaction_rate(rate);
        }
        if let Some(bytes) = checkpoint_bytes {
            options = options.checkpoint_bytes(bytes);
        }
        // A later change of the current directory does not matter.
        let path = std::path::absolute(&path).unwrap_or(path);
        let store = detached(py, || log::LogStore::open_with(&path, options))?;
        Ok(LogStore {
            store: Handle::new(store, "store"),
            form: Form { decode },
            path,
            mode: mode.to_string(),
            access,
            is_read_only: AtomicBool::new(mode == "r"),
            is_sync: durability == Durability::Sync,
            pop_cursor: AtomicU64::new(0),
        })
    }

    /// The value of a key; `default` if the key is absent or its record has expired.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.or(default))
    }

    /// The values of many keys, in their order. Faster than one call per key, and other threads run
    /// meanwhile.
    ///
    /// Args:
    ///     keys: an iterable of `bytes` and `str`, or Arrow data of binary or text: a
    ///         `pyarrow.Array`, a polars or pandas series, a table with one column. A null key is
    ///         absent.
    ///     default: what the list has for absent keys.
    ///     arrow: return an `Array`, with nulls for absent keys, in place of a list.
    ///
    /// >>> store = firndb.LogStore("fruits")
    /// >>> store.put_many({"apple": "red", "banana": "yellow"})
    /// 2
    /// >>> store.get_many(["banana", "cherry"])
    /// [b'yellow', None]
    /// >>> store.get_many(["banana", "cherry"], arrow=True)
    /// <firndb.Array of 2 large_binary values, 1 of them null>
    /// >>> store.close()
    #[pyo3(signature = (keys, default = None, *, arrow = false))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        arrow: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.store.get()?;
        give_many(py, keys, default, arrow, self.form, |keys: &Keys| {
            let mut values = ValuesBuilder::new(keys.len());
            keys.for_each_chunk(|chunk| {
                store.read_many(&chunk.keys, |position, record| {
                    let record = record.filter(|_| !chunk.is_null(position));
                    values.push(record.map(|record| record.value));
                    Ok(())
                })
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

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Result<()> {
        self.put_bytes(py, &to_bytes(key)?, &to_bytes(value)?, WriteOptions::new(), self.is_sync)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<()> {
        if self.delete(py, key, None)? { Ok(()) } else { Err(absent(key)) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<bool> {
        let key = to_bytes(key)?;
        if self.is_mapped() {
            return self.store.with(|store| store.contains(&key));
        }
        let store = self.store.get()?;
        detached(py, || store.contains(&key))
    }

    /// Number of keys. A key whose record has expired counts until a write or compaction removes
    /// the record.
    fn __len__(&self) -> Result<usize> {
        Ok(self.store.with(|store| Ok(store.len()))? as usize)
    }

    fn __iter__(&self, py: Python<'_>) -> Result<RecordIter> {
        self.parts(py, Part::Keys)
    }

    fn _iter_values(&self, py: Python<'_>) -> Result<RecordIter> {
        self.parts(py, Part::Values)
    }

    fn _iter_items(&self, py: Python<'_>) -> Result<RecordIter> {
        self.parts(py, Part::Items)
    }

    /// The items whose keys are not before `start` and before `end`, in the order of the keys, as
    /// they are now. The store must be ordered.
    ///
    /// Args:
    ///     start: the first key; by default the first of the store.
    ///     end: the key that ends the range, which is not part of it; by default none does.
    ///     reverse: begin with the last key.
    ///
    /// >>> store = firndb.LogStore("words", ordered=True)
    /// >>> store.put_many({"b": "2", "a": "1", "c": "3"})
    /// 3
    /// >>> list(store.range("b"))
    /// [(b'b', b'2'), (b'c', b'3')]
    /// >>> [key for key, _ in store.range(end="c", reverse=True)]
    /// [b'b', b'a']
    /// >>> store.close()
    #[pyo3(signature = (start = None, end = None, *, reverse = false))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<Bound<'_, PyAny>>,
        end: Option<Bound<'_, PyAny>>,
        reverse: bool,
    ) -> Result<RecordIter> {
        self.in_order(py, options::key_range(start, end)?, reverse)
    }

    /// The items whose keys begin with `prefix`: see `range`.
    ///
    /// >>> with firndb.LogStore("orders", ordered=True) as store:
    /// ...     store.put_many({"order/1": "a", "order/2": "b", "user/1": "c"})
    /// ...     [key for key, _ in store.prefix("order/")]
    /// 3
    /// [b'order/1', b'order/2']
    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(
        &self,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> Result<RecordIter> {
        self.in_order(py, KeyRange::prefix(to_bytes(prefix)?), reverse)
    }

    /// Sets the value of a key, like `store[key] = value`, with options.
    ///
    /// Args:
    ///     key: at most 65,536 bytes.
    ///     value: `bytes`, `str` or any buffer, at most 4 GiB.
    ///     ttl: time to live, in seconds or as a `timedelta`. Then the key counts as absent.
    ///     expiry: when the record expires, as a `datetime` with a time zone.
    ///     sync: whether to wait until the record survives power loss. By default as `durability`
    ///         of the store says.
    ///
    /// >>> store = firndb.LogStore("sessions")
    /// >>> store.put("session/7", "ann", ttl=3600)
    /// >>> store.expiry("session/7").tzinfo
    /// datetime.timezone.utc
    /// >>> store.close()
    #[pyo3(signature = (key, value, *, ttl = None, expiry = None, sync = None))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
    ) -> Result<()> {
        let options = WriteArgs { ttl, expiry, sync }.options()?;
        let (key, value) = (to_bytes(key)?, to_bytes(value)?);
        self.put_bytes(py, &key, &value, options, sync.unwrap_or(self.is_sync))
    }

    /// Deletes a key. Returns whether it was there.
    ///
    /// Args:
    ///     key: the key.
    ///     sync: whether to wait until the delete survives power loss.
    #[pyo3(signature = (key, *, sync = None))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, sync: Option<bool>) -> Result<bool> {
        let options = WriteArgs { sync, ..WriteArgs::default() }.options()?;
        let key = to_bytes(key)?;
        self.write(py, sync.unwrap_or(self.is_sync), |store| store.delete_with(&key, options))
    }

    #[pyo3(signature = (items, ttl, expiry, sync, report))]
    fn _put_many<'py>(
        &self,
        py: Python<'py>,
        items: &Bound<'py, PyAny>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
        report: Option<Py<PyAny>>,
    ) -> Result<u64> {
        let store = self.store.get()?;
        // One sync at the end makes all records durable.
        let options = WriteArgs { ttl, expiry, sync: Some(false) }.options()?;
        let reporter = Reporter::new(report);
        let count = pairs::put_all(&store, items, options, &reporter)?;
        if sync.unwrap_or(self.is_sync) {
            detached(py, || store.sync())?;
        }
        reporter.report_now(count, Some(count))?;
        Ok(count)
    }

    /// A batch of changes that are made together or not at all: see `Batch`.
    ///
    /// Args:
    ///     sync: whether writing the batch waits until it survives power loss.
    #[pyo3(signature = (*, sync = None))]
    fn batch(this: Bound<'_, Self>, sync: Option<bool>) -> Result<Batch> {
        let store = this.get();
        store.check_writable()?;
        let options = WriteArgs { sync, ..WriteArgs::default() }.options()?;
        Ok(Batch::new(this.unbind(), options))
    }

    #[pyo3(signature = (key, change, ttl, expiry, sync))]
    fn _update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        change: &Bound<'py, PyAny>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let sets_expiry = ttl.is_some() || expiry.is_some();
        let options = (WriteArgs { ttl, expiry, sync }.options()?, sets_expiry);
        let store = self.store.get()?;
        self.check_writable()?;
        update::update(py, &store, self.form, &to_bytes(key)?, change, options)
    }

    /// Sets the value of a key if it is `expected` now. Returns whether it did.
    ///
    /// Args:
    ///     key: the key.
    ///     expected: the value that the key must have; `None` if it must be absent.
    ///     new: the new value; `None` to delete the key.
    ///     ttl, expiry: as in `put`. By default the record keeps its expiry.
    ///     sync: as in `put`.
    #[pyo3(signature = (key, expected, new, *, ttl = None, expiry = None, sync = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn compare_and_set<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        expected: Option<&Bound<'py, PyAny>>,
        new: Option<&Bound<'py, PyAny>>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
    ) -> Result<bool> {
        let options = WriteArgs { ttl, expiry, sync }.options()?;
        let key = to_bytes(key)?;
        let [expected, new] = [expected, new].map(|value| value.map(to_bytes).transpose());
        let (expected, new) = (expected?, new?);
        let store = self.store.get()?;
        detached(py, || {
            store.compare_and_set_with(&key, expected.as_deref(), new.as_deref(), options)
        })
    }

    /// Appends bytes to the value of a key, which is empty if the key is absent. Returns the new
    /// length in bytes. The whole value is written again.
    ///
    /// Args:
    ///     key: the key.
    ///     value: the bytes to append.
    ///     ttl, expiry: as in `put`. By default the record keeps its expiry.
    ///     sync: as in `put`.
    #[pyo3(signature = (key, value, *, ttl = None, expiry = None, sync = None))]
    fn append<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
    ) -> Result<u64> {
        let options = WriteArgs { ttl, expiry, sync }.options()?;
        let (key, value) = (to_bytes(key)?, to_bytes(value)?);
        let store = self.store.get()?;
        detached(py, || store.append_with(&key, &value, options))
    }

    /// The value of a key, which is set to `default` first if the key is absent.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let (key, default) = (to_bytes(key)?, to_bytes(default)?);
        let store = self.store.get()?;
        let found = detached(py, || update::get_or_put(&store, &key, &default))?;
        Ok(self.form.object(py, found.as_deref().unwrap_or(&default))?)
    }

    /// Deletes a key and returns its value.
    ///
    /// Raises:
    ///     KeyError: the key is absent, and there is no `default`.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> Result<Bound<'py, PyAny>> {
        if default.len() > 1 {
            let message = "pop takes a key and at most one default";
            return Err(pyo3::exceptions::PyTypeError::new_err(message).into());
        }
        let (bytes, store) = (to_bytes(key)?, self.store.get()?);
        match detached(py, || update::take(&store, &bytes))? {
            Some(value) => Ok(self.form.object(py, &value)?),
            None => Ok(default.get_item(0).map_err(|_| PyErr::from(absent(key)))?),
        }
    }

    /// Deletes any key and returns it with its value. The keys come in no particular order.
    ///
    /// Raises:
    ///     KeyError: the store is empty.
    fn popitem<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        let store = self.store.get()?;
        self.check_writable()?;
        match detached(py, || update::take_any(&store, &self.pop_cursor))? {
            Some((key, value)) => {
                let form = self.form;
                Ok(PyTuple::new(py, [form.object(py, &key)?, form.object(py, &value)?])?)
            }
            None => Err(PyKeyError::new_err("popitem(): the store is empty").into()),
        }
    }

    /// Deletes all keys that exist at the time of the call, in several steps. Keys that other
    /// threads put meanwhile may stay.
    fn clear(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get()?;
        self.check_writable()?;
        let mut keys = store.iter();
        while detached(py, || update::delete_some(&store, &mut keys))? {
            py.check_signals()?;
        }
        Ok(())
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
        export_stream(py, stream::of_log(self.iter(py)?, self.form)?)
    }

    /// The schema of the stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema(py, &*stream::log_schema(self.form)?)
    }

    /// When the record of a key expires, as a `datetime` in UTC, with milliseconds; `None` if it
    /// does not.
    ///
    /// Raises:
    ///     KeyError: the key is absent or its record has expired.
    fn expiry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let (bytes, store) = (to_bytes(key)?, self.store.get()?);
        let expiry = detached(py, || store.expiry(&bytes))?;
        datetime(py, expiry.ok_or_else(|| absent(key))?)
    }

    #[pyo3(signature = (key, ttl, expiry, sync))]
    fn _set_expiry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ttl: Option<Bound<'py, PyAny>>,
        expiry: Option<Bound<'py, PyAny>>,
        sync: Option<bool>,
    ) -> Result<bool> {
        let mut options = WriteArgs { ttl: ttl.clone(), expiry: expiry.clone(), sync }.options()?;
        if ttl.is_none() && expiry.is_none() {
            options = options.expiry(log::Expiry::Never);
        }
        let (key, store) = (to_bytes(key)?, self.store.get()?);
        self.check_writable()?;
        detached(py, || store.set_expiry_with(&key, options))
    }

    /// Shows what another process wrote since the store was opened or refreshed. Returns whether
    /// there was anything. Only for a store that is open for reading; one that is open for writing
    /// is always up to date.
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        let store = self.store.get()?;
        detached(py, || store.refresh())
    }

    /// Makes a store that is open for reading the writer, if no other process or handle is: for a
    /// standby that takes over. Everything that the last writer acknowledged is there. Takes
    /// milliseconds if little was written since the last `refresh`. Does nothing if the store is
    /// open for writing already. `LockedError` while there is another writer: try again.
    fn promote(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get()?;
        detached(py, || store.promote())?;
        self.is_read_only.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Makes every write before this call durable: it survives power loss.
    fn sync(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get()?;
        detached(py, || store.sync())
    }

    /// Copies the live records of every segment of which at least `threshold` (0 to 1) is stale,
    /// and removes those segments; 0 rewrites the whole store. Returns the number of segments.
    /// Reading and writing continue meanwhile.
    #[pyo3(signature = (threshold = 0.1))]
    fn compact(&self, py: Python<'_>, threshold: f64) -> Result<usize> {
        if !(0.0..=1.0).contains(&threshold) {
            return Err(
                PyValueError::new_err(format!("threshold is {threshold}; give 0 to 1")).into()
            );
        }
        let store = self.store.get()?;
        detached(py, || store.compact(threshold))
    }

    /// Does one step of maintenance, if one is due, and returns whether it did. For a store that
    /// was opened with `background=False`.
    fn maintain(&self, py: Python<'_>) -> Result<bool> {
        let store = self.store.get()?;
        detached(py, || store.maintain())
    }

    /// Stops compaction in the background after the current record.
    fn pause_compaction(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get()?;
        detached(py, || {
            store.pause_compaction();
            Ok(())
        })
    }

    /// Lets compaction in the background continue.
    fn resume_compaction(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get()?;
        detached(py, || {
            store.resume_compaction();
            Ok(())
        })
    }

    fn _stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let store = self.store.get()?;
        admin::stats(py, &store)
    }

    fn _backup<'py>(&self, py: Python<'py>, to: PathBuf) -> Result<Bound<'py, PyDict>> {
        let store = self.store.get()?;
        admin::backup(py, &store, to)
    }

    fn _verify<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let store = self.store.get()?;
        crate::json::to_python(py, &detached(py, || store.verify())?)
    }

    /// The directory of the store, as an absolute path.
    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// The mode in which the store was opened.
    #[getter]
    fn mode(&self) -> &str {
        &self.mode
    }

    /// Whether keys and values are returned as `str`.
    #[getter]
    fn decode(&self) -> bool {
        self.form.decode
    }

    #[getter]
    fn _access(&self) -> &'static str {
        if self.access == Access::Buffered { "buffered" } else { "map" }
    }

    /// Whether the store is open for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    /// Whether the keys can be read in their order.
    #[getter]
    fn ordered(&self) -> Result<bool> {
        self.store.with(|store| Ok(store.is_ordered()))
    }

    /// Whether the store was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Closes the store: makes everything durable, releases the lock and ends the threads of the
    /// store. Calls of other threads that have begun end as usual. May be called again.
    ///
    /// In a forked child this only closes the child's handle.
    fn close(&self, py: Python<'_>) -> Result<()> {
        match self.store.take() {
            Some(store) => detached(py, || store.close()),
            None => Ok(()),
        }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        // Closing waits for the disk.
        if let Some(store) = self.store.take() {
            let mut store = Some(store);
            Python::try_attach(|py| py.detach(|| drop(store.take())));
        }
    }
}

impl LogStore {
    pub fn handle(&self) -> &Handle<log::LogStore> {
        &self.store
    }

    /// Whether records are read through memory maps.
    pub fn is_mapped(&self) -> bool {
        self.access == Access::Map
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// The value of a key. Keeps the GIL for mapped records: giving it up takes longer than a get.
    #[inline]
    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let (key, form) = (to_bytes(key)?, self.form);
        if !self.is_mapped() {
            let store = self.store.get()?;
            let value = detached(py, || store.get(&key))?;
            return Ok(value.map(|value| form.object(py, &value)).transpose()?);
        }
        let read = |value: &[u8]| form.object_or_bytes(py, value);
        match self.store.with(|store| store.get_with(&key, read))? {
            None => Ok(None),
            Some(Ok(object)) => Ok(Some(object)),
            // Makes the exception, which may run Python code, without locks.
            Some(Err(bytes)) => Ok(Some(form.object(py, &bytes)?)),
        }
    }

    #[inline]
    fn put_bytes(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
        is_sync: bool,
    ) -> Result<()> {
        let waits = is_sync || value.len() >= LONG_VALUE;
        self.write(py, waits, |store| store.put_with(key, value, options))
    }

    /// A write, without the GIL if it waits for the disk or for maintenance.
    #[inline]
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        waits: bool,
        write: impl Fn(&log::LogStore) -> firndb::Result<T> + Send + Sync,
    ) -> Result<T> {
        if !waits {
            let done = self.store.with(|store| match store.has_backpressure() {
                true => Ok(None),
                false => write(store).map(Some),
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        let store = self.store.get()?;
        detached(py, || write(&store))
    }

    /// The records as they are now.
    pub fn iter(&self, py: Python<'_>) -> Result<log::Iter<'static>> {
        let store = self.store.get()?;
        detached(py, || Ok(store.iter()))
    }

    /// The records as they are now, in the order of the keys if the store is ordered.
    pub fn records(&self, py: Python<'_>) -> Result<Records> {
        if !self.store.with(|store| Ok(store.is_ordered()))? {
            return Ok(Records::InLog(self.iter(py)?));
        }
        let store = self.store.get()?;
        Ok(Records::InOrder(detached(py, || store.range(..))?))
    }

    fn parts(&self, py: Python<'_>, part: Part) -> Result<RecordIter> {
        Ok(RecordIter::new(self.records(py)?, part, self.form))
    }

    /// The items of a range, in the order of their keys.
    fn in_order(&self, py: Python<'_>, range: KeyRange, reverse: bool) -> Result<RecordIter> {
        let store = self.store.get()?;
        let records = detached(py, || {
            let records = store.range(range)?;
            Ok(if reverse { records.reversed() } else { records })
        })?;
        Ok(RecordIter::new(Records::InOrder(records), Part::Items, self.form))
    }

    /// An error unless the store is open for writing: for calls that otherwise notice it late.
    fn check_writable(&self) -> Result<()> {
        self.store.with(|_| Ok(()))?;
        if !self.read_only() {
            return Ok(());
        }
        let error = firndb::Error::invalid("the store is open for reading only");
        Err(error.in_file(&self.path).into())
    }
}

/// The exception for an absent key.
#[cold]
pub fn absent(key: &Bound<'_, PyAny>) -> Failure {
    PyKeyError::new_err((key.clone().unbind(),)).into()
}

/// What `get_many` returns.
pub fn give_many<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    default: Option<Bound<'py, PyAny>>,
    arrow: bool,
    form: Form,
    read: impl FnOnce(&Keys) -> firndb::Result<Values> + Send,
) -> Result<Bound<'py, PyAny>> {
    if arrow && default.is_some() {
        let message = "an Arrow array has nulls for absent keys: give no default";
        return Err(PyValueError::new_err(message).into());
    }
    let keys = Keys::of(keys)?;
    let values = detached(py, || read(&keys))?;
    if arrow {
        return Ok(values.into_array(py, form)?.into_pyobject(py)?.into_any());
    }
    let default = default.unwrap_or_else(|| py.None().into_bound(py));
    Ok(values.into_list(py, form, &default)?.into_any())
}
