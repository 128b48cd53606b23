//! Writes records of a store as text, CSV, TSV, JSON lines, Parquet, Arrow or Avro.

use crate::cmd::formats::FileFormat;
use crate::cmd::table::shown_key;
use firndb::log::LogStore;
use firndb::search::{Field, Roles, Type};
use firndb::{Error, Result};
use firndb_arrow::document::to_arrow_schema;
use firndb_arrow::record::{KeyValues, log_batches};
use firndb_ingest::{BatchWriter, RecordFormat, RecordWriter, RecordWriterOptions};
use std::io::Write;
use std::path::Path;

/// A writer of one of the text formats; that of `options` is replaced.
pub fn entry_writer<W: Write>(
    out: W,
    name: &Path,
    format: FileFormat,
    options: RecordWriterOptions,
) -> Result<RecordWriter<W>> {
    let format = match format {
        FileFormat::Text => RecordFormat::Text,
        FileFormat::Csv => RecordFormat::Csv,
        FileFormat::Tsv => RecordFormat::Tsv,
        _ => RecordFormat::JsonLines,
    };
    RecordWriter::new(out, name, options.format(format))
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
