//! Parquet and Arrow IPC: batches of typed columns.

use super::arrow::{self, Writer, raw_writer, type_of, writer};
use super::feed::Wanted;
use super::shape::Shape;
use super::{Batch, Records, origin};
use crate::ingest::source::Input;
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use firndb::{Error, Result};
use indicatif::ProgressBar;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

/// Rows that are taken at a time.
const ROWS: usize = 1024;

/// Most units of 8 bytes that the mark at the beginning of an Arrow file has with its padding.
const MARK_UNITS: usize = 8;

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
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| {
            Error::invalid(format!("{name}: this Parquet file cannot be read: {e}"))
        })?;
        let schema = builder.schema().clone();
        let file = Opened::Parquet(Some(builder));
        Ok(ColumnarRecords::new(file, schema, (number, name), progress))
    }

    /// Opens an Arrow IPC file or stream; `reader` gives its bytes.
    pub fn ipc(
        input: &Input,
        mut reader: Box<dyn BufRead>,
        place: (usize, String),
        progress: &ProgressBar,
    ) -> Result<ColumnarRecords> {
        let wrong = |e: ArrowError| ipc_error(&place.1, &e);
        if let Some((file, bytes)) = arrow_file(input)? {
            let batches = FileReader::try_new(file, None).map_err(wrong)?;
            let schema = batches.schema();
            let bytes = bytes / batches.num_batches().max(1) as u64;
            let batches = Batches { batches: Box::new(batches), bytes };
            return Ok(ColumnarRecords::new(Opened::Batches(batches), schema, place, progress));
        }
        let read_error = |e| Error::io("read", Path::new(&place.1), e);
        // In a file that comes as a stream, the stream stands between two marks. Zeros may follow
        // the first, which no message begins with.
        let mut unit = [0; 8];
        let mut known: &[u8] = &[];
        if reader.fill_buf().map_err(read_error)?.starts_with(b"ARROW1") {
            for _ in 0..=MARK_UNITS {
                reader.read_exact(&mut unit).map_err(read_error)?;
                if !unit.starts_with(b"ARROW1") && unit != [0; 8] {
                    known = &unit;
                    break;
                }
            }
        }
        let reader = Cursor::new(known.to_vec()).chain(reader);
        let batches = StreamReader::try_new(reader, None).map_err(wrong)?;
        let schema = batches.schema();
        let batches = Batches { batches: Box::new(batches), bytes: 0 };
        Ok(ColumnarRecords::new(Opened::Batches(batches), schema, place, progress))
    }

    fn new(
        file: Opened,
        schema: SchemaRef,
        (input, name): (usize, String),
        progress: &ProgressBar,
    ) -> ColumnarRecords {
        let progress = progress.clone();
        let (columns, batch) = (Vec::new(), None);
        ColumnarRecords { file, schema, input, name, progress, columns, raw: true, batch, rows: 0 }
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

fn ipc_error(name: &str, error: &ArrowError) -> Error {
    Error::invalid(format!("{name}: the columns cannot be read: {error}"))
}

impl Records for ColumnarRecords {
    fn shape(&mut self, wanted: &Wanted) -> Result<Option<Shape>> {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let columns = Shape::columns(wanted.key.as_ref(), &wanted.values, &names, &self.name)?;
        let records = RefCell::new(vec!["Row".to_string()]);
        let shape = Shape::new(columns, wanted.record, |asked| {
            if asked.kind.is_some() {
                return Err(self.fail(format!("column `{}` has its own type", asked.name)));
            }
            let column = self.schema.field_with_name(&asked.name).map_err(|e| self.fail(e))?;
            type_of(column, "Row", &mut records.borrow_mut()).map_err(|reason| self.fail(reason))
        });
        shape.map(Some)
    }

    fn follow(&mut self, shape: &Shape, wanted: &Wanted) -> Result<()> {
        // What this file alone would become must be what all become.
        if let Some(own) = self.shape(wanted)?.filter(|own| own != shape) {
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
        self.choose()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        while !batch.is_full() {
            let Some(rows) = self.next_rows()? else { return Ok(false) };
            let fields = rows.schema();
            let made = |number: usize| -> arrow::Result<Writer> {
                let (array, field) = (rows.column(number).as_ref(), fields.field(number));
                let made = match number == 0 || self.raw {
                    true => raw_writer(array),
                    false => writer(array, field.is_nullable()),
                };
                made.map_err(|reason| format!("column `{}`: {reason}", field.name()))
            };
            let writers = (0..rows.num_columns()).map(made).collect::<arrow::Result<Vec<_>>>();
            let writers = writers.map_err(|reason| self.fail(reason))?;
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for row in 0..rows.num_rows() {
                key.clear();
                value.clear();
                let line = self.rows + row as u64 + 1;
                let mut written = Ok(());
                for (number, write) in writers.iter().enumerate() {
                    let out = if number == 0 { &mut key } else { &mut value };
                    written = write(row, out).map_err(|reason| (number, reason));
                    if written.is_err() {
                        break;
                    }
                }
                match written {
                    Ok(()) => batch.push(origin(self.input, line), &key, &value),
                    Err((number, reason)) => batch.bad.push(format!(
                        "{}:{line}: column `{}`: {reason}",
                        self.name,
                        fields.field(number).name()
                    )),
                }
            }
            self.rows += rows.num_rows() as u64;
        }
        Ok(true)
    }
}
