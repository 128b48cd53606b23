//! Writes CSV and TSV that the readers read back exactly.

use firndb::{Error, Result};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Bytes that are buffered.
const BUFFER: usize = 1 << 13;

/// Writes rows of cells as CSV or TSV. A cell without a value is nothing between two delimiters,
/// the empty text is a pair of quotes.
///
/// ```
/// use firndb_ingest::CsvWriter;
///
/// let mut writer = CsvWriter::new(Vec::new(), "a.csv", b',');
/// writer.header(&["id", "name"])?;
/// writer.row([Some("7"), Some("a \"b\"")])?;
/// writer.row([Some(""), None])?;
/// assert_eq!(writer.finish()?, b"id,name\n7,\"a \"\"b\"\"\"\n\"\",\n");
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct CsvWriter<W: Write> {
    out: W,
    name: PathBuf,
    delimiter: u8,
    buffer: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// A writer to `out`. `name` is used in messages.
    pub fn new(out: W, name: impl Into<PathBuf>, delimiter: u8) -> CsvWriter<W> {
        CsvWriter { out, name: name.into(), delimiter, buffer: Vec::new() }
    }

    /// Writes the names of the columns.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a name is empty, or two are the same; `Io`.
    pub fn header(&mut self, names: &[impl AsRef<str>]) -> Result<()> {
        for (n, name) in names.iter().enumerate() {
            let name = name.as_ref();
            let is_twice = names[..n].iter().any(|other| other.as_ref() == name);
            if name.is_empty() || is_twice {
                return Err(Error::invalid(format!(
                    "column `{name}` cannot be in the header of CSV: every column has a name of \
                     its own; use jsonl"
                )));
            }
            // The reader takes one name with a delimiter in it for several without quotes.
            let quoted = name.contains([';', '|', '\t', ',']);
            self.cell(n, Some(name.as_bytes()), quoted);
        }
        self.end_row()
    }

    /// Writes a row. `None` is a cell without a value.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a row of one cell without a value, or of no cells: its line would be
    /// empty, which is no row; `Io`.
    pub fn row<C: AsRef<[u8]>>(
        &mut self,
        cells: impl IntoIterator<Item = Option<C>>,
    ) -> Result<()> {
        let (mut count, mut values) = (0, 0);
        for cell in cells {
            values += usize::from(cell.is_some());
            self.cell(count, cell.as_ref().map(AsRef::as_ref), false);
            count += 1;
        }
        if count <= 1 && values == 0 {
            let what =
                if count == 0 { "without columns" } else { "whose only column has no value" };
            return Err(Error::invalid(format!(
                "a row {what} is an empty line in CSV, which is skipped when it is read; use jsonl"
            )));
        }
        self.end_row()
    }

    fn cell(&mut self, column: usize, cell: Option<&[u8]>, quoted: bool) {
        if column > 0 {
            self.buffer.push(self.delimiter);
        }
        let Some(text) = cell else { return };
        let is_special =
            |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == self.delimiter;
        // A byte order mark at the start of a file is not a part of the first name.
        let is_mark = text.starts_with("\u{feff}".as_bytes());
        if !quoted && !text.is_empty() && !is_mark && !text.iter().any(is_special) {
            return self.buffer.extend_from_slice(text);
        }
        self.buffer.push(b'"');
        let mut rest = text;
        while let Some(quote) = memchr::memchr(b'"', rest) {
            self.buffer.extend_from_slice(&rest[..=quote]);
            self.buffer.push(b'"');
            rest = &rest[quote + 1..];
        }
        self.buffer.extend_from_slice(rest);
        self.buffer.push(b'"');
    }

    fn end_row(&mut self) -> Result<()> {
        self.buffer.push(b'\n');
        match self.buffer.len() < BUFFER {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.out.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| Error::io("write", &self.name, e))
    }

    /// Writes buffered rows. Returns the output.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.out.flush().map_err(|e| Error::io("write", &self.name, e))?;
        Ok(self.out)
    }
}

impl<W: Write> fmt::Debug for CsvWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvWriter").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RawValue, RowOptions, Rows};
    use std::io::Cursor;

    #[test]
    fn cells_come_back_as_they_were() {
        let cells = [
            None,
            Some(""),
            Some("a,b"),
            Some("\t\"\""),
            Some("a\r"),
            Some("\n"),
            Some("\0"),
            Some("\u{feff}"),
            Some(" "),
            Some("\\N"),
            Some("#"),
        ];
        for (delimiter, name) in [(b',', "a.csv"), (b'\t', "a.tsv")] {
            let mut writer = CsvWriter::new(Vec::new(), name, delimiter);
            writer.header(&["\u{feff}a;", "b"]).unwrap();
            let pairs = || cells.iter().flat_map(|a| cells.iter().map(move |b| [*a, *b]));
            pairs().for_each(|pair| writer.row(pair).unwrap());
            let text = Cursor::new(writer.finish().unwrap());
            let rows = Rows::from_reader(name, text, RowOptions::default());
            let found = rows.map(|row| {
                let row = row.unwrap().unwrap();
                assert_eq!((&*row.cells[0].0, &*row.cells[1].0), ("\u{feff}a;", "b"));
                let value = |n: usize| match &row.cells[n].1 {
                    RawValue::Text(text) => Some(text.clone()),
                    _ => None,
                };
                [value(0), value(1)]
            });
            let owned = |pair: [Option<&str>; 2]| pair.map(|cell| cell.map(str::to_string));
            assert_eq!(found.collect::<Vec<_>>(), pairs().map(owned).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_would_not_come_back_is_refused() {
        let mut writer = CsvWriter::new(Vec::new(), "a.csv", b',');
        assert!(writer.header(&["a", ""]).is_err() && writer.header(&["a", "b", "a"]).is_err());
        assert!(writer.row([None::<&str>]).unwrap_err().to_string().contains("an empty line"));
        assert!(writer.row([Some("")]).is_ok());
    }

    /// A header of delimiters names no columns, and the rows below it have no cells. They were
    /// written as empty lines, which are no rows: a fuzz target found it.
    #[test]
    fn rows_without_cells_are_refused() {
        let rows = Rows::from_reader("a.csv", &b",\n,\n"[..], RowOptions::default());
        let rows = rows.map(|row| row.unwrap().unwrap().cells.len()).collect::<Vec<_>>();
        assert_eq!(rows, [0]);
        let mut writer = CsvWriter::new(Vec::new(), "a.csv", b',');
        writer.header(&[] as &[&str]).unwrap();
        let error = writer.row([] as [Option<&str>; 0]).unwrap_err();
        assert!(error.to_string().contains("a row without columns is an empty line"), "{error}");
    }
}
