//! Rows of any source into partitions.

use crate::arrow::capsule::{Arrays, invalid};
use crate::build::dialect::DialectOptions;
use crate::error::Result;
use crate::search::query::order_of;
use crate::search::rows::{infer_rows, load_rows};
use crate::search::schema::schema_of_arrays;
use crate::search::task::{self, Task};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use firndb::indexer::partition_name;
use firndb::search::{Document, OrderBy, Payload, Schema};
use firndb::{Error, ErrorKind};
use firndb_arrow::document::DocumentReader;
use firndb_ingest::{
    BytesFormat, DataFiles, Format, Parts, PayloadSource, Progress, RowOptions, Rows, Typer,
    TyperOptions, document, expand,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of rows that a schema is inferred from; later rows are checked against it.
pub const SAMPLE: usize = 100_000;

/// Maximum number of bad rows that a report has.
const SHOWN: usize = 5;

/// Options of a build, items of a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    /// The name of the partition of all documents.
    partition: String,
    partition_by: Option<String>,
    partitions: Option<u32>,
    /// `None`, `row` or the name of a column.
    payload: Option<String>,
    null_texts: Vec<String>,
    skip: bool,
    memory_bytes: usize,
    temp_dir: Option<PathBuf>,
    format: String,
    dialect: DialectOptions,
    separator: char,
    hex: bool,
    order_by: Option<Order>,
}

/// The order of the documents in a partition.
struct Order(Vec<OrderBy>);

impl<'a, 'py> FromPyObject<'a, 'py> for Order {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Order> {
        Ok(Order(order_of(&object, None)?))
    }
}

/// Rows, rows that were skipped, and why the first of them were.
pub type Report = (u64, u64, Vec<String>);

/// Where documents go, and what became of the rows.
pub struct Sink {
    pub parts: Parts,
    by: By,
    skip: bool,
    rows: u64,
    skipped: u64,
    first: Vec<String>,
}

enum By {
    Name(String),
    Field(String),
    Numbers(Vec<String>),
}

/// Reads all rows of a source.
pub fn load(
    py: Python<'_>,
    kind: &str,
    source: &Bound<'_, PyAny>,
    schema: Option<Schema>,
    dir: &Path,
    options: &Options,
    progress: Option<Py<PyAny>>,
) -> Result<(Parts, Report)> {
    options.check()?;
    let sink = match kind {
        "files" => {
            let paths: Vec<PathBuf> = source.extract()?;
            let format = format_of(&options.format)?;
            task::run(py, progress, |task| load_files(task, &paths, format, schema, dir, options))?
        }
        "arrow" => {
            let Some(arrays) = Arrays::import(source)? else {
                return Err(PyTypeError::new_err("the object has no Arrow capsules").into());
            };
            task::run(py, progress, |task| load_arrays(task, arrays, schema, dir, options))?
        }
        _ => load_rows(py, source, schema, dir, options, progress)?,
    };
    Ok((sink.parts, (sink.rows, sink.skipped, sink.first)))
}

fn format_of(name: &str) -> Result<Format> {
    let formats = [
        ("auto", Format::Auto),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("jsonl", Format::JsonLines),
        ("parquet", Format::Parquet),
        ("arrow", Format::Arrow),
        ("avro", Format::Avro),
    ];
    let found = formats.into_iter().find(|(known, _)| *known == name);
    let names = formats.map(|(name, _)| name).join(", ");
    let wrong = || PyValueError::new_err(format!("format is one of {names}, not {name:?}"));
    Ok(found.ok_or_else(wrong)?.1)
}

impl Options {
    fn check(&self) -> Result<()> {
        if self.memory_bytes < 1 << 20 {
            let message = "memory_bytes is too small: a build needs at least 1 MiB";
            return Err(PyValueError::new_err(message).into());
        }
        if self.partitions == Some(0) {
            return Err(PyValueError::new_err("partitions is at least 1").into());
        }
        Ok(())
    }

    pub fn payload(&self) -> PayloadSource {
        match self.payload.as_deref() {
            None => PayloadSource::None,
            Some("row") => PayloadSource::Row,
            Some(column) => PayloadSource::Column(column.to_string()),
        }
    }

    /// The given schema, or an inferred one, with the order of these options.
    pub fn schema(
        &self,
        given: Option<Schema>,
        infer: impl FnOnce() -> firndb::Result<Schema>,
    ) -> firndb::Result<Schema> {
        let schema = match (given, &self.payload) {
            (Some(schema), _) => schema,
            (None, None) => infer()?,
            (None, Some(_)) => infer()?.payload(Payload::Zstd { level: 3, dictionary: false }),
        };
        match &self.order_by {
            Some(Order(order)) => schema.order_by(order.clone()),
            None => Ok(schema),
        }
    }
}

impl Sink {
    pub fn new(schema: &Schema, dir: &Path, options: &Options) -> firndb::Result<Sink> {
        if let Some(field) = &options.partition_by
            && schema.field(field).is_none()
            && !schema.is_dynamic()
        {
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name.as_str()).collect();
            let message = format!("there is no field `{field}`; fields are {}", names.join(", "));
            return Err(Error::invalid(message));
        }
        let by = match (&options.partition_by, options.partitions) {
            (Some(field), _) => By::Field(field.clone()),
            (None, Some(count)) => By::Numbers((0..count).map(|n| format!("{n:05}")).collect()),
            (None, None) => By::Name(options.partition.clone()),
        };
        let mut parts = Parts::new(schema, options.memory_bytes, dir);
        if let Some(dir) = &options.temp_dir {
            parts = parts.temp_dir(dir);
        }
        Ok(Sink { parts, by, skip: options.skip, rows: 0, skipped: 0, first: Vec::new() })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the document of the next row. The error is that of the whole build, or of the document:
    /// then the caller passes it to [`Sink::skip`] with the place of the row.
    pub fn add(&mut self, document: &Document) -> firndb::Result<()> {
        let number;
        let name = match &self.by {
            By::Name(name) => name,
            By::Numbers(names) => &names[self.rows as usize % names.len()],
            By::Field(field) => {
                let mut values = document.fields().filter(|(name, _)| name == field);
                number = partition_name(values.next().map(|(_, value)| value));
                &number
            }
        };
        self.parts.add(name, document)?;
        self.rows += 1;
        Ok(())
    }

    /// Counts a row that cannot be used; true if the build goes on without it.
    pub fn skip(&mut self, reason: impl FnOnce() -> String) -> bool {
        if self.skip {
            self.rows += 1;
            self.skipped += 1;
            if self.first.len() < SHOWN {
                self.first.push(reason());
            }
        }
        self.skip
    }

    /// [`Sink::add`] and [`Sink::skip`], with the place of the row.
    fn take(
        &mut self,
        document: std::result::Result<Document, String>,
        place: impl Fn() -> String,
    ) -> firndb::Result<()> {
        let reason = match document {
            Err(reason) => reason,
            Ok(document) => match self.add(&document) {
                Ok(()) => return Ok(()),
                Err(e) if e.kind() != ErrorKind::InvalidArgument => return Err(e),
                Err(e) => e.message().to_string(),
            },
        };
        let message = || format!("{}: {reason}", place());
        if self.skip(message) { Ok(()) } else { Err(Error::invalid(message())) }
    }
}

/// The rows of files. Reports the bytes that were read to `task`.
fn open_rows(
    task: Option<&Arc<Task>>,
    paths: &[PathBuf],
    format: Format,
    options: &Options,
) -> firndb::Result<Rows> {
    let inputs = expand(paths, DataFiles::Rows)?;
    let dialect = options.dialect.dialect()?;
    let mut row_options = RowOptions::default().format(format).dialect(dialect);
    if let Some(task) = task {
        let sizes: Option<Vec<u64>> = inputs.iter().map(|input| input.size()).collect();
        task.meter.set_total(sizes.map(|sizes| sizes.iter().sum()));
        let task = task.clone();
        row_options = row_options.progress(Progress::new(move |bytes| task.meter.add(bytes)));
    }
    Ok(Rows::new(inputs, row_options))
}

/// The schema that a build of this source would infer.
#[pyfunction]
pub fn infer_schema(
    py: Python<'_>,
    kind: &str,
    source: &Bound<'_, PyAny>,
    options: Options,
) -> Result<super::schema::Schema> {
    let schema = match kind {
        "files" => {
            let paths: Vec<PathBuf> = source.extract()?;
            let format = format_of(&options.format)?;
            task::run(py, None, |_| {
                let mut rows = open_rows(None, &paths, format, &options)?;
                rows.infer_schema(SAMPLE, &options.null_texts)
            })?
        }
        "arrow" => return super::schema::Schema::from_arrow(source),
        _ => infer_rows(source)?,
    };
    Ok(super::schema::Schema { schema })
}

fn load_files(
    task: &Arc<Task>,
    paths: &[PathBuf],
    format: Format,
    schema: Option<Schema>,
    dir: &Path,
    options: &Options,
) -> firndb::Result<Sink> {
    let mut rows = open_rows(Some(task), paths, format, options)?;
    let is_inferred = schema.is_none();
    let infer = || rows.infer_schema(SAMPLE, &options.null_texts);
    let schema = options.schema(schema, infer)?;
    let mut sink = Sink::new(&schema, dir, options)?;
    let bytes = if options.hex { BytesFormat::Hex } else { BytesFormat::Text };
    let typer_options = TyperOptions::default()
        .null_texts(&options.null_texts)
        .separator(options.separator)
        .payload(options.payload())
        .strict(is_inferred)
        .bytes(bytes);
    let mut typer = Typer::new(&schema, typer_options);
    while let Some(row) = rows.next_row()? {
        task.check()?;
        let (position, document) = match row {
            Ok(row) => (row.position.clone(), typer.document(&row)),
            Err(bad) => (bad.position.clone(), Err(bad)),
        };
        let document = document.map_err(|bad| {
            let column = bad.column.map_or(String::new(), |column| format!("column `{column}`: "));
            let hint = match is_inferred {
                true => ". The schema was inferred from the rows before: give one",
                false => "",
            };
            format!("{column}{}{hint}", bad.reason)
        });
        sink.take(document, || position.to_string())?;
    }
    Ok(sink)
}

fn load_arrays(
    task: &Task,
    arrays: Arrays,
    schema: Option<Schema>,
    dir: &Path,
    options: &Options,
) -> firndb::Result<Sink> {
    let schema = options.schema(schema, || schema_of_arrays(&arrays))?;
    let mut sink = Sink::new(&schema, dir, options)?;
    for array in arrays {
        let array = array.map_err(invalid)?;
        if !matches!(array.data_type(), DataType::Struct(_)) {
            let message = format!("rows are record batches, not arrays of {}", array.data_type());
            return Err(Error::invalid(message));
        }
        let rows = array.as_struct();
        if rows.null_count() > 0 {
            return Err(Error::invalid("a record batch has rows that are null"));
        }
        let batch = RecordBatch::from(rows.clone());
        let reader = DocumentReader::new(&batch, &schema).map_err(Error::invalid)?;
        let payload = payload_column(&batch, &options.payload())?;
        for row in 0..reader.len() {
            task.check()?;
            let document = reader.document(row).map(|document| match options.payload() {
                PayloadSource::Row => with_json(document),
                _ => match &payload {
                    Some(payload) => document.payload(payload(row)),
                    None => document,
                },
            });
            let number = sink.rows();
            sink.take(document, || format!("row {number}"))?;
        }
        task.meter.add(batch.num_rows() as u64);
    }
    Ok(sink)
}

/// The document with its fields as a JSON object in the payload.
pub fn with_json(document: Document) -> Document {
    let json = document::to_json(&document).to_string();
    document.payload(json)
}

/// The payload of a row.
type GetPayload<'a> = Box<dyn Fn(usize) -> Vec<u8> + 'a>;

/// Reads payloads from a column of texts or bytes.
fn payload_column<'a>(
    batch: &'a RecordBatch,
    payload: &PayloadSource,
) -> firndb::Result<Option<GetPayload<'a>>> {
    let PayloadSource::Column(name) = payload else { return Ok(None) };
    let Some(array) = batch.column_by_name(name) else {
        return Err(Error::invalid(format!("there is no column `{name}` for the payload")));
    };
    macro_rules! of {
        ($values:expr) => {{
            let values = $values;
            Box::new(move |row| match values.is_valid(row) {
                true => AsRef::<[u8]>::as_ref(values.value(row)).to_vec(),
                false => Vec::new(),
            })
        }};
    }
    let get: GetPayload<'a> = match array.data_type() {
        DataType::Utf8 => of!(array.as_string::<i32>()),
        DataType::LargeUtf8 => of!(array.as_string::<i64>()),
        DataType::Utf8View => of!(array.as_string_view()),
        DataType::Binary => of!(array.as_binary::<i32>()),
        DataType::LargeBinary => of!(array.as_binary::<i64>()),
        DataType::BinaryView => of!(array.as_binary_view()),
        ty => {
            let message = format!("column `{name}` is a payload of texts or bytes, not of {ty}");
            return Err(Error::invalid(message));
        }
    };
    Ok(Some(get))
}
