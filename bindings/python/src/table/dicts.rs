//! Builds from dictionaries: rows whose columns get their types from the first of them.

use crate::build::bad_rows::BadRows;
use crate::build::run::Reporters;
use crate::error::Result;
use crate::gil::detached;
use crate::table::build::{Build, Report};
use crate::table::objects::{Chunk, end, item_name};
use firndb::Error;
use firndb_arrow::avro::{Field, Record, Type, Unit, encode};
use firndb_ingest::{ColumnType, KEY_SEPARATOR, ValueColumn};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PyString, PyType,
};
use std::collections::HashSet;

/// Rows from which columns and types are inferred.
const SAMPLE: usize = 10_000;

/// Integers up to this magnitude are exact in a double.
const EXACT: u64 = 1 << 53;

/// The type of a column. All values can be None.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Float,
    Str,
    Bytes,
    Date,
    /// A date and time, with a time zone or without.
    Datetime {
        aware: bool,
    },
}

struct Column<'py> {
    name: Bound<'py, PyString>,
    kind: Kind,
}

/// Encodes dictionaries.
pub struct DictRows<'py> {
    keys: Vec<Bound<'py, PyString>>,
    /// The key of a row is its number.
    row_number: bool,
    columns: Vec<Column<'py>>,
    /// Values are records of the columns, not the bytes of the only one.
    is_record: bool,
    /// The columns were found in the first rows, so a later row may have others.
    is_inferred: bool,
}

/// Why a row cannot be used: the row is bad, or an exception ends the build.
enum Unusable {
    Row(String),
    Raised(PyErr),
}

impl From<PyErr> for Unusable {
    fn from(error: PyErr) -> Unusable {
        Unusable::Raised(error)
    }
}

type Outcome<T> = std::result::Result<T, Unusable>;

impl<'py> DictRows<'py> {
    /// Builds a table from an iterator of dictionaries. The iterator runs in the calling thread.
    pub fn build(
        py: Python<'py>,
        build: &Build<'_>,
        source: &Bound<'py, PyAny>,
        reporters: &Reporters,
        mut bad_rows: BadRows,
    ) -> Result<Report> {
        let mut items = source.try_iter()?;
        let mut sample = Vec::new();
        while sample.len() < SAMPLE {
            let Some(item) = items.next() else { break };
            // A source may change and return the same dictionary again.
            sample.push(as_dict(&item?, sample.len() as u64 + 1)?.copy()?);
            if sample.len() % 1024 == 0 {
                reporters.reading.report(sample.len() as u64, None)?;
            }
        }
        let rows = DictRows::infer(py, build, &sample)?;
        let mut sink = build.sink(&rows.schema())?;
        sink.name_origins(item_name);
        let (mut chunk, mut number) = (Chunk::default(), 0);
        let mut add = |row: &Bound<'py, PyDict>| -> Result<()> {
            number += 1;
            let start = chunk.bytes.len();
            match rows.encode(row, number, &mut chunk.bytes) {
                Ok((key, value)) => chunk.push(number, key, value),
                Err(Unusable::Raised(error)) => return Err(error.into()),
                Err(Unusable::Row(reason)) => {
                    chunk.bytes.truncate(start);
                    bad_rows.take(format!("{}: {reason}", item_name(number)))?;
                }
            }
            if chunk.is_full() {
                detached(py, || chunk.flush(&mut sink, &mut bad_rows))?;
                reporters.reading.report(number, None)?;
            }
            Ok(())
        };
        sample.iter().try_for_each(&mut add)?;
        let mut seen = sample.len() as u64;
        drop(sample);
        for item in items {
            seen += 1;
            add(&as_dict(&item?, seen)?)?;
        }
        end(py, build, reporters, sink, chunk, bad_rows, number)
    }

    /// The columns of the value and their types, from the first rows.
    fn infer(py: Python<'py>, build: &Build<'_>, sample: &[Bound<'py, PyDict>]) -> Result<Self> {
        let spec = build.spec;
        if spec.keys.is_empty() && !spec.row_number {
            let names = sample.first().map_or(Ok(String::new()), |row| column_names(row))?;
            let message = format!("pass the column of the key as key=: {names}");
            return Err(PyValueError::new_err(message).into());
        }
        let keys: Vec<_> = spec.keys.iter().map(|key| PyString::new(py, key)).collect();
        let chosen = spec.value_columns()?;
        let names: Vec<Bound<'py, PyString>> = match &chosen[..] {
            [] => found_columns(sample, &spec.keys)?,
            chosen => chosen.iter().map(|column| PyString::new(py, &column.name)).collect(),
        };
        if names.is_empty() && !sample.is_empty() {
            return Err(Error::invalid("there is no column besides the key").into());
        }
        let is_record = spec.record || names.len() > 1;
        let kind = |(i, name): (usize, Bound<'py, PyString>)| -> Result<Column<'py>> {
            let kind = match chosen.get(i) {
                // Values of a single column are bytes, whatever their types.
                _ if !is_record => Kind::Bytes,
                Some(ValueColumn { ty: Some(ty), .. }) => declared(*ty)?,
                _ => infer_kind(&name, sample)?,
            };
            Ok(Column { name, kind })
        };
        let columns = names.into_iter().enumerate().map(kind).collect::<Result<_>>()?;
        let row_number = spec.row_number;
        Ok(DictRows { keys, row_number, columns, is_record, is_inferred: chosen.is_empty() })
    }

    /// The schema of the values; empty if they are bytes.
    fn schema(&self) -> String {
        if !self.is_record {
            return String::new();
        }
        let field = |column: &Column<'_>| Field {
            column: column.name.to_string(),
            ty: column.kind.avro_type().nullable(),
        };
        let fields = self.columns.iter().map(field).collect();
        Type::Record(Record { name: "Row".to_string(), fields }).to_json().to_string()
    }

    /// Appends the key of a row; returns the number of its columns that the row has.
    fn encode_key(
        &self,
        row: &Bound<'py, PyDict>,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Outcome<usize> {
        let mut present = 0;
        for (n, name) in self.keys.iter().enumerate() {
            if n > 0 {
                out.push(KEY_SEPARATOR);
            }
            let start = out.len();
            let value = row.get_item(name)?;
            append_raw(value.as_ref(), name, out)?;
            present += usize::from(value.is_some());
            if self.keys.len() > 1 && out[start..].contains(&KEY_SEPARATOR) {
                return Err(Unusable::Row(format!(
                    "column `{name}`: the value holds the character U+001F, which separates the \
                     columns of a key"
                )));
            }
        }
        if self.row_number {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Ok(present)
    }

    /// Appends the key and the value of a row; returns their lengths.
    fn encode(
        &self,
        row: &Bound<'py, PyDict>,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Outcome<(usize, usize)> {
        let start = out.len();
        let mut present = self.encode_key(row, number, out)?;
        let at = out.len();
        for column in &self.columns {
            let value = row.get_item(&column.name)?;
            present += usize::from(value.is_some());
            if self.is_record {
                append_field(value.as_ref(), column, out)?;
            } else {
                append_raw(value.as_ref(), &column.name, out)?;
            }
        }
        if self.is_inferred && present < row.len() {
            let is_known = |name: &Bound<'py, PyAny>| -> PyResult<bool> {
                Ok(any_eq(&self.keys, name)?
                    || any_eq(self.columns.iter().map(|column| &column.name), name)?)
            };
            for name in row.keys() {
                if !is_known(&name)? {
                    return Err(Unusable::Row(format!(
                        "column `{name}` is in none of the first rows; name the columns with \
                         value="
                    )));
                }
            }
        }
        Ok((at - start, out.len() - at))
    }
}

fn any_eq<'a, 'py: 'a>(
    columns: impl IntoIterator<Item = &'a Bound<'py, PyString>>,
    name: &Bound<'py, PyAny>,
) -> PyResult<bool> {
    for column in columns {
        if name.eq(column)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Kind {
    fn avro_type(self) -> Type {
        match self {
            Kind::Bool => Type::Boolean,
            Kind::Int => Type::Long,
            Kind::Float => Type::Double,
            Kind::Str => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Date => Type::Date,
            Kind::Datetime { aware } => Type::Timestamp { unit: Unit::Micros, local: !aware },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Str => "str",
            Kind::Bytes => "bytes",
            Kind::Date => "date",
            Kind::Datetime { aware: true } => "datetime with a time zone",
            Kind::Datetime { aware: false } => "datetime without a time zone",
        }
    }
}

/// The type of a column that the caller declared.
fn declared(ty: ColumnType) -> firndb::Result<Kind> {
    match ty {
        ColumnType::Boolean => Ok(Kind::Bool),
        ColumnType::Long => Ok(Kind::Int),
        ColumnType::Double => Ok(Kind::Float),
        ColumnType::String => Ok(Kind::Str),
        _ => Err(Error::invalid(format!(
            "the type {} is for JSON lines; dictionaries have boolean, long, double and string",
            ty.name()
        ))),
    }
}

/// An item as a dictionary.
fn as_dict<'py>(item: &Bound<'py, PyAny>, number: u64) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = item.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    if let Ok(mapping) = item.cast::<PyMapping>() {
        let dict = PyDict::new(item.py());
        dict.update(mapping)?;
        return Ok(dict);
    }
    let name = item.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{} is {name}, and the items before are dictionaries",
        item_name(number)
    )))
}

fn column_names(row: &Bound<'_, PyDict>) -> PyResult<String> {
    let names: Vec<String> = row.keys().iter().map(|name| name.to_string()).collect();
    Ok(names.join(", "))
}

/// The columns of these rows but the key, in the order in which they first appear.
fn found_columns<'py>(
    sample: &[Bound<'py, PyDict>],
    keys: &[String],
) -> Result<Vec<Bound<'py, PyString>>> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for (i, row) in sample.iter().enumerate() {
        for name in row.keys() {
            let Ok(name) = name.cast_into::<PyString>() else {
                let item = item_name(i as u64 + 1);
                let message = format!("{item}: the names of columns are str");
                return Err(PyTypeError::new_err(message).into());
            };
            let text = name.to_str()?;
            if !keys.iter().any(|key| key == text) && !seen.contains(text) {
                seen.insert(text.to_string());
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// The type of the values of a column in these rows.
fn infer_kind(name: &Bound<'_, PyString>, sample: &[Bound<'_, PyDict>]) -> Result<Kind> {
    let mut found: Option<Kind> = None;
    for (i, row) in sample.iter().enumerate() {
        let Some(value) = row.get_item(name)?.filter(|value| !value.is_none()) else { continue };
        let Some((kind, _)) = kind_of(&value)? else {
            let (item, ty) = (item_name(i as u64 + 1), value.get_type().name()?);
            return Err(PyTypeError::new_err(format!(
                "{item}: column `{name}`: values of type {ty} cannot be stored; use bool, int, \
                 float, str, bytes, date or datetime, or pass an Arrow table"
            ))
            .into());
        };
        found = Some(match (found, kind) {
            (None, kind) => kind,
            (Some(before), kind) if before == kind => kind,
            (Some(Kind::Int | Kind::Float), Kind::Int | Kind::Float) => Kind::Float,
            (Some(before), kind) => {
                let (item, before, kind) = (item_name(i as u64 + 1), before.name(), kind.name());
                return Err(PyTypeError::new_err(format!(
                    "{item}: column `{name}`: the value is {kind}, and those before are {before}; \
                     a column has one type"
                ))
                .into());
            }
        });
    }
    Ok(found.unwrap_or(Kind::Str))
}

/// The type of a value, and the value as a Python object of that type; `None` for other types.
fn kind_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<(Kind, Bound<'py, PyAny>)>> {
    let py = value.py();
    let kind = if value.is_instance_of::<PyBool>() {
        Kind::Bool
    } else if value.is_instance_of::<PyInt>() {
        Kind::Int
    } else if value.is_instance_of::<PyFloat>() {
        Kind::Float
    } else if value.is_instance_of::<PyString>() {
        Kind::Str
    } else if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        Kind::Bytes
    } else if value.is_instance(Times::get(py)?.datetime.bind(py))? {
        Kind::Datetime { aware: !value.getattr("tzinfo")?.is_none() }
    } else if value.is_instance(Times::get(py)?.date.bind(py))? {
        Kind::Date
    } else if is_numpy_scalar(value)? {
        return match value.call_method0("item")? {
            scalar if is_numpy_scalar(&scalar)? => Ok(None),
            scalar => kind_of(&scalar),
        };
    } else {
        return Ok(None);
    };
    Ok(Some((kind, value.clone())))
}

/// Whether this is a number of numpy, which has its value as a Python object.
fn is_numpy_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = value.get_type().module()?;
    Ok(module.to_str()? == "numpy" && value.hasattr("item")? && !value.hasattr("__len__")?)
}

/// Appends a key, or the value of a single column.
fn append_raw(
    value: Option<&Bound<'_, PyAny>>,
    name: &Bound<'_, PyString>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Err(Unusable::Row(format!("column `{name}`: there is no value")));
    };
    if let Ok(text) = value.cast_exact::<PyString>() {
        out.extend_from_slice(in_column(name, text.to_str())?.as_bytes());
        return Ok(());
    }
    match kind_of(value)? {
        Some((Kind::Str, text)) => {
            out.extend_from_slice(in_column(name, text.extract::<&str>())?.as_bytes());
        }
        Some((Kind::Bytes, bytes)) => append_bytes(&bytes, out)?,
        Some((Kind::Bool, value)) => {
            out.extend_from_slice(if value.is_truthy()? { b"true" } else { b"false" });
        }
        Some((Kind::Int, value)) => match value.extract::<i64>() {
            Ok(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Err(_) => {
                let value = value.call_method0("__index__")?.str()?;
                out.extend_from_slice(value.to_str()?.as_bytes());
            }
        },
        Some((Kind::Float, value)) => {
            out.extend_from_slice(value.extract::<f64>()?.to_string().as_bytes());
        }
        _ => {
            let ty = value.get_type().name()?;
            return Err(Unusable::Row(format!(
                "column `{name}`: a value of type {ty} is neither bytes, text nor a number; pass \
                 record=True for a value of it"
            )));
        }
    }
    Ok(())
}

/// A value that Python converted. What it raised says that the row is bad: text may have surrogates
/// that UTF-8 cannot express, and pandas has a datetime that is none.
fn in_column<T>(name: &Bound<'_, PyString>, converted: PyResult<T>) -> Outcome<T> {
    converted.map_err(|e| Unusable::Row(format!("column `{name}`: {}", e.value(name.py()))))
}

fn append_bytes(bytes: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    match bytes.cast::<PyBytes>() {
        Ok(bytes) => out.extend_from_slice(bytes.as_bytes()),
        Err(_) => out.extend(bytes.extract::<Vec<u8>>()?),
    }
    Ok(())
}

/// Appends a field of a record: a union of null and the type of the column.
fn append_field(
    value: Option<&Bound<'_, PyAny>>,
    column: &Column<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        encode::long(0, out);
        return Ok(());
    };
    let name = &column.name;
    let py = value.py();
    let found = kind_of(value)?;
    let (kind, value) = match found {
        Some(found) => found,
        None => {
            let ty = value.get_type().name()?;
            return Err(wrong(column, &ty.to_string()));
        }
    };
    encode::long(1, out);
    match (column.kind, kind) {
        (Kind::Bool, Kind::Bool) => out.push(u8::from(value.is_truthy()?)),
        (Kind::Int, Kind::Int) => {
            let Ok(value) = value.extract::<i64>() else {
                let message = format!("column `{name}`: {value} does not fit into 64 bits");
                return Err(Unusable::Row(message));
            };
            encode::long(value, out);
        }
        (Kind::Float, Kind::Float) => encode::double(value.extract()?, out),
        (Kind::Float, Kind::Int) => {
            match value.extract::<i64>() {
                Ok(value) if value.unsigned_abs() <= EXACT => encode::double(value as f64, out),
                _ => {
                    return Err(Unusable::Row(format!(
                        "column `{name}`: {value} would be rounded, because the column has \
                         fractions"
                    )));
                }
            };
        }
        (Kind::Str, Kind::Str) => {
            encode::bytes(in_column(name, value.extract::<&str>())?.as_bytes(), out);
        }
        (Kind::Bytes, Kind::Bytes) => {
            let mut bytes = Vec::new();
            append_bytes(&value, &mut bytes)?;
            encode::bytes(&bytes, out);
        }
        (Kind::Date, Kind::Date) => {
            let days = value.call_method0("toordinal").and_then(|days| days.extract::<i64>());
            encode::long(in_column(name, days)? - Times::get(py)?.epoch_ordinal, out);
        }
        (Kind::Datetime { aware }, Kind::Datetime { aware: found }) if aware == found => {
            encode::long(in_column(name, micros(&value, aware))?, out);
        }
        (_, kind) => return Err(wrong(column, kind.name())),
    }
    Ok(())
}

/// The reason why a value is not of the type of its column.
fn wrong(column: &Column<'_>, found: &str) -> Unusable {
    Unusable::Row(format!(
        "column `{}`: the value is {found}, and the type of the column is {}",
        column.name,
        column.kind.name()
    ))
}

/// Microseconds since 1970 of a datetime.
fn micros(value: &Bound<'_, PyAny>, aware: bool) -> PyResult<i64> {
    let py = value.py();
    let times = Times::get(py)?;
    let epoch = if aware { &times.epoch_utc } else { &times.epoch };
    let delta = value.sub(epoch.bind(py))?;
    let part = |name: &str| delta.getattr(name)?.extract::<i64>();
    Ok((part("days")? * 86_400 + part("seconds")?) * 1_000_000 + part("microseconds")?)
}

/// What is needed of the module `datetime`.
struct Times {
    datetime: Py<PyType>,
    date: Py<PyType>,
    epoch: Py<PyAny>,
    epoch_utc: Py<PyAny>,
    epoch_ordinal: i64,
}

impl Times {
    fn get(py: Python<'_>) -> PyResult<&Times> {
        static TIMES: PyOnceLock<Times> = PyOnceLock::new();
        TIMES.get_or_try_init(py, || {
            let module = py.import("datetime")?;
            let datetime = module.getattr("datetime")?.cast_into::<PyType>()?;
            let date = module.getattr("date")?.cast_into::<PyType>()?;
            let utc = module.getattr("timezone")?.getattr("utc")?;
            let epoch = datetime.call1((1970, 1, 1))?;
            let epoch_utc = datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
            let epoch_ordinal = epoch.call_method0("toordinal")?.extract()?;
            Ok(Times {
                datetime: datetime.unbind(),
                date: date.unbind(),
                epoch: epoch.unbind(),
                epoch_utc: epoch_utc.unbind(),
                epoch_ordinal,
            })
        })
    }
}
