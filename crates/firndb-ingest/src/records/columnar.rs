//! Parquet, Arrow IPC, Avro and record batches of a caller: batches of typed columns.

use crate::input::{GivenBatches, Progress};
use crate::parse::avro::AvroBatches;
use crate::parse::columnar::{arrow_file, ipc_error, open_parquet};
use crate::parse::ipc;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::layout::Layout;
use crate::records::options::RecordOptions;
use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, SchemaRef};
use firndb::{Error, Result};
use firndb_arrow::avro::{self, Decoder, Type};
use firndb_arrow::column::{self, Encoder, avro_type, encoder, raw_encoder};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::cell::RefCell;
use std::fs::File;
use std::io::BufRead;
use std::path::Path;

/// Rows that are encoded at a time.
const ROWS: usize = 1024;

/// Reads the rows of one input.
pub(crate) struct ColumnarRecords {
    file: Opened,
    schema: SchemaRef,
    input: usize,
    name: String,
    progress: Progress,
    /// Indexes of the column of the key, then of those of the value.
    columns: Vec<usize>,
    /// Values are the bytes of a single column.
    raw: bool,
    /// Decodes each value that may exceed the limits of decoders, which encoders do not have.
    check: Option<Decoder>,
    /// The current batch, and its next row.
    batch: Option<(RecordBatch, usize)>,
    /// Rows before the current ones.
    rows: u64,
}

/// An open input, and once the layout is known the batches of the columns in use.
enum Opened {
    Parquet(Option<ParquetRecordBatchReaderBuilder<File>>),
    Batches(Batches),
}

/// Batches, and the bytes by which the progress advances with each.
struct Batches {
    batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>>,
    bytes: u64,
}

impl ColumnarRecords {
    /// Opens a Parquet file.
    pub(crate) fn parquet(
        path: Option<&Path>,
        (number, name): (usize, String),
        progress: &Progress,
    ) -> Result<ColumnarRecords> {
        let builder = open_parquet(path, &name)?;
        let schema = builder.schema().clone();
        let file = Opened::Parquet(Some(builder));
        Ok(ColumnarRecords::new(file, schema, (number, name), progress))
    }

    /// Opens an Avro file.
    pub(crate) fn avro(
        reader: Box<dyn BufRead + Send>,
        id: (usize, String),
        progress: &Progress,
    ) -> Result<ColumnarRecords> {
        let opened = AvroBatches::open(reader, ROWS).map_err(|e| ipc_error(&id.1, &e));
        let (batches, schema) = opened?;
        let batches = Batches { batches: Box::new(batches), bytes: 0 };
        Ok(ColumnarRecords::new(Opened::Batches(batches), schema, id, progress))
    }

    /// Opens an Arrow IPC file or stream. `reader` yields its bytes.
    pub(crate) fn ipc(
        path: Option<&Path>,
        reader: Box<dyn BufRead + Send>,
        id: (usize, String),
        progress: &Progress,
    ) -> Result<ColumnarRecords> {
        let wrong = |e: ArrowError| ipc_error(&id.1, &e);
        if let Some((mut file, bytes)) = arrow_file(path)? {
            ipc::check_file(&mut file, bytes).map_err(wrong)?;
            let batches = FileReader::try_new(file, None).map_err(wrong)?;
            let schema = batches.schema();
            let bytes = bytes / batches.num_batches().max(1) as u64;
            let batches = Batches { batches: Box::new(batches), bytes };
            return Ok(ColumnarRecords::new(Opened::Batches(batches), schema, id, progress));
        }
        let (batches, schema) = ipc::Stream::open(reader).map_err(wrong)?;
        let batches = Batches { batches: Box::new(batches), bytes: 0 };
        Ok(ColumnarRecords::new(Opened::Batches(batches), schema, id, progress))
    }

    /// Takes record batches of a caller. The progress counts rows.
    pub(crate) fn batches(
        schema: SchemaRef,
        batches: GivenBatches,
        id: (usize, String),
        progress: &Progress,
    ) -> ColumnarRecords {
        let rows = progress.clone();
        let batches = batches.inspect(move |batch| {
            rows.add(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64));
        });
        let batches = Batches { batches: Box::new(batches), bytes: 0 };
        ColumnarRecords::new(Opened::Batches(batches), schema, id, progress)
    }

    fn new(
        file: Opened,
        schema: SchemaRef,
        (input, name): (usize, String),
        progress: &Progress,
    ) -> ColumnarRecords {
        ColumnarRecords {
            file,
            schema,
            input,
            name,
            progress: progress.clone(),
            columns: Vec::new(),
            raw: true,
            check: None,
            batch: None,
            rows: 0,
        }
    }

    fn fail(&self, reason: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{}: {reason}", self.name))
    }

    /// The next rows, with only the columns in use, the key first.
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
            self.progress.add(batches.bytes);
            let batch = batch.and_then(|batch| batch.project(&self.columns));
            let batch = batch.map_err(|e| ipc_error(&self.name, &e))?;
            self.batch = Some((batch, 0));
        }
    }

    /// Selects columns of a Parquet file. The others are not read.
    fn project(&mut self) -> Result<()> {
        let Opened::Parquet(builder) = &mut self.file else { return Ok(()) };
        let Some(builder) = builder.take() else { return Ok(()) };
        let rows = builder.metadata().file_metadata().num_rows().max(1) as u64;
        let bytes: i64 = builder.metadata().row_groups().iter().map(|g| g.compressed_size()).sum();
        let mask = ProjectionMask::roots(builder.parquet_schema(), self.columns.iter().copied());
        let batches = builder.with_projection(mask).with_batch_size(ROWS).build();
        let batches =
            batches.map_err(|e| self.fail(format!("this Parquet file cannot be read: {e}")))?;
        // A projection keeps the order of the file, so indexes of columns change.
        let mut sorted = self.columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let index = |column: &usize| sorted.binary_search(column).unwrap_or_default();
        self.columns = self.columns.iter().map(index).collect();
        let bytes = (bytes.max(0) as u64).saturating_mul(ROWS as u64) / rows;
        let batches = Batches { batches: Box::new(batches), bytes };
        self.file = Opened::Batches(batches);
        Ok(())
    }
}

/// Refuses a type whose schema is nested too deeply to be parsed again.
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

impl ReadRecords for ColumnarRecords {
    fn infer_layout(&mut self, options: &RecordOptions) -> Result<Option<Layout>> {
        column::check_names(self.schema.fields()).map_err(|reason| self.fail(reason))?;
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let columns = Layout::columns(options.key.as_ref(), &options.values, &names, &self.name)?;
        let records = RefCell::new(vec!["Row".to_string()]);
        let layout = Layout::new(columns, options.record, |value| {
            if value.ty.is_some() {
                return Err(self.fail(format!("column `{}` has its own type", value.name)));
            }
            let column = self.schema.field_with_name(&value.name).map_err(|e| self.fail(e))?;
            avro_type(column, "Row", &mut records.borrow_mut())
                .and_then(|ty| check_depth(&value.name, ty))
                .map_err(|reason| self.fail(reason))
        });
        layout.map(Some)
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        // The layout of this file by itself must be that of all inputs.
        let same = |own: &Layout| own.columns == layout.columns && own.types == layout.types;
        if let Some(own) = self.infer_layout(options)?.filter(|own| !same(own)) {
            let difference = own.columns.iter().find(|c| !layout.columns.contains(c));
            return Err(self.fail(match difference {
                Some(column) => format!("the inputs before have no column `{column}`"),
                None => "its columns or their types differ from those of the inputs before".into(),
            }));
        }
        let key = options.key.iter().flat_map(|key| self.schema.index_of(key));
        let values = layout.columns.iter().flat_map(|name| self.schema.index_of(name));
        self.columns = key.chain(values).collect();
        self.raw = layout.types.is_none();
        if layout.types.iter().flatten().any(Type::has_empty_items) {
            self.check = Some(Decoder::new(&layout.schema()).map_err(Error::invalid)?);
        }
        self.project()
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
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
                if let (Ok(()), Some(decoder)) = (&written, &self.check) {
                    written = decoder.json(&value).map(drop);
                }
                match written {
                    Ok(()) => batch.push(origin(self.input, line), &key, &value),
                    Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
                }
            }
            self.rows += rows.num_rows() as u64;
        }
        Ok(true)
    }
}
