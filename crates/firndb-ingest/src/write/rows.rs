//! Rows as CSV, TSV or JSON lines.

use crate::format::Format;
use crate::value::{to_json, to_text};
use crate::write::delimited::CsvWriter;
use firndb::search::Value;
use firndb::{Error, Result};
use serde_json::{Map, Value as Json};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

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
    /// For each column whether it can have several values.
    multi: Vec<bool>,
    exact: bool,
    separator: char,
    name: PathBuf,
    to: To<W>,
}

enum To<W: Write> {
    Delimited(CsvWriter<W>),
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
                let mut writer = CsvWriter::new(out, name.clone(), delimiter);
                writer.header(columns)?;
                To::Delimited(writer)
            }
            Format::JsonLines => To::JsonLines(out),
            other => {
                let message = format!("rows are not written as {}", other.name());
                return Err(Error::invalid(message));
            }
        };
        let multi = vec![false; columns.len()];
        let columns = columns.to_vec();
        Ok(RowWriter { columns, multi, exact: true, separator: '|', name, to })
    }

    /// Names the columns that are multi-valued: in CSV and TSV the separator divides even a single
    /// value of them.
    pub fn multi<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        for column in columns {
            if let Some(number) = self.columns.iter().position(|name| name == column) {
                self.multi[number] = true;
            }
        }
        self
    }

    /// Separates the values of a multi-valued column in CSV and TSV. The default is `|`.
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Whether rows of CSV and TSV that would not be read back exactly are refused. The default is
    /// true.
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Writes a row: the values of each column. In JSON lines a column without a value is omitted,
    /// and several values are an array.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a row that CSV and TSV cannot express: one of the values of a
    /// multi-valued column is empty or contains the separator, or the only column has no value;
    /// `Io`.
    pub fn write(&mut self, values: &[Vec<Value>]) -> Result<()> {
        match &mut self.to {
            To::Delimited(writer) => {
                let columns = self.columns.iter().zip(&self.multi).zip(values);
                let cells = columns.map(|((column, multi), values)| {
                    cell(values, self.exact.then_some(*multi), self.separator)
                        .map_err(|reason| Error::invalid(format!("column `{column}`: {reason}")))
                });
                let mut cells = cells.collect::<Result<Vec<_>>>()?;
                if let ([cell @ None], false) = (&mut cells[..], self.exact) {
                    *cell = Some(String::new());
                }
                writer.row(cells)
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
            To::Delimited(writer) => writer.finish(),
        }
    }
}

impl<W: Write> fmt::Debug for RowWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// The text of a cell; `None` without values. The error is the reason why they would not be read
/// back from a column that can have several values or not (`multi`); `None` checks nothing.
fn cell(
    values: &[Value],
    multi: Option<bool>,
    separator: char,
) -> std::result::Result<Option<String>, String> {
    let mut cell = String::new();
    for (n, value) in values.iter().enumerate() {
        let text = to_text(value);
        if multi.is_some_and(|multi| multi || values.len() > 1) {
            if text.is_empty() {
                let reason = "the empty text among several values is not read back from CSV; use \
                              jsonl";
                return Err(reason.to_string());
            }
            if text.contains(separator) {
                let shown: String = text.chars().take(60).collect();
                return Err(format!(
                    "the value `{shown}` contains `{separator}`, so it would be read back as \
                     several values; name another --separator, or use jsonl"
                ));
            }
        }
        if n > 0 {
            cell.push(separator);
        }
        cell += &text;
    }
    Ok((!values.is_empty()).then_some(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_be_divided_are_refused() {
        let columns = ["id".to_string(), "tags".to_string()];
        let writer = || {
            let writer = RowWriter::new(Vec::new(), "a.csv", Format::Csv, &columns).unwrap();
            writer.multi(["tags"])
        };
        let row = |texts: &[&str]| {
            vec![vec![Value::from("x|y")], texts.iter().map(|text| Value::from(*text)).collect()]
        };
        for (texts, reason) in [
            (&["a|b", "c"][..], "column `tags`: the value `a|b` contains `|`"),
            (&["a|b"], "column `tags`: the value `a|b` contains `|`"),
            (&["a", ""], "column `tags`: the empty text"),
            (&[""], "column `tags`: the empty text"),
        ] {
            let error = writer().write(&row(texts)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let mut writer = writer().separator(';');
        writer.write(&row(&["a|b", "c"])).unwrap();
        writer.write(&row(&[])).unwrap();
        assert_eq!(writer.finish().unwrap(), b"id,tags\nx|y,a|b;c\nx|y,\n");
        let writer = RowWriter::new(Vec::new(), "a.csv", Format::Csv, &columns[1..]).unwrap();
        let mut writer = writer.multi(["tags"]).exact(false);
        writer.write(&row(&["a|b", ""])[1..]).unwrap();
        writer.write(&row(&[])[1..]).unwrap();
        assert_eq!(writer.finish().unwrap(), b"tags\na|b|\n\"\"\n");
    }
}
