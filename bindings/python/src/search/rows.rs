//! Dictionaries of Python as documents.

use crate::bytes::to_bytes;
use crate::error::Result;
use crate::search::infer::Inference;
use crate::search::load::{Options, SAMPLE, Sink, with_json};
use crate::search::value::{from_python, prefixed};
use firndb::search::{Document, Schema, Value};
use firndb::{Error, ErrorKind};
use firndb_ingest::PayloadSource;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyIterator, PyList, PySet, PyString,
    PyTuple,
};
use std::path::Path;

/// Rows that are converted before they are added without the GIL.
const CHUNK: usize = 1024;

/// Levels of nested dictionaries, so that one that contains itself ends.
const DEPTH_MAX: usize = 32;

/// Converts rows.
struct Converter<'a> {
    /// Keys of rows that are no fields of this schema are ignored.
    schema: Option<&'a Schema>,
    payload: PayloadSource,
}

/// What a row became.
type Row = std::result::Result<Document, PyErr>;

/// Reads all rows of an iterator of dictionaries.
pub fn load_rows(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    schema: Option<Schema>,
    dir: &Path,
    options: &Options,
    progress: Option<Py<PyAny>>,
) -> Result<Sink> {
    let total = source.len().ok().map(|len| len as u64);
    let rows = source.try_iter()?;
    let reporter = crate::progress::Reporter::new(progress);
    let given = schema.is_some();
    let mut first = Vec::new();
    let mut complete = false;
    let mut inference = Inference::default();
    if !given {
        let converter = Converter { schema: None, payload: options.payload() };
        complete = converter.take(&rows, SAMPLE, 0, &mut first, Some(&mut inference))?;
    }
    let schema = options.schema(schema, || inference.schema(complete))?;
    let schema_of_rows = given.then_some(&schema).filter(|schema| !schema.is_dynamic());
    let converter = Converter { schema: schema_of_rows, payload: options.payload() };
    let mut sink = Sink::new(&schema, dir, options)?;
    loop {
        let mut documents = std::mem::take(&mut first);
        let is_end = converter.take(&rows, CHUNK, sink.rows(), &mut documents, None)?;
        py.detach(|| {
            for document in documents {
                add(&mut sink, document)?;
            }
            reporter.report(sink.rows(), total)
        })?;
        if is_end {
            return Ok(sink);
        }
    }
}

/// The schema of the first rows of an iterable of dictionaries.
pub fn infer_rows(source: &Bound<'_, PyAny>) -> Result<Schema> {
    let (mut rows, mut inference) = (Vec::new(), Inference::default());
    let converter = Converter { schema: None, payload: PayloadSource::None };
    let rest = source.try_iter()?;
    let complete = converter.take(&rest, SAMPLE, 0, &mut rows, Some(&mut inference))?;
    if let Some(error) = rows.into_iter().find_map(std::result::Result::err) {
        return Err(error.into());
    }
    Ok(inference.schema(complete)?)
}

/// The document of a dictionary, without a payload. Keys that are no fields are ignored.
pub fn document_of(schema: &Schema, row: &Bound<'_, PyAny>) -> PyResult<Document> {
    Converter { schema: Some(schema), payload: PayloadSource::None }.document(row, None)
}

/// Adds the document of the next row, or skips the row.
fn add(sink: &mut Sink, document: Row) -> Result<()> {
    let at = sink.rows();
    let error: PyErr = match document {
        Err(error) => error,
        Ok(document) => match sink.add(&document) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                let message = format!("rows[{at}]: {}", e.message());
                crate::error::Failure::from(Error::invalid(message)).into()
            }
            Err(e) => return Err(e.into()),
        },
    };
    if sink.skip(|| Python::attach(|py| error.value(py).to_string())) {
        return Ok(());
    }
    Err(error.into())
}

impl Converter<'_> {
    /// Appends up to `count` rows; true at the end. `before` is the number of rows before those of
    /// `documents`. The error is that of the iterator.
    fn take(
        &self,
        rows: &Bound<'_, PyIterator>,
        count: usize,
        before: u64,
        documents: &mut Vec<Row>,
        mut inference: Option<&mut Inference>,
    ) -> Result<bool> {
        let py = rows.py();
        for n in 0..count {
            let Some(row) = rows.clone().next() else { return Ok(true) };
            if n % CHUNK == 0 {
                py.check_signals()?;
            }
            let document = self.document(&row?, inference.as_deref_mut());
            let at = before + documents.len() as u64;
            documents.push(document.map_err(|e| prefixed(py, &e, &format!("rows[{at}]"))));
        }
        Ok(false)
    }

    fn document(&self, row: &Bound<'_, PyAny>, inference: Option<&mut Inference>) -> Row {
        let Some(row) = mapping(row)? else {
            let name = row.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a row is a dict, not {name}")));
        };
        let mut document = Document::new();
        let mut inference = inference;
        if let Some(inference) = inference.as_deref_mut() {
            inference.start_row();
        }
        self.push_row(&row, "", 0, &mut document, &mut inference)?;
        Ok(match &self.payload {
            PayloadSource::Row => with_json(document),
            PayloadSource::Column(name) => match row.get_item(name)?.filter(|v| !v.is_none()) {
                Some(value) => {
                    let bytes = to_bytes(&value).map_err(|_| {
                        PyTypeError::new_err(format!("field `{name}`: a payload is bytes or str"))
                    })?;
                    document.payload(bytes.into_owned())
                }
                None => document,
            },
            _ => document,
        })
    }

    /// Adds the values of a row. Members of nested dictionaries are fields named `outer.inner`.
    fn push_row(
        &self,
        row: &Bound<'_, PyDict>,
        prefix: &str,
        depth: usize,
        document: &mut Document,
        inference: &mut Option<&mut Inference>,
    ) -> PyResult<()> {
        if depth == DEPTH_MAX {
            let message = format!("field `{prefix}`: dicts are nested more than {DEPTH_MAX} deep");
            return Err(PyValueError::new_err(message));
        }
        for (key, value) in row {
            let Ok(key) = key.cast_into::<PyString>() else {
                return Err(PyTypeError::new_err("the keys of a row are str"));
            };
            let key = key.to_str()?;
            let joined;
            let name = match prefix {
                "" => key,
                _ => {
                    joined = format!("{prefix}.{key}");
                    &joined
                }
            };
            let is_scalar = is_scalar(&value);
            if !is_scalar && let Some(inner) = mapping(&value)? {
                self.push_row(&inner, name, depth + 1, document, inference)?;
                continue;
            }
            if self.schema.is_some_and(|schema| schema.field(name).is_none()) {
                continue;
            }
            let items = if is_scalar { None } else { items(&value)? };
            self.push_values(&value, items, name, document, inference)
                .map_err(|error| prefixed(row.py(), &error, &format!("field `{name}`")))?;
        }
        Ok(())
    }

    fn push_values(
        &self,
        value: &Bound<'_, PyAny>,
        items: Option<Bound<'_, PyIterator>>,
        name: &str,
        document: &mut Document,
        inference: &mut Option<&mut Inference>,
    ) -> PyResult<()> {
        if let Some(inference) = inference {
            inference.see(name, items.is_some());
        }
        let mut push = |item: &Bound<'_, PyAny>| -> PyResult<()> {
            if let Some(value) = from_python(item)?.filter(|value| !is_nan(value)) {
                if let Some(inference) = inference {
                    inference.observe(name, &value);
                }
                document.push(name, value);
            }
            Ok(())
        };
        match items {
            None => push(value),
            Some(items) => {
                for item in items {
                    push(&item?)?;
                }
                Ok(())
            }
        }
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::F64(number) if number.is_nan())
}

/// Whether a value is of one of the usual types: then no methods are looked up, which would take
/// longer than all the rest.
fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyBytes>()
}

/// A dictionary, or a copy of another mapping; `None` for other types.
fn mapping<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    if object.is_none() || object.is_instance_of::<PyString>() || !object.hasattr("keys")? {
        return Ok(None);
    }
    let dict = PyDict::new(object.py());
    dict.update(object.cast::<pyo3::types::PyMapping>()?)?;
    Ok(Some(dict))
}

/// The items of a value that is a list, a tuple, a set or an array; `None` for other types.
fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyIterator>>> {
    let is_list = value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>();
    if is_list {
        return value.try_iter().map(Some);
    }
    let dimensions = value.getattr_opt("ndim")?;
    if dimensions.is_some_and(|n| n.extract::<usize>().is_ok_and(|n| n > 0)) {
        return value.call_method0("tolist")?.try_iter().map(Some); // An array of numpy.
    }
    Ok(None)
}
