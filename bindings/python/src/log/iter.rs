//! Iteration over keys, values or items.

use crate::bytes::Form;
use crate::error::Result;
use firndb::log::{Iter, Range};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Records that are read at a time, without the GIL, and the bytes after which fewer are.
const RECORDS: usize = 256;
const BYTES: usize = 1 << 20;

/// What an iterator yields.
#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    Keys,
    Values,
    Items,
}

/// Iterates over the records of a log store or snapshot, as they were when the iterator was made.
#[pyclass(frozen, module = "firndb._native")]
pub struct RecordIter {
    state: Mutex<State>,
    part: Part,
    form: Form,
}

/// Records in the order of the log or of their keys.
pub enum Records {
    InLog(Iter<'static>),
    InOrder(Range<'static>),
}

impl Records {
    /// Passes the next record to `read`. `None` at the end.
    pub fn next_with<T>(
        &mut self,
        read: impl FnMut(&[u8], &[u8]) -> T,
    ) -> Option<firndb::Result<T>> {
        match self {
            Records::InLog(records) => records.next_with(read),
            Records::InOrder(records) => records.next_with(read),
        }
    }
}

struct State {
    records: Records,
    ready: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl RecordIter {
    pub fn new(records: Records, part: Part, form: Form) -> RecordIter {
        RecordIter { state: Mutex::new(State { records, ready: VecDeque::new() }), part, form }
    }
}

#[pymethods]
impl RecordIter {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let ready = self.lock()?.ready.pop_front();
        let next = match ready {
            Some(next) => Some(next),
            None => self.read(py)?,
        };
        let Some((key, value)) = next else { return Ok(None) };
        let form = self.form;
        Ok(Some(match self.part {
            Part::Keys => form.object(py, &key)?,
            Part::Values => form.object(py, &value)?,
            Part::Items => {
                PyTuple::new(py, [form.object(py, &key)?, form.object(py, &value)?])?.into_any()
            }
        }))
    }
}

impl RecordIter {
    /// Locks the state. Does not wait: in a forked child a lock may never be released.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyValueError::new_err("another thread uses the iterator at this moment").into())
            }
        }
    }

    /// Reads the next records, without the GIL, and returns the first of them.
    fn read(&self, py: Python<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut locked = self.lock()?;
        let (state, part) = (&mut *locked, self.part);
        let read = py.detach(|| state.fill(part).map(|()| state.ready.pop_front()));
        drop(locked); // Making an exception runs Python code.
        Ok(read?)
    }
}

impl State {
    /// Reads the next records.
    fn fill(&mut self, part: Part) -> firndb::Result<()> {
        let (mut bytes, ready) = (0, &mut self.ready);
        while ready.len() < RECORDS && bytes < BYTES {
            let take = |key: &[u8], value: &[u8]| {
                let value = if part == Part::Keys { Vec::new() } else { value.to_vec() };
                bytes += key.len() + value.len();
                ready.push_back((key.to_vec(), value));
            };
            match self.records.next_with(take) {
                Some(read) => read?,
                None => break,
            }
        }
        Ok(())
    }
}
