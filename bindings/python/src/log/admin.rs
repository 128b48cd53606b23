//! Statistics, backup, restore and repair.

use crate::error::Result;
use crate::gil::detached;
use crate::json::to_python;
use crate::progress::Reporter;
use firndb::log::LogStore;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// The statistics of a store as dictionaries.
pub fn stats<'py>(py: Python<'py>, store: &LogStore) -> Result<Bound<'py, PyAny>> {
    to_python(py, &detached(py, || Ok(store.stats()))?)
}

/// Makes or updates a backup.
pub fn backup<'py>(py: Python<'py>, store: &LogStore, to: PathBuf) -> Result<Bound<'py, PyDict>> {
    let made = detached(py, || store.backup(to))?;
    let report = PyDict::new(py);
    report.set_item("segments", made.segments)?;
    report.set_item("kept", made.kept)?;
    report.set_item("copied", made.copied)?;
    Ok(report)
}

/// Makes a store from a backup.
#[pyfunction]
#[pyo3(name = "_log_restore")]
pub fn restore(py: Python<'_>, source: PathBuf, to: PathBuf) -> Result<Bound<'_, PyDict>> {
    let made = detached(py, || LogStore::restore(source, to))?;
    let report = PyDict::new(py);
    report.set_item("keys", made.keys)?;
    report.set_item("records", made.records)?;
    report.set_item("segments", made.segments)?;
    report.set_item("disk_bytes", made.bytes)?;
    Ok(report)
}

/// Copies the intact records of a store into a new one, or only reports them if `to` is `None`.
#[pyfunction]
#[pyo3(name = "_log_repair", signature = (source, to, report))]
pub fn repair(
    py: Python<'_>,
    source: PathBuf,
    to: Option<PathBuf>,
    report: Option<Py<PyAny>>,
) -> Result<Bound<'_, PyDict>> {
    let reporter = Reporter::new(report);
    let mut raised = None;
    let progress = |done, total| {
        // The repair cannot be stopped: its caller learns of an exception at the end.
        if raised.is_none() {
            raised = reporter.report(done, Some(total)).err();
        }
    };
    let found = detached(py, || match to {
        Some(to) => LogStore::repair_with(source, to, progress),
        None => LogStore::repair_dry_run(source, progress),
    })?;
    if let Some(failure) = raised {
        return Err(failure);
    }
    let report = PyDict::new(py);
    report.set_item("keys", found.keys)?;
    report.set_item("records", found.records)?;
    report.set_item("dropped", found.dropped)?;
    Ok(report)
}
