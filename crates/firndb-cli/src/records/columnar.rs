//! Parquet and Arrow IPC: batches of typed columns.

use super::feed::Wanted;
use super::shape::Shape;
use super::{Batch, Records, ipc, origin};
use crate::ingest::source::Input;
use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use firndb::{Error, Result};
use firndb_arrow::avro::{self, Decoder, Type};
use firndb_arrow::column::{self, Encoder, avro_type, encoder, raw_encoder};
use indicatif::ProgressBar;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::sync::Arc;

/// Rows that are taken at a time.
const ROWS: usize = 1024;

/// Reads the rows of one input.
pub struct ColumnarRecords {
    file: Opened,
    schema: SchemaRef,
    input: usize,
    name: String,
    progress: ProgressBar,
    /// Numbers of the columns: of the key, then of the value.
    columns: Vec<usize>,
    /// Values are a column as it is.
    raw: bool,
    /// Reads values of which not everything that can be written can be read.
    shown: Option<Decoder>,
    /// The batch at hand, and its next row.
    batch: Option<(RecordBatch, usize)>,
    /// Rows taken before.
    rows: u64,
}

/// An input that was opened, and then the batches of the columns that are needed.
enum Opened {
    Parquet(Option<ParquetRecordBatchReaderBuilder<File>>),
    Batches(Batches),
}

/// Batches, and the bytes that the progress advances by with each.
struct Batches {
    batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>>,
    bytes: u64,
}

impl ColumnarRecords {
    /// Opens a Parquet file. It is read from its end, so standard input is refused.
    pub fn parquet(
        input: &Input,
        (number, name): (usize, String),
        progress: &ProgressBar,
    ) -> Result<ColumnarRecords> {
        let Input::File(path) = input else {
            let message = "Parquet cannot be read from standard input; name the file";
            return Err(Error::invalid(message));
        };
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let builder = parquet_reader(file).map_err(|e| {
            Error::invalid(format!("{name}: this Parquet file cannot be read: {e}"))
        })?;
        let schema = builder.schema().clone();
        let file = Opened::Parquet(Some(builder));
        Ok(ColumnarRecords::new(file, schema, (number, name), progress))
    }

    /// Opens an Arrow IPC file or stream; `reader` gives its bytes.
    pub fn ipc(
        input: &Input,
        reader: Box<dyn BufRead>,
        place: (usize, String),
        progress: &ProgressBar,
    ) -> Result<ColumnarRecords> {
        let wrong = |e: ArrowError| ipc_error(&place.1, &e);
        if let Some((mut file, bytes)) = arrow_file(input)? {
            ipc::check_file(&mut file, bytes).map_err(wrong)?;
            let batches = FileReader::try_new(file, None).map_err(wrong)?;
            let schema = batches.schema();
            let bytes = bytes / batches.num_batches().max(1) as u64;
            let batches = Batches { batches: Box::new(batches), bytes };
            return Ok(ColumnarRecords::new(Opened::Batches(batches), schema, place, progress));
        }
        let (batches, schema) = ipc::Stream::open(reader).map_err(wrong)?;
        let batches = Batches { batches: Box::new(batches), bytes: 0 };
        Ok(ColumnarRecords::new(Opened::Batches(batches), schema, place, progress))
    }

    fn new(
        file: Opened,
        schema: SchemaRef,
        (input, name): (usize, String),
        progress: &ProgressBar,
    ) -> ColumnarRecords {
        ColumnarRecords {
            file,
            schema,
            input,
            name,
            progress: progress.clone(),
            columns: Vec::new(),
            raw: true,
            shown: None,
            batch: None,
            rows: 0,
        }
    }

    fn fail(&self, reason: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{}: {reason}", self.name))
    }

    /// The next rows, of the columns that are needed alone: the key first.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((batch, from)) = &mut self.batch
                && *from < batch.num_rows()
            {
                let rows = ROWS.min(batch.num_rows() - *from);
                let slice = batch.slice(*from, rows);
                *from += rows;
                return Ok(Some(slice));
            }
            let Opened::Batches(batches) = &mut self.file else { return Ok(None) };
            let Some(batch) = batches.batches.next() else { return Ok(None) };
            self.progress.inc(batches.bytes);
            let batch = batch.and_then(|batch| batch.project(&self.columns));
            let batch = batch.map_err(|e| ipc_error(&self.name, &e))?;
            self.batch = Some((batch, 0));
        }
    }

    /// Chooses columns of a Parquet file: the others are not read.
    fn choose(&mut self) -> Result<()> {
        let Opened::Parquet(builder) = &mut self.file else { return Ok(()) };
        let Some(builder) = builder.take() else { return Ok(()) };
        let rows = builder.metadata().file_metadata().num_rows().max(1) as u64;
        let bytes: i64 = builder.metadata().row_groups().iter().map(|g| g.compressed_size()).sum();
        let mask = ProjectionMask::roots(builder.parquet_schema(), self.columns.iter().copied());
        let batches = builder.with_projection(mask).with_batch_size(ROWS).build();
        let batches =
            batches.map_err(|e| self.fail(format!("this Parquet file cannot be read: {e}")))?;
        // A projection keeps the order of the file: `columns` become places in it.
        let mut sorted = self.columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let place = |column: &usize| sorted.binary_search(column).unwrap_or_default();
        self.columns = self.columns.iter().map(place).collect();
        let bytes = (bytes.max(0) as u64).saturating_mul(ROWS as u64) / rows;
        let batches = Batches { batches: Box::new(batches), bytes };
        self.file = Opened::Batches(batches);
        Ok(())
    }
}

/// Opens a Parquet file. Its oldest kind of timestamp, INT96, is of microseconds then: nanoseconds,
/// which the reader takes for it, overflow without a word outside the years 1677 to 2262.
fn parquet_reader(
    file: File,
) -> std::result::Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    let mut metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let columns = metadata.parquet_schema().columns().iter();
    let mut old = columns.map(|column| column.physical_type() == Physical::INT96);
    if old.clone().any(|old| old) {
        let fields = metadata.schema().fields().iter().map(|field| micros(field, &mut old));
        let fields: Fields = fields.collect();
        let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
    }
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
}

/// A column whose INT96 are of microseconds. `old` says of each column without columns below, in
/// their order, whether it is one.
fn micros(column: &FieldRef, old: &mut impl Iterator<Item = bool>) -> FieldRef {
    let ty = match column.data_type() {
        DataType::List(item) => DataType::List(micros(item, old)),
        DataType::LargeList(item) => DataType::LargeList(micros(item, old)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(micros(item, old), *size),
        DataType::Map(entries, sorted) => DataType::Map(micros(entries, old), *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| micros(field, old)).collect())
        }
        ty => match (old.next(), ty) {
            (Some(true), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => ty.clone(),
        },
    };
    Arc::new(Field::clone(column).with_data_type(ty))
}

/// An Arrow IPC file that can be read at any place, and its length; `None` for a stream or for what
/// is compressed as a whole.
fn arrow_file(input: &Input) -> Result<Option<(BufReader<File>, u64)>> {
    let Input::File(path) = input else { return Ok(None) };
    let fail = |e| Error::io("open", path, e);
    let file = File::open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len();
    let mut file = BufReader::new(file);
    let mut mark = Vec::new();
    file.by_ref().take(6).read_to_end(&mut mark).map_err(fail)?;
    let is_file = mark == b"ARROW1" && file.rewind().is_ok();
    Ok(is_file.then_some((file, bytes)))
}

/// A type, unless its schema is one that cannot be read again.
fn check_depth(column: &str, ty: Type) -> column::Result<Type> {
    let field = avro::Field { column: column.to_string(), ty: ty.clone() };
    let row = Type::Record(avro::Record { name: "Row".to_string(), fields: vec![field] });
    match Type::parse(&row.to_json().to_string()) {
        Ok(_) => Ok(ty),
        Err(_) => Err(format!(
            "column `{column}`: it is nested more deeply than values can be shown; name the other \
             columns with --value"
        )),
    }
}

fn ipc_error(name: &str, error: &ArrowError) -> Error {
    // Some of them are of several lines.
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    Error::invalid(format!("{name}: the columns cannot be read: {reason}"))
}

impl Records for ColumnarRecords {
    fn shape(&mut self, wanted: &Wanted) -> Result<Option<Shape>> {
        column::check_names(self.schema.fields()).map_err(|reason| self.fail(reason))?;
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let columns = Shape::columns(wanted.key.as_ref(), &wanted.values, &names, &self.name)?;
        let records = RefCell::new(vec!["Row".to_string()]);
        let shape = Shape::new(columns, wanted.record, |asked| {
            if asked.kind.is_some() {
                return Err(self.fail(format!("column `{}` has its own type", asked.name)));
            }
            let column = self.schema.field_with_name(&asked.name).map_err(|e| self.fail(e))?;
            avro_type(column, "Row", &mut records.borrow_mut())
                .and_then(|ty| check_depth(&asked.name, ty))
                .map_err(|reason| self.fail(reason))
        });
        shape.map(Some)
    }

    fn follow(&mut self, shape: &Shape, wanted: &Wanted) -> Result<()> {
        // What this file alone would become must be what all become.
        let same = |own: &Shape| own.columns == shape.columns && own.types == shape.types;
        if let Some(own) = self.shape(wanted)?.filter(|own| !same(own)) {
            let difference = own.columns.iter().find(|c| !shape.columns.contains(c));
            return Err(self.fail(match difference {
                Some(column) => format!("the inputs before have no column `{column}`"),
                None => "its columns or their types differ from those of the inputs before".into(),
            }));
        }
        let key = wanted.key.iter().flat_map(|key| self.schema.index_of(key));
        let values = shape.columns.iter().flat_map(|name| self.schema.index_of(name));
        self.columns = key.chain(values).collect();
        self.raw = shape.types.is_none();
        if shape.types.iter().flatten().any(Type::has_empty_items) {
            self.shown = Some(Decoder::new(&shape.schema()).map_err(Error::invalid)?);
        }
        self.choose()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        while !batch.is_full() {
            let Some(rows) = self.next_rows()? else { return Ok(false) };
            let fields = rows.schema();
            let made = |number: usize| -> column::Result<Encoder<'_>> {
                let (array, field) = (rows.column(number).as_ref(), fields.field(number));
                let made = match number == 0 || self.raw {
                    true => raw_encoder(array),
                    false => encoder(array, field.is_nullable()),
                };
                made.map_err(|reason| format!("column `{}`: {reason}", field.name()))
            };
            let writers = (0..rows.num_columns()).map(made).collect::<column::Result<Vec<_>>>();
            let writers = writers.map_err(|reason| self.fail(reason))?;
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for row in 0..rows.num_rows() {
                key.clear();
                value.clear();
                let line = self.rows + row as u64 + 1;
                let mut written = writers.iter().enumerate().try_for_each(|(number, write)| {
                    let out = if number == 0 { &mut key } else { &mut value };
                    let name = fields.field(number).name();
                    write(row, out).map_err(|reason| format!("column `{name}`: {reason}"))
                });
                if let (Ok(()), Some(decoder)) = (&written, &self.shown) {
                    written = decoder.json(&value).map(drop);
                }
                match written {
                    Ok(()) => batch.push(origin(self.input, line), &key, &value),
                    Err(reason) => batch.bad.push(format!("{}:{line}: {reason}", self.name)),
                }
            }
            self.rows += rows.num_rows() as u64;
        }
        Ok(true)
    }
}
