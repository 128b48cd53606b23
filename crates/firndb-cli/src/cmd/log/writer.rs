//! Writes records of a store as text, CSV, TSV, JSON lines, Parquet, Arrow or Avro.

use crate::cmd::formats::FileFormat;
use crate::cmd::table::shown_key;
use csv::{ByteRecord, Writer, WriterBuilder};
use firndb::log::{Entry, LogStore};
use firndb::search::{Field, Roles, Type};
use firndb::{Error, Result};
use firndb_arrow::document::to_arrow_schema;
use firndb_arrow::record::{KeyValues, log_batches};
use firndb_ingest::{BatchWriter, NO_DIGITS, RecordFormat, RecordWriter, RecordWriterOptions};
use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes the records of a store, one by one.
pub enum EntryWriter<W: Write> {
    Records(Box<RecordWriter<W>>),
    Tsv(Box<TsvWriter<W>>),
}

impl<W: Write> EntryWriter<W> {
    /// A writer of one of the text formats; that of `options` is replaced.
    pub fn new(
        out: W,
        name: &Path,
        format: FileFormat,
        options: RecordWriterOptions,
    ) -> Result<EntryWriter<W>> {
        let format = match format {
            FileFormat::Tsv => {
                return Ok(EntryWriter::Tsv(Box::new(TsvWriter::new(out, name, options)?)));
            }
            FileFormat::Text => RecordFormat::Text,
            FileFormat::Csv => RecordFormat::Csv,
            _ => RecordFormat::JsonLines,
        };
        let writer = RecordWriter::new(out, name, options.format(format))?;
        Ok(EntryWriter::Records(Box::new(writer)))
    }

    pub fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        match self {
            EntryWriter::Records(writer) => writer.write(entry),
            EntryWriter::Tsv(writer) => writer.write(entry),
        }
    }

    /// Returns the output, and the number of records that were written without their expiry.
    pub fn finish(self) -> Result<(W, u64)> {
        match self {
            EntryWriter::Records(writer) => writer.finish(),
            EntryWriter::Tsv(writer) => writer.finish(),
        }
    }
}

/// Writes the header `key`, tab, `value`, and a row per record.
pub struct TsvWriter<W: Write> {
    options: RecordWriterOptions,
    writer: Writer<W>,
    name: PathBuf,
    unexpiring: u64,
}

impl<W: Write> TsvWriter<W> {
    fn new(out: W, name: &Path, options: RecordWriterOptions) -> Result<TsvWriter<W>> {
        let mut writer = WriterBuilder::new().delimiter(b'\t').from_writer(out);
        let header: &[&str] = if options.keys_only { &["key"] } else { &["key", "value"] };
        writer.write_record(header).map_err(|e| csv_error(name, e))?;
        Ok(TsvWriter { options, writer, name: name.to_path_buf(), unexpiring: 0 })
    }

    fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        let Entry { key, value, expiry, .. } = entry;
        let RecordWriterOptions { hex, exact, keys_only, without_expiry, .. } = self.options;
        let expires = expiry.millis().is_some();
        if exact && expires && !without_expiry {
            return Err(does_not_hold_expiry(key));
        }
        let what = match () {
            () if !exact || hex => "",
            () if key.is_empty() => "an empty key",
            () if value.ends_with(b"\r") => "a value that ends with a carriage return",
            () => "",
        };
        if !what.is_empty() {
            return Err(Error::invalid(format!(
                "the record of {} has {what}, which does not come back from this form; use \
                 --format jsonl, or --hex",
                shown_key(key)
            )));
        }
        self.unexpiring += u64::from(expires);
        let shown = |bytes| match hex {
            true => Cow::Owned(hex::encode(bytes).into_bytes()),
            false => Cow::Borrowed(bytes),
        };
        let mut row = ByteRecord::new();
        match hex && key.is_empty() {
            true => row.push_field(NO_DIGITS),
            false => row.push_field(&shown(key)),
        }
        if !keys_only {
            row.push_field(&shown(value));
        }
        self.writer.write_byte_record(&row).map_err(|e| csv_error(&self.name, e))
    }

    fn finish(self) -> Result<(W, u64)> {
        let (name, unexpiring) = (self.name, self.unexpiring);
        let out = self.writer.into_inner().map_err(|e| Error::io("write", &name, e.into_error()));
        Ok((out?, unexpiring))
    }
}

fn csv_error(name: &Path, error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => Error::io("write", name, e),
        other => Error::invalid(format!("{other:?}")),
    }
}

/// Records per batch.
const ROWS: usize = 1 << 14;

/// Writes all records as Parquet, Arrow or Avro, with the columns `key` and `value`; returns their
/// number and that of the records that expire. These are refused unless `without_expiry`: loading
/// the file would not restore their times.
pub fn write_batches<W: Write + Send>(
    store: &LogStore,
    format: FileFormat,
    out: W,
    without_expiry: bool,
    mut progress: impl FnMut(u64),
) -> Result<(W, u64, u64)> {
    let column = |name: &str| Field::new(name, Type::Bytes, Roles::STORED);
    let schema = to_arrow_schema(&[column("key"), column("value")]);
    let mut writer = BatchWriter::new(out, format.format(), &schema)?;
    let (mut records, mut expiring) = (0, 0);
    for batch in log_batches(&store.snapshot(), ROWS) {
        let batch = batch?;
        let entries = KeyValues::new(&batch).map_err(Error::invalid)?;
        for (key, _, expiry) in (0..entries.len()).filter_map(|row| entries.get(row)) {
            if expiry.is_none() {
                continue;
            }
            if !without_expiry {
                return Err(does_not_hold_expiry(key));
            }
            expiring += 1;
        }
        records += batch.num_rows() as u64;
        let batch = batch.project(&[0, 1]).map_err(|e| Error::invalid(e.to_string()))?;
        writer.write(&batch)?;
        progress(records);
    }
    Ok((writer.finish()?, records, expiring))
}

fn does_not_hold_expiry(key: &[u8]) -> Error {
    Error::invalid(format!(
        "the record of {} expires, which this form cannot say; use --format jsonl, or \
         --without-expiry to write such records as if they stayed",
        shown_key(key)
    ))
}
