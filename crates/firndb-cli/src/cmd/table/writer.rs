//! Writes records of a table as text, CSV, TSV, JSON lines, Parquet, Arrow or Avro.

use super::{Shown, put_bytes, shown_key};
use crate::cmd::formats::FileFormat;
use crate::cmd::rows_batch::RowBatches;
use firndb::search::{self, Roles, Type};
use firndb::table::Table;
use firndb::{Error, Result};
use firndb_arrow::avro::Field;
use firndb_arrow::document::to_arrow_schema;
use firndb_arrow::record::table_batches;
use firndb_ingest::{BatchWriter, CsvWriter};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of a [`RecordsOf`].
pub struct Options {
    pub format: FileFormat,
    /// Separates key and value in text.
    pub separator: Vec<u8>,
    pub keys_only: bool,
    /// Refuses records that a build would not read back exactly.
    pub exact: bool,
}

/// Writes records of a table.
pub struct RecordsOf<'a, W: Write + Send> {
    shown: &'a Shown,
    options: Options,
    /// Columns of the rows, if values are rows, and whether each has values of any type.
    columns: Option<Vec<(String, bool)>>,
    to: To<W>,
    /// Name of the output in messages.
    name: PathBuf,
}

enum To<W: Write + Send> {
    Text(W),
    Delimited(CsvWriter<W>),
    Jsonl(W),
    Rows(Box<RowBatches<W>>),
}

impl<'a, W: Write + Send> RecordsOf<'a, W> {
    /// A writer to `out`, of any format but those of [`write_batches`].
    pub fn new(out: W, name: &Path, options: Options, shown: &'a Shown) -> Result<Self> {
        let columns = shown.record_type().map(|record| {
            let column = |field: &Field| (field.column.clone(), field.ty.is_any());
            record.fields.iter().map(column).collect::<Vec<_>>()
        });
        // Columns of rows stand beside the key.
        let names = columns.iter().flatten().map(|(name, _)| name);
        if names.clone().any(|name| name == "key") && (options.exact || is_delimited(&options)) {
            let message = "the rows have a column `key`, besides the keys of the table, so they \
                           cannot be exported; `firn table scan --json` prints them";
            return Err(Error::invalid(message));
        }
        let to = match options.format {
            FileFormat::Text => To::Text(out),
            FileFormat::Jsonl => To::Jsonl(out),
            FileFormat::Csv | FileFormat::Tsv => {
                let delimiter = if options.format == FileFormat::Tsv { b'\t' } else { b',' };
                let mut writer = CsvWriter::new(out, name, delimiter);
                let mut header = vec!["key"];
                match &columns {
                    _ if options.keys_only => {}
                    Some(columns) => header.extend(columns.iter().map(|(name, _)| name.as_str())),
                    None => header.push("value"),
                }
                writer.header(&header)?;
                To::Delimited(writer)
            }
            FileFormat::Parquet | FileFormat::Arrow | FileFormat::Avro => match shown.record_type()
            {
                Some(record) => {
                    let format = options.format.format();
                    To::Rows(Box::new(RowBatches::new(out, format, record)?))
                }
                None => return Err(Error::invalid("values are not rows")),
            },
        };
        Ok(RecordsOf { shown, options, columns, to, name: name.to_path_buf() })
    }

    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.options.exact {
            self.check(key, value)?;
        }
        let fail = |e| Error::io("write", &self.name, e);
        let value = (!self.options.keys_only).then_some(value);
        match &mut self.to {
            To::Text(out) => {
                out.write_all(key).map_err(fail)?;
                if let Some(value) = value {
                    out.write_all(&self.options.separator).map_err(fail)?;
                    out.write_all(&self.shown.text(key, value)?).map_err(fail)?;
                }
                out.write_all(b"\n").map_err(fail)
            }
            To::Jsonl(out) => {
                let mut object = Map::new();
                put_bytes(&mut object, "key", key);
                match (value, self.options.exact.then_some(&self.columns)) {
                    (None, _) => {}
                    (Some(value), Some(Some(_))) => {
                        let row = self.shown.record(key, value)?.unwrap_or_default();
                        let Json::Object(row) = row else { return Err(not_a_row(key)) };
                        object.extend(row);
                    }
                    (Some(value), _) => self.shown.json(key, value, &mut object)?,
                }
                writeln!(out, "{}", Json::Object(object)).map_err(fail)
            }
            To::Rows(rows) => rows.push(key, value.unwrap_or_default()),
            To::Delimited(writer) => {
                let mut row = vec![Some(Cow::Borrowed(key))];
                match value {
                    None => {}
                    Some(value) => match (self.shown.record(key, value)?, &self.columns) {
                        (Some(record), Some(columns)) => {
                            let cells = columns.iter().map(|(name, any)| cell(&record[name], *any));
                            row.extend(cells.map(|cell| cell.map(Cow::Owned)));
                        }
                        (Some(record), None) => row.push(cell(&record, true).map(Cow::Owned)),
                        (None, _) => {
                            row.push(Some(Cow::Borrowed(value)).filter(|value| !value.is_empty()));
                        }
                    },
                }
                writer.row(row)
            }
        }
    }

    /// `InvalidArgument` if the format cannot express the record.
    fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let format = self.options.format;
        let is_text = format == FileFormat::Text;
        let what = match format {
            FileFormat::Jsonl if self.columns.is_some() && std::str::from_utf8(key).is_err() => {
                return Err(Error::invalid(format!(
                    "the key {} of a row is not text, which does not come back from JSON lines; \
                     use parquet",
                    shown_key(key)
                )));
            }
            FileFormat::Jsonl | FileFormat::Parquet | FileFormat::Arrow | FileFormat::Avro => {
                return Ok(());
            }
            _ if key.is_empty() => "an empty key",
            _ if value.ends_with(b"\r") && self.columns.is_none() => {
                "a value that ends with a carriage return"
            }
            _ if is_text && (key.contains(&b'\n') || value.contains(&b'\n')) => "a newline",
            _ if is_text && !ends_at(key, &self.options.separator) => "a separator in its key",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!(
            "the record of {} has {what}, which does not come back from this format; use jsonl",
            shown_key(key)
        )))
    }

    pub fn finish(self) -> Result<W> {
        let fail = |e| Error::io("write", &self.name, e);
        match self.to {
            To::Text(mut out) | To::Jsonl(mut out) => out.flush().map_err(fail).map(|()| out),
            To::Delimited(writer) => writer.finish(),
            To::Rows(rows) => rows.finish(),
        }
    }
}

/// Writes the keys and values of a table as Parquet, Arrow or Avro; returns the number of records.
pub fn write_batches<W: Write + Send>(
    table: &Table,
    format: FileFormat,
    out: W,
    mut progress: impl FnMut(u64),
) -> Result<(W, u64)> {
    let column = |name: &str| search::Field::new(name, Type::Bytes, Roles::STORED);
    let schema = to_arrow_schema(&[column("key"), column("value")]);
    let mut writer = BatchWriter::new(out, format.format(), &schema)?;
    let mut records = 0;
    for batch in table_batches(table, ROWS) {
        let batch = batch?;
        records += batch.num_rows() as u64;
        writer.write(&batch)?;
        progress(records);
    }
    Ok((writer.finish()?, records))
}

/// Records per batch.
const ROWS: usize = 1 << 14;

/// Whether the first separator after a key begins where the key ends.
fn ends_at(key: &[u8], separator: &[u8]) -> bool {
    let line = [key, separator].concat();
    let first = line.windows(separator.len().max(1)).position(|part| part == separator);
    first.is_none_or(|at| at == key.len())
}

fn is_delimited(options: &Options) -> bool {
    !options.keys_only && matches!(options.format, FileFormat::Csv | FileFormat::Tsv)
}

fn not_a_row(key: &[u8]) -> Error {
    Error::corrupt(format!("the value of {} is not a row", shown_key(key)))
}

/// A value in CSV: nothing for null, text unchanged, anything else as JSON. In a column of any
/// type, a text is JSON too: otherwise `1` could be a text or a number.
fn cell(value: &Json, any: bool) -> Option<Vec<u8>> {
    match value {
        Json::Null => None,
        Json::String(text) if !any => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}
