//! Results of catalogs as dictionaries, which `_catalog.py` makes objects of.

use crate::error::Result;
use crate::json;
use firndb::catalog::{Cleaned, Diff, Published, Staged, Version};
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

fn version_json(version: &Version) -> Json {
    let files = version.files.iter().map(|file| {
        json!({
            "name": file.name,
            "size_bytes": file.bytes,
            "content": file.content,
            "blake3": file.blake3,
            "since": file.since,
        })
    });
    json!({
        "name": version.name,
        "number": version.number,
        "id": version.id,
        "parent": version.parent,
        "parent_id": version.parent_id,
        "restores": version.restores,
        "published_micros": version.time,
        "kind": version.kind.name(),
        "schema": version.schema,
        "statistics": version.statistics,
        "labels": version.labels,
        "files": files.collect::<Vec<_>>(),
        "size_bytes": version.bytes(),
    })
}

pub fn version<'py>(py: Python<'py>, version: &Version) -> Result<Bound<'py, PyAny>> {
    json::to_python(py, &version_json(version))
}

pub fn published_json(published: &Published) -> Json {
    json!({
        "version": version_json(&published.version),
        "sent_files": published.files_sent,
        "sent_bytes": published.bytes_sent,
        "repaired_files": published.files_repaired,
    })
}

pub fn published<'py>(py: Python<'py>, published: Option<&Published>) -> Result<Bound<'py, PyAny>> {
    json::to_python(py, &published.map(published_json))
}

pub fn staged<'py>(py: Python<'py>, staged: &Staged) -> Result<Bound<'py, PyAny>> {
    let value = json!({
        "text": staged.to_string(),
        "name": staged.name(),
        "object": staged.object(),
        "file_name": staged.file_name(),
        "size_bytes": staged.bytes(),
        "blake3": staged.blake3(),
        "kind": staged.kind().name(),
        "records": staged.records(),
        "schema": staged.schema(),
    });
    json::to_python(py, &value)
}

pub fn cleaned<'py>(py: Python<'py>, cleaned: &Cleaned) -> Result<Bound<'py, PyAny>> {
    let value = json!({
        "versions": cleaned.versions,
        "files": cleaned.files,
        "removed_bytes": cleaned.bytes,
        "staged_files": cleaned.staged,
    });
    json::to_python(py, &value)
}

pub fn diff<'py>(py: Python<'py>, diff: &Diff) -> Result<Bound<'py, PyAny>> {
    let changes = diff.changes.iter().map(|change| {
        json!({
            "name": change.name,
            "before_bytes": change.before,
            "after_bytes": change.after,
        })
    });
    let value = json!({
        "changes": changes.collect::<Vec<_>>(),
        "kept_files": diff.files_kept,
        "kept_bytes": diff.bytes_kept,
        "new_bytes": diff.bytes_new,
    });
    json::to_python(py, &value)
}
