//! `CatalogReader`.

use super::generation::Generation;
use super::interrupt::run;
use super::origin::Switch;
use super::store::Catalog;
use crate::error::Result;
use crate::gil::detached;
use crate::handle::Handle;
use crate::json;
use crate::table::handle::access_of;
use firndb::catalog::{CatalogReader as Core, ReaderOptions};
use firndb::table::Access;
use firndb::{Error, ErrorKind};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::process;
use std::sync::{Mutex, PoisonError};

/// The reader of a name, without what `firndb.CatalogReader` adds in Python.
#[pyclass(subclass, frozen, weakref, module = "firndb._native")]
pub struct CatalogReader {
    reader: Handle<Core>,
    /// Ends calls of the reader early: after Ctrl-C, and when it is closed.
    switch: Switch,
    /// The current generation as an object, so that `current` returns the same one.
    current: Mutex<Option<Py<Generation>>>,
    access: Access,
    name: String,
    cache_dir: PathBuf,
    process: u32,
}

#[pymethods]
impl CatalogReader {
    #[new]
    #[pyo3(signature = (
        catalog, name, cache_dir, *, version = None, access = "map", warm = None,
        bundle_limit_bytes = None, cache_bytes = None, threads = 8
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of a function in Python")]
    fn new(
        py: Python<'_>,
        catalog: &Catalog,
        name: String,
        cache_dir: PathBuf,
        version: Option<u64>,
        access: &str,
        warm: Option<bool>,
        bundle_limit_bytes: Option<u64>,
        cache_bytes: Option<u64>,
        threads: usize,
    ) -> Result<CatalogReader> {
        let access = access_of(access)?;
        let mut options = ReaderOptions::new().version(version).access(access).warm(warm);
        if let Some(bytes) = bundle_limit_bytes {
            options = options.bundle_limit(bytes);
        }
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let options = options.threads(threads.max(1));
        let switch = Switch::default();
        let catalog = catalog.switched(&switch);
        let reader = run(py, &switch, None, |_| catalog.reader(&name, &cache_dir, options))?;
        Ok(CatalogReader {
            reader: Handle::new(reader, "reader"),
            switch,
            current: Mutex::new(None),
            access,
            name,
            cache_dir,
            process: process::id(),
        })
    }

    /// The name that the reader follows.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the reader's files.
    #[getter]
    fn cache_dir(&self) -> String {
        self.cache_dir.to_string_lossy().into_owned()
    }

    /// Whether the reader is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.reader.is_closed()
    }

    /// The open version, as a `Generation`. Never waits. It stays open as long as it is held, even
    /// if the reader switches to another version meanwhile: use one generation for one request.
    ///
    /// Raises:
    ///     ValueError: the reader is closed.
    #[getter]
    fn current(&self, py: Python<'_>) -> Result<Py<Generation>> {
        let open = self.reader.with(|reader| Ok(reader.current()))?;
        let lock = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = &*lock()
            && current.get().is(&open)
        {
            return Ok(current.clone_ref(py));
        }
        // Made and dropped without the lock, because both can run Python code.
        let current = Py::new(py, Generation::new(open, self.access))?;
        let old = lock().replace(current.clone_ref(py));
        drop(old);
        Ok(current)
    }

    /// Switches to the newest version, if there is a newer one than the open one: fetches its
    /// files, checks every byte, opens it next to the open one, and only then switches. Runs
    /// without the GIL.
    ///
    /// Returns:
    ///     whether the reader has switched.
    ///
    /// Raises:
    ///     FirnError: the newest version cannot be fetched or opened. The open version stays in
    ///         use, and the next call tries again.
    ///     ValueError: the reader is closed.
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        self.check_process()?;
        let reader = self.reader.get()?;
        let switched = run(py, &self.switch, None, |_| reader.refresh());
        if self.reader.is_closed() {
            // Closed meanwhile: the error that the call ended with is of no interest.
            self.reader.get()?;
        }
        if switched.is_err() {
            // Ctrl-C has turned it off, and the reader can go on.
            self.switch.set(self.reader.is_closed());
        }
        let switched = switched?;
        if switched {
            let old = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(old);
        }
        Ok(switched)
    }

    fn _stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.check_process()?;
        let reader = self.reader.get()?;
        // Waits for a moment if a refresh counts.
        let (stats, age) = detached(py, || {
            let stats = reader.stats();
            let age = stats.swap_age();
            Ok((stats, age))
        })?;
        let value = json::to_python(py, &stats)?;
        value.set_item("swap_age_seconds", age)?;
        Ok(value)
    }

    /// Lets calls of the reader end soon, with an error. For the exit of the interpreter.
    fn _interrupt(&self) {
        self.switch.set(true);
    }

    fn _close(&self, py: Python<'_>) -> Result<()> {
        // Off first, so that a refresh in another thread ends soon.
        if self.process == process::id() {
            self.switch.set(true);
        }
        let reader = self.reader.take();
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(current);
        detached(py, || {
            drop(reader);
            Ok(())
        })
    }
}

impl CatalogReader {
    /// The locks of a reader may be held by threads that a forked child does not have.
    fn check_process(&self) -> Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let message = "this is a forked child of the process that opened the reader, and may only \
                       use its open version: open a reader with another directory after the fork";
        Err(Error::new(ErrorKind::Failed, message).in_file(&self.cache_dir).into())
    }
}
