//! `Table` and `ShardedTable`.

use crate::arrow::capsule::{export_schema, export_stream};
use crate::arrow::keys::Keys;
use crate::arrow::stream;
use crate::arrow::values::ValuesBuilder;
use crate::bytes::{Form, to_bytes};
use crate::catalog::generation::Generation;
use crate::error::Result;
use crate::gil::detached;
use crate::handle::Handle;
use crate::json::to_python;
use crate::log::iter::Part;
use crate::log::options::key_range;
use crate::table::columns::Columns;
use crate::table::handle::{Location, TableRef, access_of};
use crate::table::iter::{Pages, RangePages, Records, TableIter};
use crate::table::rows::{self, RowType};
use firndb::KeyRange;
use firndb::table::{self, Access, Stats};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A table, without what `firndb.Table` adds in Python.
#[pyclass(subclass, frozen, mapping, module = "firndb._native")]
pub struct Table {
    table: Handle<TableRef>,
    form: Form,
    access: Access,
    /// Blocks are read from memory: a single get keeps the GIL.
    in_memory: bool,
    /// The type of values that are records; known once it was needed.
    rows: OnceLock<Option<RowType>>,
    location: Location,
}

/// A table in several files, without what `firndb.ShardedTable` adds in Python.
#[pyclass(subclass, frozen, extends = Table, module = "firndb._native")]
pub struct ShardedTable;

#[pymethods]
impl ShardedTable {
    #[new]
    #[pyo3(signature = (paths, *, access = "map", decode = false))]
    fn new(
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        access: &str,
        decode: bool,
    ) -> Result<PyClassInitializer<ShardedTable>> {
        if let Ok(generation) = paths.cast::<Generation>() {
            let table = generation.get().sharded(decode)?;
            return Ok(PyClassInitializer::from(table).add_subclass(ShardedTable));
        }
        let location = match paths.extract::<PathBuf>() {
            Ok(dir) => Location::Dir(dir),
            Err(_) => {
                let paths = paths.try_iter()?.map(|path| path?.extract());
                Location::Shards(paths.collect::<PyResult<_>>()?)
            }
        };
        let table = Table::open(py, location, access, decode)?;
        Ok(PyClassInitializer::from(table).add_subclass(ShardedTable))
    }

    /// The number of files.
    #[getter]
    fn shards(this: &Bound<'_, Self>) -> Result<usize> {
        this.as_super().get().table.with(|table| Ok(table.shards().len()))
    }
}

/// The shard of a key in a sharded table of `shards` shards: a number below `shards`. It is the
/// same on all machines and in all releases.
///
/// Raises:
///     ValueError: `shards` is not positive.
#[pyfunction]
pub fn shard_of(key: &Bound<'_, PyAny>, shards: usize) -> PyResult<usize> {
    if shards == 0 {
        return Err(PyValueError::new_err("a sharded table has at least one shard"));
    }
    Ok(table::shard_of(to_bytes(key)?, shards))
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (path, *, access = "map", decode = false))]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>, access: &str, decode: bool) -> Result<Table> {
        if let Ok(generation) = path.cast::<Generation>() {
            return generation.get().single(decode);
        }
        Table::open(py, Location::File(path.extract()?), access, decode)
    }

    /// The value of a key, or `default` if the table does not have the key.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.or(default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let found = self.find(py, key)?;
        found.ok_or_else(|| PyKeyError::new_err((key.clone().unbind(),)).into())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<bool> {
        let key = to_bytes(key)?;
        if self.in_memory {
            return self.table.with(|table| table.contains(&key));
        }
        let table = self.table.get()?;
        detached(py, || table.contains(&key))
    }

    fn __len__(&self) -> Result<usize> {
        Ok(self.table.with(|table| Ok(table.len()))? as usize)
    }

    fn __iter__(&self) -> Result<TableIter> {
        self.records(Part::Keys)
    }

    /// Iterates over the values, in the order of the keys.
    fn _iter_values(&self) -> Result<TableIter> {
        self.records(Part::Values)
    }

    /// Iterates over pairs of a key and its value.
    fn _iter_items(&self) -> Result<TableIter> {
        self.records(Part::Items)
    }

    /// The items whose keys are not before `start` and before `end`, in the order of the bytes of
    /// the keys. The table must be built with `order="key"`.
    ///
    /// Args:
    ///     start: the first key; by default the first of the table.
    ///     end: the key that ends the range, which is not part of it; by default none does.
    ///     reverse: begin with the last key.
    ///
    /// Raises:
    ///     InvalidArgumentError: the table is in hash order, or has several shards.
    ///
    /// >>> highs = {"2026-02-01": "-3", "2026-01-31": "-7", "2026-01-30": "-9"}
    /// >>> table = firndb.build_table(highs, "highs.firn", order="key")
    /// >>> list(table.range("2026-01-31"))
    /// [(b'2026-01-31', b'-7'), (b'2026-02-01', b'-3')]
    /// >>> [day for day, _ in table.range(end="2026-02", reverse=True)]
    /// [b'2026-01-31', b'2026-01-30']
    /// >>> table.close()
    #[pyo3(signature = (start = None, end = None, *, reverse = false))]
    fn range(
        &self,
        start: Option<Bound<'_, PyAny>>,
        end: Option<Bound<'_, PyAny>>,
        reverse: bool,
    ) -> Result<TableIter> {
        self.in_order(key_range(start, end)?, reverse)
    }

    /// The items whose keys begin with `prefix`: see `range`.
    ///
    /// >>> orders = {"order/1": "a", "order/2": "b", "user/1": "c"}
    /// >>> with firndb.build_table(orders, "orders.firn", order="key") as table:
    /// ...     [key for key, _ in table.prefix("order/")]
    /// [b'order/1', b'order/2']
    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(&self, prefix: &Bound<'_, PyAny>, reverse: bool) -> Result<TableIter> {
        self.in_order(KeyRange::prefix(to_bytes(prefix)?), reverse)
    }

    /// The values of many keys, in the order of the keys.
    ///
    /// Cache misses and reads of several keys overlap, so that this takes less time per key than
    /// `get`. Other threads run meanwhile.
    ///
    /// Args:
    ///     keys: an iterable of keys, or an Arrow array of them.
    ///     default: what the list has for absent keys.
    ///     arrow: return Arrow data instead of a list. Values are an `Array`, with nulls for absent
    ///         keys. Values that are records of columns are a stream of their columns, with a row
    ///         of nulls for an absent key.
    ///
    /// Raises:
    ///     CorruptError: a block that can have one of the keys is damaged.
    #[pyo3(signature = (keys, default = None, *, arrow = false))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        arrow: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let keys = Keys::of(keys)?;
        if arrow && let Some(row_type) = self.row_type()? {
            let table = self.table.get()?;
            return Ok(Bound::new(py, Columns::read(py, &table, row_type, &keys)?)?.into_any());
        }
        let table = self.table.get()?;
        let values = detached(py, || {
            let mut values = ValuesBuilder::new(keys.len());
            keys.for_each_chunk(|chunk| {
                table.read_many(&chunk.keys, |at, value| {
                    values.push(value.filter(|_| !chunk.is_null(at)));
                    Ok(())
                })
            })?;
            Ok(values.finish())
        })?;
        if arrow {
            return Ok(Bound::new(py, values.into_array(py, self.form)?)?.into_any());
        }
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        Ok(values.into_list(py, self.form, &default)?.into_any())
    }

    /// The names of the columns of the values; `None` if values are bytes.
    #[getter]
    fn columns(&self) -> Result<Option<Vec<String>>> {
        Ok(self.row_type()?.map(|row_type| row_type.columns().to_vec()))
    }

    /// The value of a key as a dictionary of its columns, or `None` if the table does not have the
    /// key.
    ///
    /// Raises:
    ///     InvalidArgumentError: the values are not records of columns.
    ///     CorruptError: the value does not follow the schema.
    fn row<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyDict>>> {
        let row_type = self.row_type()?.ok_or_else(rows::no_rows)?;
        let key = to_bytes(key)?;
        let mut decoder = row_type.decoder()?;
        let table = self.table.get()?;
        let mut read = || match table.get(&key)? {
            Some(value) => rows::decode(&mut decoder, &key, &value).map(|()| true),
            None => Ok(false),
        };
        let found = if self.in_memory { read()? } else { detached(py, read)? };
        if !found {
            return Ok(None);
        }
        let batch = rows::finish(&mut decoder)?;
        Ok(row_type.dicts(py, &batch)?.into_iter().next())
    }

    /// The values of many keys as dictionaries of their columns, in the order of the keys; `None`
    /// for absent keys. Errors as those of `row`.
    fn rows<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> Result<Bound<'py, PyList>> {
        let row_type = self.row_type()?.ok_or_else(rows::no_rows)?;
        let (keys, table) = (Keys::of(keys)?, self.table.get()?);
        let mut decoder = row_type.decoder()?;
        let mut found = Vec::with_capacity(keys.len());
        let batch = detached(py, || {
            rows::read_many(&table, &keys, |key, value| {
                found.push(value.is_some());
                value.map_or(Ok(()), |value| rows::decode(&mut decoder, key, value))
            })?;
            rows::finish(&mut decoder)
        })?;
        let mut dicts = row_type.dicts(py, &batch)?.into_iter();
        let list = PyList::empty(py);
        for found in found {
            list.append(if found { dicts.next() } else { None })?;
        }
        Ok(list)
    }

    /// The bytes that the build was given to keep in the table.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        self.table.with(|table| Ok(PyBytes::new(py, table.shards()[0].metadata()?)))
    }

    /// The schema of the values as text, an Avro schema if the table was built from rows; empty if
    /// there is none.
    #[getter]
    fn value_schema(&self) -> Result<String> {
        self.table.with(|table| table.value_schema().map(str::to_string))
    }

    fn _stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        match self.table.get()? {
            TableRef::One(table) => stats(py, &table.stats()),
            TableRef::Sharded(table) => to_python(py, &table.stats()),
        }
    }

    fn _verify(&self, py: Python<'_>) -> Result<(u64, u64, u64)> {
        let table = self.table.get()?;
        let report = detached(py, || table.verify())?;
        Ok((report.files, report.bytes, report.records))
    }

    /// Whether ranges of keys can be read, and iterations go in the order of the keys.
    #[getter]
    fn ordered(&self) -> Result<bool> {
        self.table.with(|table| Ok(table.is_ordered()))
    }

    /// Whether the table was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.table.is_closed()
    }

    /// How blocks are read: "map", "buffered", "direct" or "resident".
    #[getter]
    fn access(&self) -> &'static str {
        access_name(self.access)
    }

    /// Whether keys and values are returned as `str`.
    #[getter]
    fn decode(&self) -> bool {
        self.form.decode
    }

    fn _location(&self) -> Vec<PathBuf> {
        match &self.location {
            Location::File(path) | Location::Dir(path) => vec![path.clone()],
            Location::Shards(paths) => paths.clone(),
        }
    }

    fn _is_dir(&self) -> bool {
        matches!(self.location, Location::Dir(_))
    }

    /// Closes the table. Calls that other threads have begun end as if it were open. May be called
    /// more than once.
    fn close(&self, py: Python<'_>) {
        let table = self.table.take();
        // Unmapping a large file takes time.
        py.detach(|| drop(table));
    }

    /// The records as a stream of Arrow record batches. Every call begins a new stream, which stays
    /// usable after the table was closed. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let table = self.table.get()?;
        export_stream(py, stream::of_table(table, self.row_type()?, self.form)?)
    }

    /// The schema of the stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema(py, &*stream::table_schema(self.row_type()?, self.form)?)
    }
}

impl Table {
    fn open(py: Python<'_>, location: Location, access: &str, decode: bool) -> Result<Table> {
        let access = access_of(access)?;
        let table = detached(py, || TableRef::open(&location, access))?;
        Ok(Table::of(table, location, access, decode))
    }

    /// A table that is open.
    pub fn of(table: TableRef, location: Location, access: Access, decode: bool) -> Table {
        Table {
            table: Handle::new(table, "table"),
            form: Form { decode },
            access,
            in_memory: matches!(access, Access::Map | Access::Resident),
            rows: OnceLock::new(),
            location,
        }
    }

    /// A clone of the table, which stays open until it is dropped.
    pub fn handle(&self) -> Result<TableRef> {
        self.table.get()
    }

    fn records(&self, part: Part) -> Result<TableIter> {
        Ok(TableIter::new(Records::All(Pages::new(self.table.get()?)), part, self.form))
    }

    /// The items of a range, in the order of their keys.
    fn in_order(&self, range: KeyRange, is_reversed: bool) -> Result<TableIter> {
        let table = self.table.get()?;
        let pages = RangePages::new(table.single()?.clone(), range, is_reversed)?;
        Ok(TableIter::new(Records::Range(pages), Part::Items, self.form))
    }

    /// The type of values that are records.
    fn row_type(&self) -> Result<Option<&RowType>> {
        if let Some(known) = self.rows.get() {
            self.table.with(|_| Ok(()))?;
            return Ok(known.as_ref());
        }
        let found = self.table.with(|table| table.value_schema().map(RowType::new))?;
        Ok(self.rows.get_or_init(|| found).as_ref())
    }

    /// The value of a key. Keeps the GIL if blocks are in memory: giving it up takes longer than a
    /// get.
    #[inline]
    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let (key, form) = (to_bytes(key)?, self.form);
        if self.in_memory {
            let read = |value: Cow<'_, [u8]>| form.object_or_bytes(py, &value);
            return match self.table.with(|table| Ok(table.get(&key)?.map(read)))? {
                None => Ok(None),
                Some(Ok(object)) => Ok(Some(object)),
                // Makes the exception, which may run Python code, without the lock.
                Some(Err(bytes)) => Ok(Some(form.object(py, &bytes)?)),
            };
        }
        let table = self.table.get()?;
        let found = detached(py, || Ok(table.get(&key)?.map(Cow::into_owned)))?;
        Ok(found.map(|value| form.object(py, &value)).transpose()?)
    }
}

/// The name of an access mode.
pub fn access_name(access: Access) -> &'static str {
    match access {
        Access::Buffered => "buffered",
        Access::Direct => "direct",
        Access::Resident => "resident",
        _ => "map",
    }
}

/// The statistics of a table, with plain values for its options.
fn stats<'py>(py: Python<'py>, stats: &Stats) -> Result<Bound<'py, PyAny>> {
    let values = to_python(py, stats)?;
    values.set_item("compression", stats.compression.name())?;
    values.set_item("level", stats.compression.level())?;
    values.set_item("filter", stats.filter.bits())?;
    values.set_item("order", stats.order.name())?;
    Ok(values)
}
