//! Record batches of inputs of any format.

use crate::format::Format;
use crate::input::{Compression, Input, Progress, Source, read_error};
use crate::parse::columnar::{Batches, Columns};
use crate::parse::dialect::Dialect;
use crate::rows::{RowOptions, Rows};
use crate::typer::{PayloadSource, Typer, TyperOptions};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use firndb::search::Schema;
use firndb::{Error, Result};
use firndb_arrow::document::{BatchBuilder, to_arrow_schema};
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a [`BatchReader`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchOptions {
    /// Format of the input.
    pub format: Format,
    /// How text inputs are written.
    pub dialect: Dialect,
    /// Schema of CSV, TSV and JSON lines; `None` infers it. Columns that are not fields are
    /// ignored.
    pub schema: Option<Schema>,
    /// Rows from which a schema is inferred.
    pub sample: usize,
    /// Texts that stand for "no value" in CSV and TSV.
    pub null_texts: Vec<String>,
    /// Maximum number of rows of a batch.
    pub batch_rows: usize,
    /// Skips and counts rows of CSV, TSV and JSON lines that cannot be used, instead of returning
    /// an error.
    pub skip_bad_rows: bool,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            format: Format::Auto,
            dialect: Dialect::default(),
            schema: None,
            sample: 10_000,
            null_texts: Vec::new(),
            batch_rows: 8192,
            skip_bad_rows: false,
        }
    }
}

impl BatchOptions {
    /// Sets [`BatchOptions::format`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets [`BatchOptions::dialect`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets [`BatchOptions::schema`].
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets [`BatchOptions::sample`].
    pub fn sample(mut self, rows: usize) -> Self {
        self.sample = rows;
        self
    }

    /// Sets [`BatchOptions::null_texts`].
    pub fn null_texts(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.null_texts = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`BatchOptions::batch_rows`].
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// Sets [`BatchOptions::skip_bad_rows`].
    pub fn skip_bad_rows(mut self, skip: bool) -> Self {
        self.skip_bad_rows = skip;
        self
    }
}

/// Reads an input as record batches of one schema: columns of Parquet, Arrow IPC and Avro as they
/// are, those of CSV, TSV and JSON lines with a given or inferred schema.
///
/// Errors of the iterator end it: `Io`; `Corrupt` for damaged files; `InvalidArgument` for rows
/// that cannot be used, and for what a file has and FirnDB does not support.
///
/// ```
/// use firndb_ingest::{BatchOptions, BatchReader, RowOptions, Rows};
///
/// let csv = &b"id,price\n7,1.5\n8,2\n"[..];
/// let rows = Rows::from_reader("a.csv", csv, RowOptions::default());
/// let reader = BatchReader::from_rows(rows, BatchOptions::default())?;
/// assert_eq!(reader.schema().field(1).data_type().to_string(), "Float64");
/// let batches = reader.collect::<firndb::Result<Vec<_>>>()?;
/// assert_eq!(batches[0].num_rows(), 2);
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct BatchReader {
    schema: SchemaRef,
    batches: Made,
    is_done: bool,
}

/// How the batches are made.
enum Made {
    Columns(Batches),
    Rows(Box<RowBatches>),
}

impl BatchReader {
    /// Opens an input. Parquet needs a file.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if the input cannot be read; `Corrupt` if it is damaged: cut off, with a
    /// wrong checksum, or otherwise not what its format demands; `InvalidArgument` if it is of
    /// another format, has a type or a feature that is not supported, or no schema can be inferred.
    pub fn open(input: &Input, options: BatchOptions) -> Result<BatchReader> {
        BatchReader::start(Source::Input(input.clone()), options)
    }

    /// Reads a reader. `name` is used in messages, and its extension determines the format. Parquet
    /// needs a file.
    ///
    /// # Errors
    ///
    /// As [`BatchReader::open`].
    pub fn from_reader(
        name: impl Into<PathBuf>,
        reader: impl Read + Send + 'static,
        options: BatchOptions,
    ) -> Result<BatchReader> {
        let source = Source::Reader { name: name.into(), reader: Box::new(reader) };
        BatchReader::start(source, options)
    }

    fn start(mut source: Source, options: BatchOptions) -> Result<BatchReader> {
        let name = source.name();
        let mut reader = source.open(Compression::Auto, &Progress::default())?;
        let head = reader.fill_buf().map_err(|e| read_error(&name, e))?;
        let format = options.format.detect(source.path(), head, true);
        if format == Format::Text {
            let message = format!("{name}: separated text has no columns");
            return Err(Error::invalid(message));
        }
        if !format.has_types() {
            let rows = RowOptions::default().format(format).dialect(options.dialect.clone());
            let rows = Rows::from_reader(&*name, reader, rows);
            return BatchReader::from_rows(rows, options);
        }
        let batch_rows = options.batch_rows.max(1);
        let columns = Columns::open(format, source.file(), reader, &name, batch_rows)?;
        let schema = columns.schema.clone();
        Ok(BatchReader { schema, batches: Made::Columns(columns.all()?), is_done: false })
    }

    /// Batches of rows, with [`BatchOptions::schema`] or an inferred schema.
    ///
    /// # Errors
    ///
    /// As [`Rows::infer_schema`].
    pub fn from_rows(mut rows: Rows, options: BatchOptions) -> Result<BatchReader> {
        let schema = match options.schema.clone() {
            Some(schema) => schema,
            None => rows.infer_schema(options.sample, &options.null_texts)?,
        };
        let arrow = Arc::new(to_arrow_schema(schema.fields()));
        let rows = RowBatches { rows, schema, options, bad_rows: 0 };
        Ok(BatchReader { schema: arrow, batches: Made::Rows(Box::new(rows)), is_done: false })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of rows skipped so far.
    pub fn bad_rows(&self) -> u64 {
        match &self.batches {
            Made::Columns(_) => 0,
            Made::Rows(rows) => rows.bad_rows,
        }
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = match &mut self.batches {
            Made::Columns(batches) => batches.next(),
            Made::Rows(rows) => rows.next_batch().transpose(),
        };
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl fmt::Debug for BatchReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReader").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Builds batches from rows.
struct RowBatches {
    rows: Rows,
    schema: Schema,
    options: BatchOptions,
    bad_rows: u64,
}

impl RowBatches {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let options = TyperOptions::default()
            .null_texts(&self.options.null_texts)
            .payload(PayloadSource::None);
        let mut typer = Typer::new(&self.schema, options);
        let mut builder = BatchBuilder::new(self.schema.fields());
        while builder.len() < self.options.batch_rows.max(1) {
            let Some(row) = self.rows.next_row()? else { break };
            match row.and_then(|row| typer.document(&row)) {
                Ok(document) => builder.push(&document)?,
                Err(_) if self.options.skip_bad_rows => self.bad_rows += 1,
                Err(bad) => return Err(Error::invalid(bad.to_string())),
            }
        }
        if builder.is_empty() { Ok(None) } else { builder.finish().map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::BatchWriter;
    use std::fs::File;

    /// Writes the batches of a CSV text in a format, reads them, and compares.
    #[test]
    fn batches_round_trip_through_formats_with_types() {
        let csv = &b"id,name,tag\n7,seven,\n8,eight,x\n9,nine,y\n"[..];
        let rows = Rows::from_reader("a.csv", csv, RowOptions::default());
        let reader = BatchReader::from_rows(rows, BatchOptions::default().batch_rows(2)).unwrap();
        let schema = reader.schema().clone();
        let batches = reader.collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1]);
        let all = arrow_rows(&batches);
        for format in [Format::Parquet, Format::Arrow, Format::Avro] {
            let name = format!("firndb-batches-{}.{}", std::process::id(), format.name());
            let path = std::env::temp_dir().join(name);
            let mut writer =
                BatchWriter::new(File::create(&path).unwrap(), format, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
            let read = BatchReader::open(&Input::File(path.clone()), BatchOptions::default());
            let read = read.unwrap().collect::<Result<Vec<_>>>().unwrap();
            assert_eq!(arrow_rows(&read), all, "{format:?}");
            std::fs::remove_file(path).unwrap();
        }
    }

    fn arrow_rows(batches: &[RecordBatch]) -> Vec<String> {
        let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| (batch, i)));
        rows.map(|(batch, i)| format!("{:?}", batch.slice(i, 1).columns())).collect()
    }

    #[test]
    fn bad_rows_end_the_batches_or_are_counted() {
        let rows = || {
            let csv = &b"id\n7\nx\n8\n"[..];
            Rows::from_reader("a.csv", csv, RowOptions::default())
        };
        let schema = Schema::from_toml("[fields]\nid = \"i64 full\"\n").unwrap();
        let options = BatchOptions::default().schema(schema);
        let mut reader = BatchReader::from_rows(rows(), options.clone()).unwrap();
        let error = reader.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("a.csv:3: column `id`: `x` is not of type i64"), "{error}");
        assert!(reader.next().is_none());
        let mut reader = BatchReader::from_rows(rows(), options.skip_bad_rows(true)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().num_rows(), 2);
        assert_eq!(reader.bad_rows(), 1);
    }
}
