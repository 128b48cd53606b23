//! Builds a new collection: all of it, or nothing.

use crate::error::Result;
use crate::gil::detached;
use crate::search::load::{Options, Report, load};
use crate::search::schema::Schema;
use crate::search::task::{self, Task};
use firndb::search::{Collection, Reader};
use firndb_ingest::Parts;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Builds a collection in the directory `path`, which is missing or empty.
#[pyfunction]
pub fn build_collection(
    py: Python<'_>,
    kind: &str,
    source: &Bound<'_, PyAny>,
    schema: Option<Schema>,
    path: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> Result<Report> {
    detached(py, || Collection::check_free(&path))?; // Fails before any row is read.
    let schema = schema.map(|schema| schema.schema);
    let (parts, report) = load(py, kind, source, schema, &path, &options, progress)?;
    task::run(py, None, |task| publish(task, &path, parts))?;
    Ok(report)
}

/// Publishes the partitions in one change. On failure the collection is removed again, but no file
/// of another program in its directory.
fn publish(task: &Task, dir: &Path, parts: Parts) -> firndb::Result<()> {
    let dir_existed = dir.exists();
    let created = Collection::create(dir)?;
    let result = fill(task, &created, parts);
    // Reports the first error; what cannot be removed does no harm.
    if result.is_err() && created.withdraw().is_ok_and(|was_new| was_new && !dir_existed) {
        let _ = std::fs::remove_dir(dir);
    }
    result.map(|_| ())
}

fn fill(task: &Task, collection: &Collection, parts: Parts) -> firndb::Result<Reader> {
    let mut change = collection.change()?;
    parts.put_all(&mut change, || task.check())?;
    change.commit()
}
