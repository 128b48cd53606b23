//! `Batch`.

use crate::bytes::to_bytes;
use crate::error::Result;
use crate::gil::detached;
use crate::log::options::{WriteArgs, duration, expiry};
use crate::log::pairs::for_each_pair;
use crate::log::store::LogStore;
use firndb::log;
use firndb::log::WriteOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes of a log store that are made together or not at all, also across a crash:
/// `LogStore.batch()` makes one.
///
/// As a context manager it writes the changes at the end of the block, and nothing if the block
/// raises an exception. A key that is changed twice gets the later change.
///
/// >>> store = firndb.LogStore("accounts")
/// >>> with store.batch() as batch:
/// ...     batch["ann"] = "70"
/// ...     batch["bob"] = "30"
/// ...     del batch["carol"]
/// >>> len(store)
/// 2
/// >>> store.close()
#[pyclass(frozen, module = "firndb")]
pub struct Batch {
    store: Py<LogStore>,
    options: WriteOptions,
    /// The changes; `None` once they are written or discarded. Locked only by threads that hold
    /// the GIL, and never while Python code runs.
    changes: Mutex<Option<log::Batch>>,
}

impl Batch {
    pub fn new(store: Py<LogStore>, options: WriteOptions) -> Batch {
        Batch { store, options, changes: Mutex::new(Some(log::Batch::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<log::Batch>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut log::Batch) -> T) -> Result<T> {
        let changed = self.lock().as_mut().map(change);
        changed.ok_or_else(|| PyValueError::new_err("the batch is written or discarded").into())
    }
}

#[pymethods]
impl Batch {
    /// Sets the value of a key.
    ///
    /// Args:
    ///     key: at most 65,536 bytes.
    ///     value: `bytes`, `str` or any buffer.
    ///     ttl: time to live from the moment at which the batch is written, in seconds or as a
    ///         `timedelta`.
    ///     expiry: when the record expires, as a `datetime` with a time zone.
    #[pyo3(signature = (key, value, *, ttl = None, expiry = None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<Bound<'_, PyAny>>,
        expiry: Option<Bound<'_, PyAny>>,
    ) -> Result<()> {
        let (key, value) = (to_bytes(key)?, to_bytes(value)?);
        match (ttl, expiry) {
            (None, None) => self.change(|batch| batch.push_put(key, value)),
            (Some(ttl), None) => {
                let ttl = duration(&ttl)?;
                self.change(|batch| *batch = take(batch).put_ttl(key, value, ttl))
            }
            (None, Some(time)) => {
                let time = self::expiry(&time)?;
                self.change(|batch| *batch = take(batch).put_expiring(key, value, time))
            }
            (ttl, expiry) => WriteArgs { ttl, expiry, sync: None }.options().map(|_| ()),
        }
    }

    /// Deletes a key. Has no effect if the key is absent when the batch is written.
    fn delete(&self, key: &Bound<'_, PyAny>) -> Result<()> {
        let key = to_bytes(key)?;
        self.change(|batch| batch.push_delete(key))
    }

    /// Puts all items of a mapping or an iterable of pairs.
    fn update(&self, items: &Bound<'_, PyAny>) -> Result<()> {
        for_each_pair(items, |key, value| self.__setitem__(key, value))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<()> {
        self.put(key, value, None, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> Result<()> {
        self.delete(key)
    }

    /// Number of changes that wait to be written.
    fn __len__(&self) -> usize {
        self.lock().as_ref().map_or(0, log::Batch::len)
    }

    fn __bool__(&self) -> bool {
        self.__len__() > 0
    }

    /// Removes all changes from the batch.
    fn clear(&self) -> Result<()> {
        self.change(log::Batch::clear)
    }

    /// Writes the changes. The batch cannot be used again, unless this raises an exception: then
    /// nothing was written, and the changes are kept.
    fn commit(&self, py: Python<'_>) -> Result<()> {
        let store = self.store.get().handle().get()?;
        let batch = self.lock().take();
        let Some(batch) = batch else { return self.change(|_| ()) };
        if batch.is_empty() {
            return Ok(());
        }
        let written = detached(py, || store.write_with(&batch, self.options));
        if written.is_err() {
            *self.lock() = Some(batch);
        }
        written
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let _ = (exc, traceback);
        if exc_type.is_none() && self.lock().is_some() {
            return self.commit(py);
        }
        self.lock().take();
        Ok(())
    }

    fn __repr__(&self) -> String {
        match &*self.lock() {
            Some(batch) => format!("<firndb.Batch of {} changes>", batch.len()),
            None => "<firndb.Batch, written or discarded>".to_string(),
        }
    }
}
