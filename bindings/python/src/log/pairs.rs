//! The keys and values of `put_many`, from mappings, iterables of pairs and Arrow tables.

use crate::arrow::capsule::{Arrays, invalid};
use crate::arrow::keys::{check_type, slices};
use crate::bytes::to_bytes;
use crate::error::Result;
use crate::gil::detached;
use crate::progress::Reporter;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use firndb::log::{LogStore, WriteOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};

/// Records and bytes that are put at a time.
const RECORDS: usize = 4096;
const BYTES: usize = 1 << 20;

/// Puts all pairs of an object, and returns their number. Stops at the first error, after which the
/// pairs before it stay.
pub fn put_all(
    store: &LogStore,
    items: &Bound<'_, PyAny>,
    options: WriteOptions,
    reporter: &Reporter,
) -> Result<u64> {
    if !items.is_exact_instance_of::<PyDict>()
        && let Some(arrays) = Arrays::import(items)?
    {
        return put_arrays(store, items.py(), arrays, options, reporter);
    }
    let mut pending = Pending::default();
    let mut done = 0;
    for_each_pair(items, |key, value| {
        pending.push(&to_bytes(key)?, &to_bytes(value)?);
        if pending.is_full() {
            done += pending.put(items.py(), store, options)?;
            reporter.report(done, None)?;
        }
        Ok(())
    })?;
    done += pending.put(items.py(), store, options)?;
    Ok(done)
}

/// Calls `take` with each key and value of a mapping, an object with `keys` (as `dict.update`
/// does), or an iterable of pairs.
pub fn for_each_pair<'py>(
    items: &Bound<'py, PyAny>,
    mut take: impl FnMut(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> Result<()>,
) -> Result<()> {
    let is_mapping = items.cast::<PyMapping>().is_ok();
    if !is_mapping && let Some(keys) = items.getattr_opt("keys")? {
        for key in keys.call0()?.try_iter()? {
            let key = key?;
            take(&key, &items.get_item(&key)?)?;
        }
        return Ok(());
    }
    let pairs = if is_mapping { items.call_method0("items")? } else { items.clone() };
    let pairs = pairs.try_iter().map_err(|error| match items.get_type().name() {
        Ok(name) if error.is_instance_of::<PyTypeError>(items.py()) => PyTypeError::new_err(
            format!("give a mapping, an iterable of pairs or an Arrow table, not {name}"),
        ),
        _ => error,
    })?;
    for (position, pair) in pairs.enumerate() {
        let pair = pair?;
        if let Ok(pair) = pair.cast::<PyTuple>()
            && pair.len() == 2
        {
            take(&pair.get_item(0)?, &pair.get_item(1)?)?;
            continue;
        }
        let not_a_pair =
            || PyValueError::new_err(format!("item {position} is not a pair of a key and a value"));
        // A str or bytes of length two is not meant as a pair.
        if to_bytes(&pair).is_ok() {
            return Err(not_a_pair().into());
        }
        let mut parts = pair.try_iter().map_err(|_| not_a_pair())?;
        match (parts.next().transpose()?, parts.next().transpose()?, parts.next()) {
            (Some(key), Some(value), None) => take(&key, &value)?,
            _ => return Err(not_a_pair().into()),
        }
    }
    Ok(())
}

/// Pairs that wait to be put.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Where each key and its value end.
    ends: Vec<(usize, usize)>,
}

impl Pending {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= RECORDS || self.bytes.len() >= BYTES
    }

    /// Puts the pairs, without the GIL, and returns their number.
    fn put(&mut self, py: Python<'_>, store: &LogStore, options: WriteOptions) -> Result<u64> {
        detached(py, || {
            let mut start = 0;
            for &(key_end, end) in &self.ends {
                let (key, value) = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
                store.put_with(key, value, options)?;
                start = end;
            }
            Ok(())
        })?;
        let count = self.ends.len() as u64;
        self.bytes.clear();
        self.ends.clear();
        Ok(count)
    }
}

fn put_arrays(
    store: &LogStore,
    py: Python<'_>,
    mut arrays: Arrays,
    options: WriteOptions,
    reporter: &Reporter,
) -> Result<u64> {
    let columns = columns(arrays.field().data_type())?;
    let mut done = 0;
    while let Some(count) = detached(py, || match arrays.next() {
        Some(array) => put_array(store, &array.map_err(invalid)?, columns, done, options).map(Some),
        None => Ok(None),
    })? {
        done += count;
        reporter.report(done, None)?;
    }
    Ok(done)
}

/// The positions of the columns `key` and `value`.
fn columns(data_type: &DataType) -> PyResult<[usize; 2]> {
    let DataType::Struct(fields) = data_type else {
        return Err(PyTypeError::new_err(format!(
            "give an Arrow table with the columns key and value, not an array of {data_type}"
        )));
    };
    let find = |name: &str| {
        let (position, field) = fields.find(name).ok_or_else(|| {
            let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
            let names = names.join(", ");
            PyValueError::new_err(format!("there is no column {name}; the columns are {names}"))
        })?;
        check_type(field.data_type())?;
        Ok::<_, PyErr>(position)
    };
    Ok([find("key")?, find("value")?])
}

/// Puts the rows of a part of a table, `done` rows after its beginning.
fn put_array(
    store: &LogStore,
    table: &ArrayRef,
    columns: [usize; 2],
    done: u64,
    options: WriteOptions,
) -> firndb::Result<u64> {
    let table = table.as_struct();
    for start in (0..table.len()).step_by(RECORDS) {
        let rows = table.slice(start, RECORDS.min(table.len() - start));
        for (name, position) in ["key", "value"].into_iter().zip(columns) {
            let nulls = rows.column(position).logical_nulls();
            let null = nulls.and_then(|nulls| nulls.iter().position(|is_valid| !is_valid));
            if let Some(row) = null {
                let row = done + (start + row) as u64;
                return Err(firndb::Error::invalid(format!("the {name} of row {row} is null")));
            }
        }
        let [keys, values] = columns.map(|position| slices(rows.column(position)));
        for (key, value) in keys.into_iter().zip(values) {
            store.put_with(key, value, options)?;
        }
    }
    Ok(table.len() as u64)
}
