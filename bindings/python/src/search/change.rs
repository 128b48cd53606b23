//! Changes of collections, which are applied when they are committed.

use crate::error::Result;
use crate::search::load::{Options, Report, load};
use crate::search::schema::Schema;
use crate::search::task;
use firndb::search::Collection;
use firndb::{Error, ErrorKind};
use firndb_ingest::Parts;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The native part of `firndb.Change`.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Change {
    collection: Arc<Collection>,
    dir: PathBuf,
    /// `None` after the change ended.
    steps: Mutex<Option<Vec<Step>>>,
    /// The process that began the change.
    process: u32,
}

enum Step {
    Put(Box<Parts>),
    Remove(String),
    Merge(Vec<String>, String),
    Clear,
}

#[pymethods]
impl Change {
    #[new]
    fn from(other: &Bound<'_, Change>) -> Change {
        let other = other.get();
        let steps = other.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (collection, dir) = (other.collection.clone(), other.dir.clone());
        Change { collection, dir, steps: Mutex::new(steps), process: other.process }
    }

    /// Reads rows into partitions, which the commit puts in place of those of the same names.
    fn _put(
        &self,
        py: Python<'_>,
        kind: &str,
        source: &Bound<'_, PyAny>,
        schema: Option<Schema>,
        options: Options,
        progress: Option<Py<PyAny>>,
    ) -> Result<Report> {
        self.check_open()?;
        let schema = schema.map(|schema| schema.schema).or_else(|| {
            let schema = self.collection.reader().schema().clone();
            (!schema.fields().is_empty()).then_some(schema)
        });
        let (parts, report) = load(py, kind, source, schema, &self.dir, &options, progress)?;
        if parts.is_empty() {
            let message = "there are no rows; remove() takes a partition away";
            return Err(PyValueError::new_err(message).into());
        }
        self.push(Step::Put(Box::new(parts)))?;
        Ok(report)
    }

    /// Removes a partition, and those that continue it.
    ///
    /// Raises:
    ///     ValueError: the change has ended.
    fn remove(&self, name: String) -> Result<()> {
        self.push(Step::Remove(name))
    }

    /// Merges partitions into one called `into`, in the order of `names`.
    ///
    /// The names stay reserved until the new partition is replaced or removed.
    ///
    /// Raises:
    ///     ValueError: the change has ended.
    fn merge(&self, names: Vec<String>, into: String) -> Result<()> {
        self.push(Step::Merge(names, into))
    }

    /// Removes all partitions, including those that this change put before.
    ///
    /// Raises:
    ///     ValueError: the change has ended.
    fn clear(&self) -> Result<()> {
        self.push(Step::Clear)
    }

    /// Publishes the change: all of it, or nothing if an error is raised. Durable on return.
    ///
    /// Raises:
    ///     LockedError: another process is changing the collection.
    ///     NotFoundError: a partition to be removed or merged does not exist.
    ///     AlreadyExistsError: documents of a name were merged with others.
    ///     FailedError: the process was forked since the change began.
    ///     ValueError: the change has ended.
    fn commit(&self, py: Python<'_>) -> Result<()> {
        check_process(self.process)?;
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(steps) = steps else { return Err(ended()) };
        task::run(py, None, |task| {
            let mut change = self.collection.change()?;
            for step in steps {
                task.check()?;
                match step {
                    Step::Put(parts) => parts.put_all(&mut change, || task.check())?,
                    Step::Remove(name) => change.remove(&name)?,
                    Step::Merge(names, into) => {
                        let names: Vec<&str> = names.iter().map(String::as_str).collect();
                        change.merge(&names, &into)?;
                    }
                    Step::Clear => change.clear(),
                }
            }
            change.commit()
        })?;
        Ok(())
    }

    /// Ends the change without an effect. Does nothing after the change has ended.
    fn discard(&self, py: Python<'_>) {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(steps));
    }
}

impl Change {
    pub fn new(collection: Arc<Collection>, dir: PathBuf) -> Change {
        Change { collection, dir, steps: Mutex::new(Some(Vec::new())), process: std::process::id() }
    }

    fn check_open(&self) -> Result<()> {
        check_process(self.process)?;
        match &*self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Ok(()),
            None => Err(ended()),
        }
    }

    fn push(&self, step: Step) -> Result<()> {
        match &mut *self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(steps) => steps.push(step),
            None => return Err(ended()),
        }
        Ok(())
    }
}

/// Fails in a forked child of the process that opened a handle: both would write.
pub fn check_process(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    let message = "the process was forked since the collection was opened: open it again";
    Err(Error::new(ErrorKind::Failed, message).into())
}

fn ended() -> crate::error::Failure {
    PyValueError::new_err("the change has ended: begin another one").into()
}
