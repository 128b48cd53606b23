//! Builds from another store, and from Python objects.

use crate::build::bad_rows::BadRows;
use crate::build::run::{Reporters, interruptible};
use crate::bytes::to_bytes;
use crate::error::Result;
use crate::gil::detached;
use crate::log::iter::Records;
use crate::log::snapshot::Snapshot;
use crate::log::store::LogStore;
use crate::table::build::{Build, Report};
use crate::table::handle::TableRef;
use crate::table::sink::Sink;
use firndb::{Error, ErrorKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::ops::ControlFlow;

/// Bytes and records of Python objects after which they are passed to the builder, without the GIL.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_RECORDS: usize = 1 << 14;

/// Copies the records of a table, and how its values are read.
pub fn from_table(
    build: &Build<'_>,
    table: &TableRef,
    mut bad_rows: BadRows,
) -> firndb::Result<Report> {
    let schema = if build.spec.approximate.is_some() { "" } else { table.value_schema()? };
    let mut sink = build.sink(schema)?;
    build.job.reading.set_total(Some(table.len()));
    let mut rows = 0;
    for shard in table.shards() {
        let mut failed = None;
        let copied = shard.scan(0, 1, |key, value| {
            rows += 1;
            if rows % 4096 == 0 {
                build.job.reading.add(4096);
                if build.job.is_cancelled() {
                    return ControlFlow::Break(());
                }
            }
            let added = match sink.add_from(rows, key, value) {
                Err(e) if e.kind() == ErrorKind::InvalidArgument => bad_rows.take(e),
                added => added,
            };
            match added {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        })?;
        match (copied, failed) {
            (true, _) => {}
            (false, Some(e)) => return Err(e),
            (false, None) => {
                return Err(Error::new(ErrorKind::Cancelled, "the build was cancelled"));
            }
        }
    }
    Ok(Report { built: build.finish(sink)?, rows, bad_rows, absent: Vec::new() })
}

/// The records of a log store or a snapshot, and their number if it is known. In the order of the
/// keys, if possible: a table in that order is built in one pass.
pub fn log_records(py: Python<'_>, source: &Bound<'_, PyAny>) -> Result<(Records, Option<u64>)> {
    if let Ok(store) = source.cast::<LogStore>() {
        let store = store.get();
        let len = store.handle().with(|store| Ok(store.len()))?;
        return Ok((store.records(py)?, Some(len)));
    }
    let snapshot = source.cast::<Snapshot>().map_err(PyErr::from)?;
    Ok((snapshot.get().records()?, None))
}

/// Copies the records of a log store that have not expired.
pub fn from_log(
    build: &Build<'_>,
    mut records: Records,
    len: Option<u64>,
    mut bad_rows: BadRows,
) -> firndb::Result<Report> {
    let mut sink = build.sink("")?;
    sink.name_origins(item_name);
    build.job.reading.set_total(len);
    let mut rows = 0;
    while let Some(added) = records.next_with(|key, value| sink.add_from(rows + 1, key, value)) {
        rows += 1;
        match added? {
            Err(e) if e.kind() == ErrorKind::InvalidArgument => bad_rows.take(e)?,
            added => added?,
        }
        if rows % 1024 == 0 {
            build.job.reading.add(1024);
            if build.job.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "the build was cancelled"));
            }
        }
    }
    Ok(Report { built: build.finish(sink)?, rows, bad_rows, absent: Vec::new() })
}

/// Records of Python objects on their way to the builder.
#[derive(Default)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// Number of the item in the source, and the lengths of key and value.
    records: Vec<(u64, usize, usize)>,
}

impl Chunk {
    /// Adds the record whose key and value were appended to the bytes.
    pub fn push(&mut self, item: u64, key: usize, value: usize) {
        self.records.push((item, key, value));
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES || self.records.len() >= CHUNK_RECORDS
    }

    /// Passes the records to the builder.
    pub fn flush(&mut self, sink: &mut Sink, bad_rows: &mut BadRows) -> firndb::Result<()> {
        let mut rest = &self.bytes[..];
        for (item, key, value) in self.records.drain(..) {
            let (key, after) = rest.split_at(key);
            let (value, after) = after.split_at(value);
            rest = after;
            match sink.add_from(item, key, value) {
                Err(e) if e.kind() == ErrorKind::InvalidArgument => bad_rows.take(e)?,
                added => added?,
            }
        }
        self.bytes.clear();
        Ok(())
    }
}

/// The name of an item of a source in messages.
pub fn item_name(item: u64) -> String {
    format!("item {item}")
}

/// Builds a table from an iterator of keys and values.
///
/// The iterator runs in the calling thread, so that an exception or Ctrl-C ends the build at once.
pub fn from_pairs(
    py: Python<'_>,
    build: &Build<'_>,
    source: &Bound<'_, PyAny>,
    reporters: &Reporters,
    mut bad_rows: BadRows,
) -> Result<Report> {
    let spec = build.spec;
    if !spec.keys.is_empty() || spec.row_number || !spec.values.is_empty() || spec.record {
        return Err(PyValueError::new_err(
            "key, value and record are for rows with columns; the source has keys and values",
        )
        .into());
    }
    let mut sink = build.sink("")?;
    sink.name_origins(item_name);
    let (mut chunk, mut rows) = (Chunk::default(), 0);
    for item in source.try_iter()? {
        rows += 1;
        let (key, value) = pair(&item?, rows, &mut chunk.bytes)?;
        chunk.push(rows, key, value);
        if chunk.is_full() {
            detached(py, || chunk.flush(&mut sink, &mut bad_rows))?;
            reporters.reading.report(rows, None)?;
        }
    }
    end(py, build, reporters, sink, chunk, bad_rows, rows)
}

/// Passes the last records to the builder, and writes the table.
pub fn end(
    py: Python<'_>,
    build: &Build<'_>,
    reporters: &Reporters,
    mut sink: Sink,
    mut chunk: Chunk,
    mut bad_rows: BadRows,
    rows: u64,
) -> Result<Report> {
    build.job.reading.set(rows, rows);
    interruptible(py, build.job, reporters, || {
        chunk.flush(&mut sink, &mut bad_rows)?;
        Ok(Report { built: build.finish(sink)?, rows, bad_rows, absent: Vec::new() })
    })
}

/// Appends the key and the value of an item; returns their lengths.
fn pair(item: &Bound<'_, PyAny>, number: u64, bytes: &mut Vec<u8>) -> PyResult<(usize, usize)> {
    let (key, value) = match (item.cast::<PyTuple>(), item.cast::<PyList>()) {
        (Ok(pair), _) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
        (_, Ok(pair)) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
        _ => {
            let name = item.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{} is not a pair of a key and a value, but {name}",
                item_name(number)
            )));
        }
    };
    let mut append = |what: &str, object: &Bound<'_, PyAny>| match to_bytes(object) {
        Ok(found) => {
            bytes.extend_from_slice(&found);
            Ok(found.len())
        }
        Err(e) if e.is_instance_of::<PyTypeError>(item.py()) => {
            let name = object.get_type().name()?;
            let item = item_name(number);
            Err(PyTypeError::new_err(format!("{item}: the {what} is {name}, not bytes or str")))
        }
        Err(e) => Err(e),
    };
    Ok((append("key", &key)?, append("value", &value)?))
}
