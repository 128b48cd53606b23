//! Collections: directories of partitions, and partition files of their own.

use crate::error::Result;
use crate::gil::detached;
use crate::handle::Handle;
use crate::search::change::{Change, check_process};
use crate::search::query::{duration, number};
use crate::search::reader::CollectionReader;
use crate::search::task;
use firndb::search::{self, Merge, MergePolicy, Reader};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// The native part of `firndb.Collection`.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Collection {
    source: Handle<Source>,
    threads: usize,
    /// The process that opened the collection.
    process: u32,
}

#[derive(Clone)]
enum Source {
    Directory(Arc<search::Collection>, PathBuf),
    /// Partition files that belong to no collection.
    Files(Reader),
}

/// A path, or several.
#[derive(FromPyObject)]
enum Paths {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

#[pymethods]
impl Collection {
    #[new]
    #[pyo3(signature = (path, *, threads = 1))]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>, threads: usize) -> Result<Collection> {
        let paths: Paths = path.extract().map_err(|_| {
            PyTypeError::new_err("a path is a str or os.PathLike, or a list of partition files")
        })?;
        let source = detached(py, || {
            Ok(match paths {
                Paths::One(path) if path.is_file() => Source::Files(Reader::open_files(&[path])?),
                Paths::One(path) => {
                    Source::Directory(Arc::new(search::Collection::open(&path)?), path)
                }
                Paths::Many(paths) => Source::Files(Reader::open_files(&paths)?),
            })
        })?;
        let source = Handle::new(source, "collection");
        Ok(Collection { source, threads, process: std::process::id() })
    }

    /// The current version.
    fn _reader(&self) -> Result<CollectionReader> {
        let reader = self.source.with(|source| {
            Ok(match source {
                Source::Directory(collection, _) => collection.reader(),
                Source::Files(reader) => reader.clone(),
            })
        })?;
        let reader = if self.threads > 1 { reader.with_threads(self.threads) } else { reader };
        Ok(CollectionReader { reader })
    }

    fn __len__(&self) -> Result<usize> {
        Ok(self._reader()?.reader.len() as usize)
    }

    /// The number of the version that this handle reads. Each change increments it. 0 for partition
    /// files.
    #[getter]
    fn version(&self) -> Result<u64> {
        self.source.with(|source| {
            Ok(match source {
                Source::Directory(collection, _) => collection.version(),
                Source::Files(_) => 0,
            })
        })
    }

    /// Switches to the newest version, which another process may have committed.
    ///
    /// Returns:
    ///     Whether there was a newer version.
    ///
    /// Raises:
    ///     FailedError: an older copy was restored to the directory; open it again.
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        match self.source.get()? {
            Source::Directory(collection, _) => detached(py, || collection.refresh()),
            Source::Files(_) => Ok(false),
        }
    }

    /// Closes the collection. Hits, readers and iterators stay usable. Closing twice does nothing.
    fn close(&self, py: Python<'_>) {
        let source = self.source.take();
        py.detach(|| drop(source)); // Unmapping many files takes a while.
    }

    /// Whether the collection was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.source.is_closed()
    }

    /// Begins a change. Nothing is locked until it is committed.
    fn _change(&self, py: Python<'_>) -> Result<Change> {
        let (collection, dir) = self.directory()?;
        detached(py, || collection.check_changeable())?;
        Ok(Change::new(collection, dir))
    }

    /// Merges small partitions; returns names of old ones, of the new one, and its documents.
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn _compact(
        &self,
        py: Python<'_>,
        small: Option<&Bound<'_, PyAny>>,
        most_documents: Option<&Bound<'_, PyAny>>,
        most_bytes: Option<&Bound<'_, PyAny>>,
        at_least: Option<&Bound<'_, PyAny>>,
        unchanged_for: Option<&Bound<'_, PyAny>>,
        dry_run: bool,
    ) -> Result<Vec<(Vec<String>, String, u64)>> {
        let (collection, _) = self.directory()?;
        let mut policy = MergePolicy::default();
        let documents = |object, name| -> Result<Option<u32>> {
            Ok(number(object, name)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
        };
        policy.small = documents(small, "small")?.unwrap_or(policy.small);
        policy.most_documents =
            documents(most_documents, "most_documents")?.unwrap_or(policy.most_documents);
        policy.most_bytes = number(most_bytes, "most_bytes")?.unwrap_or(policy.most_bytes);
        if let Some(at_least) = number(at_least, "at_least")? {
            policy.at_least = at_least as usize;
        }
        if let Some(time) = unchanged_for {
            policy.unchanged_for = duration(time, "unchanged_for")?;
        }
        let merges = task::run(py, None, |_| {
            if dry_run {
                return collection.compact_plan(&policy);
            }
            let mut merges = Vec::new();
            collection.compact(&policy, |merge| merges.push(merge.clone()))?;
            Ok(merges)
        })?;
        let parts = |merge: Merge| (merge.from, merge.into, merge.documents);
        Ok(merges.into_iter().map(parts).collect())
    }
}

impl Collection {
    /// The collection, to change it.
    fn directory(&self) -> Result<(Arc<search::Collection>, PathBuf)> {
        check_process(self.process)?;
        match self.source.get()? {
            Source::Directory(collection, dir) => Ok((collection, dir)),
            Source::Files(_) => {
                let message = "partition files cannot be changed: open a collection's directory";
                Err(PyValueError::new_err(message).into())
            }
        }
    }
}
