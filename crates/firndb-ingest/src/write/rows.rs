//! Rows as CSV, TSV or JSON lines.

use crate::format::Format;
use crate::value::{to_json, to_text};
use csv::WriterBuilder;
use firndb::search::Value;
use firndb::{Error, Result};
use serde_json::{Map, Value as Json};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes rows of values as CSV, TSV or JSON lines, which [`Rows`](crate::Rows) reads.
///
/// ```
/// use firndb::search::Value;
/// use firndb_ingest::{Format, RowWriter};
///
/// let columns = ["id".to_string(), "tags".to_string()];
/// let mut writer = RowWriter::new(Vec::new(), "a.csv", Format::Csv, &columns)?;
/// writer.write(&[vec![Value::from(7i64)], vec![Value::from("a"), Value::from("b")]])?;
/// assert_eq!(writer.finish()?, b"id,tags\n7,a|b\n");
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct RowWriter<W: Write> {
    columns: Vec<String>,
    separator: char,
    name: PathBuf,
    to: To<W>,
}

enum To<W: Write> {
    Delimited(Box<csv::Writer<W>>),
    JsonLines(W),
}

impl<W: Write> RowWriter<W> {
    /// A writer of rows with these columns. Writes the header of CSV and TSV. `name` is used in
    /// messages.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for other formats than CSV, TSV and JSON lines; `Io`.
    pub fn new(
        out: W,
        name: impl Into<PathBuf>,
        format: Format,
        columns: &[String],
    ) -> Result<RowWriter<W>> {
        let name = name.into();
        let to = match format {
            Format::Csv | Format::Tsv => {
                let delimiter = if format == Format::Tsv { b'\t' } else { b',' };
                let mut writer = WriterBuilder::new().delimiter(delimiter).from_writer(out);
                writer.write_record(columns).map_err(|e| csv_error(&name, e))?;
                To::Delimited(Box::new(writer))
            }
            Format::JsonLines => To::JsonLines(out),
            other => {
                let message = format!("rows are not written as {}", other.name());
                return Err(Error::invalid(message));
            }
        };
        Ok(RowWriter { columns: columns.to_vec(), separator: '|', name, to })
    }

    /// Separates the values of a multi-valued column in CSV and TSV. The default is `|`.
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Writes a row: the values of each column. In JSON lines a column without a value is omitted,
    /// and several values are an array.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn write(&mut self, values: &[Vec<Value>]) -> Result<()> {
        match &mut self.to {
            To::Delimited(writer) => {
                let mut buffer = [0; 4];
                let separator = &*self.separator.encode_utf8(&mut buffer);
                let cell = |values: &Vec<Value>| {
                    values.iter().map(to_text).collect::<Vec<String>>().join(separator)
                };
                let row = writer.write_record(values.iter().map(cell));
                row.map_err(|e| csv_error(&self.name, e))
            }
            To::JsonLines(out) => {
                let mut object = Map::new();
                for (column, values) in self.columns.iter().zip(values) {
                    match &values[..] {
                        [] => {}
                        [value] => drop(object.insert(column.clone(), to_json(value))),
                        values => {
                            let values = values.iter().map(to_json).collect();
                            object.insert(column.clone(), values);
                        }
                    }
                }
                let written = writeln!(out, "{}", Json::Object(object));
                written.map_err(|e| Error::io("write", &self.name, e))
            }
        }
    }

    /// Writes buffered rows. Returns the output.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn finish(self) -> Result<W> {
        let fail = |e| Error::io("write", &self.name, e);
        match self.to {
            To::JsonLines(mut out) => out.flush().map_err(fail).map(|()| out),
            To::Delimited(writer) => writer.into_inner().map_err(|e| fail(e.into_error())),
        }
    }
}

impl<W: Write> fmt::Debug for RowWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter").field("columns", &self.columns).finish_non_exhaustive()
    }
}

fn csv_error(name: &Path, error: csv::Error) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(e) => Error::io("write", name, e),
        _ => Error::invalid(text),
    }
}
