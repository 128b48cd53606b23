//! Parquet, Arrow IPC, Avro and record batches of a caller: batches of typed columns.

use crate::format::Format;
use crate::input::{GivenBatches, Progress};
use crate::parse::columnar::{Batches, Columns};
use crate::parse::dialect::Dialect;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::key::write_key;
use crate::records::layout::Layout;
use crate::records::options::RecordOptions;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use firndb::{Error, Result};
use firndb_arrow::avro::{self, Decoder, Type};
use firndb_arrow::column::{self, Encoder, avro_type, encoder, raw_encoder};
use std::cell::RefCell;
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
    /// Indexes of the columns of the key, then of those of the value, in the batches.
    columns: Vec<usize>,
    /// Number of columns of the key.
    keys: usize,
    row_number: bool,
    max_row: usize,
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
    Columns(Option<Columns>),
    Batches(Batches),
}

impl ColumnarRecords {
    /// Opens an input. `path` is that of a file, `reader` yields its bytes.
    pub(crate) fn open(
        format: Format,
        path: Option<&Path>,
        reader: Box<dyn BufRead + Send>,
        id: (usize, String),
        progress: &Progress,
    ) -> Result<ColumnarRecords> {
        let columns = Columns::open(format, path, reader, &id.1, ROWS)?;
        Ok(ColumnarRecords::new(columns, id, progress))
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
        let columns = Columns::given(schema, Box::new(batches), &id.1);
        ColumnarRecords::new(columns, id, progress)
    }

    fn new(
        columns: Columns,
        (input, name): (usize, String),
        progress: &Progress,
    ) -> ColumnarRecords {
        ColumnarRecords {
            schema: columns.schema.clone(),
            file: Opened::Columns(Some(columns)),
            input,
            name,
            progress: progress.clone(),
            columns: Vec::new(),
            keys: 0,
            row_number: false,
            max_row: usize::MAX,
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
            let Some(batch) = batches.next() else { return Ok(None) };
            self.progress.add(batches.bytes);
            let batch = batch?.project(&self.columns).map_err(|e| self.fail(e))?;
            self.batch = Some((batch, 0));
        }
    }

    /// Starts to read the columns in use. The others are not read.
    fn project(&mut self) -> Result<()> {
        let Opened::Columns(columns) = &mut self.file else { return Ok(()) };
        let Some(columns) = columns.take() else { return Ok(()) };
        // A projection keeps the order of the file, so indexes of columns change.
        let mut sorted = self.columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let index = |column: &usize| sorted.binary_search(column).unwrap_or_default();
        self.columns = self.columns.iter().map(index).collect();
        self.file = Opened::Batches(columns.batches(sorted)?);
        Ok(())
    }

    /// Refuses columns that are used and cannot be read: the named ones, or without names all.
    fn check_refused(&self, options: &RecordOptions) -> Result<()> {
        let Opened::Columns(Some(columns)) = &self.file else { return Ok(()) };
        let is_used = |name: &String| {
            options.values.is_empty()
                || options.keys.contains(name)
                || options.values.iter().any(|value| value.name == *name)
        };
        match columns.refused.iter().find(|refused| is_used(&refused.column)) {
            Some(refused) => Err(columns.refuse(refused)),
            None => Ok(()),
        }
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
        self.check_refused(options)?;
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let columns = Layout::columns(options, &names, &self.name)?;
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
        let key = options.keys.iter().flat_map(|key| self.schema.index_of(key));
        let values = layout.columns.iter().flat_map(|name| self.schema.index_of(name));
        self.columns = key.chain(values).collect();
        self.keys = options.keys.len();
        (self.row_number, self.max_row) = (options.row_number, options.dialect.max_row);
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
                let made = match number < self.keys || self.raw {
                    true => raw_encoder(array),
                    false => encoder(array, field.is_nullable()),
                };
                made.map_err(|reason| format!("column `{}`: {reason}", field.name()))
            };
            let writers = (0..rows.num_columns()).map(made).collect::<column::Result<Vec<_>>>();
            let writers = writers.map_err(|reason| self.fail(reason))?;
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for row in 0..rows.num_rows() {
                value.clear();
                let line = self.rows + row as u64 + 1;
                let named = |(column, reason): (usize, String)| {
                    format!("column `{}`: {reason}", fields.field(column).name())
                };
                let part = |column: usize, key: &mut Vec<u8>| writers[column](row, key);
                let mut written = write_key(self.keys, &mut key, part).map_err(named);
                if self.row_number {
                    key.extend_from_slice((batch.rows() + 1).to_string().as_bytes());
                }
                written = written.and_then(|()| {
                    let mut columns = (self.keys..writers.len()).map(|number| {
                        writers[number](row, &mut value).map_err(|reason| named((number, reason)))
                    });
                    columns.try_for_each(|written| written)
                });
                if key.len() + value.len() > self.max_row {
                    let dialect = Dialect::default().max_row(self.max_row);
                    return Err(dialect.too_long(&format!("{}:{line}", self.name), ""));
                }
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
