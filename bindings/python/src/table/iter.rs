//! Iteration over the records of a table.

use crate::bytes::Form;
use crate::error::Result;
use crate::gil::detached;
use crate::log::iter::Part;
use crate::table::handle::TableRef;
use firndb::KeyRange;
use firndb::table::Table;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Records that are read at a time, without the GIL. A page ends after 16 MiB.
const PAGE: usize = 1024;
const PAGE_BYTES: usize = 16 << 20;

/// The records of a table in the order of its files, a page at a time.
pub struct Pages {
    table: TableRef,
    shard: usize,
    /// The next page of the shard; `None` at its end.
    cursor: Option<u64>,
}

impl Pages {
    pub fn new(table: TableRef) -> Pages {
        Pages { table, shard: 0, cursor: Some(0) }
    }

    /// Calls `read` with the records of the next page of about `limit` records. False at the end.
    pub fn next(&mut self, limit: usize, read: impl FnMut(&[u8], &[u8])) -> firndb::Result<bool> {
        let cursor = loop {
            match self.cursor {
                Some(cursor) => break cursor,
                None if self.shard + 1 < self.table.shards().len() => {
                    (self.shard, self.cursor) = (self.shard + 1, Some(0));
                }
                None => return Ok(false),
            }
        };
        let next = self.table.shards()[self.shard].scan_from(cursor, limit, read);
        // Nothing follows an error.
        if next.is_err() {
            (self.shard, self.cursor) = (self.table.shards().len(), None);
        }
        self.cursor = next?;
        Ok(true)
    }
}

/// The records of a range of keys, a page at a time. Between two pages it holds nothing of the
/// table but the last key.
pub struct RangePages {
    table: Arc<Table>,
    /// The keys that were not read yet; `None` at the end.
    rest: Option<KeyRange>,
    is_reversed: bool,
}

impl RangePages {
    /// `InvalidArgument` if the table is not in key order.
    pub fn new(table: Arc<Table>, range: KeyRange, is_reversed: bool) -> firndb::Result<Self> {
        table.range(range.clone())?;
        Ok(RangePages { table, rest: Some(range), is_reversed })
    }

    /// Calls `read` with up to `limit` records. False at the end.
    fn next(&mut self, limit: usize, mut read: impl FnMut(&[u8], &[u8])) -> firndb::Result<bool> {
        // Nothing follows an error.
        let Some(rest) = self.rest.take() else { return Ok(false) };
        let mut records = self.table.range(rest)?;
        if self.is_reversed {
            records = records.reversed();
        }
        let (mut count, mut bytes) = (0, 0);
        while count < limit && bytes < PAGE_BYTES {
            let taken = records.next_with(|key, value| {
                bytes += key.len() + value.len();
                read(key, value);
            });
            match taken {
                Some(taken) => taken?,
                None => return Ok(count > 0),
            }
            count += 1;
        }
        self.rest = Some(records.rest());
        Ok(true)
    }
}

/// What an iterator reads.
pub enum Records {
    /// All records, in the order of the files.
    All(Pages),
    /// A range, in key order.
    Range(RangePages),
}

/// Iterates over the keys, values or items of a table.
#[pyclass(frozen, module = "firndb._native")]
pub struct TableIter {
    state: Mutex<State>,
    part: Part,
    form: Form,
}

struct State {
    records: Records,
    ready: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl TableIter {
    pub fn new(records: Records, part: Part, form: Form) -> TableIter {
        let state = State { records, ready: VecDeque::new() };
        TableIter { state: Mutex::new(state), part, form }
    }

    fn pop(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.state.try_lock().ok()?.ready.pop_front()
    }

    /// The next record, from the next page if the current one has ended.
    fn read(&self) -> firndb::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { records, ready } = &mut *state;
        while ready.is_empty() {
            let part = self.part;
            let take = |key: &[u8], value: &[u8]| {
                let key = if part == Part::Values { Vec::new() } else { key.to_vec() };
                let value = if part == Part::Keys { Vec::new() } else { value.to_vec() };
                ready.push_back((key, value));
            };
            let is_more = match records {
                Records::All(pages) => pages.next(PAGE, take)?,
                Records::Range(pages) => pages.next(PAGE, take)?,
            };
            if !is_more {
                return Ok(None);
            }
        }
        Ok(ready.pop_front())
    }
}

#[pymethods]
impl TableIter {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let next = match self.pop() {
            None => detached(py, || self.read())?,
            record => record,
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
