//! Rows of inputs, one after the other, with a look ahead for the inference of a schema.

use crate::format::{Format, row_format};
use crate::input::{Compression, Input, Progress, Source, read_error};
use crate::parse::batch_rows::{BATCH_ROWS, BatchRows};
use crate::parse::columnar::Columns;
use crate::parse::csv::CsvRows;
use crate::parse::dialect::Dialect;
use crate::parse::json_lines::JsonRows;
use crate::parse::text_input::TextInput;
use crate::row::{ReadRows, Row, RowResult};
use firndb::search::Schema;
use firndb::{Error, Result};
use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// Options of [`Rows`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RowOptions {
    /// Format of all inputs; [`Format::Auto`] detects that of each.
    pub format: Format,
    /// Compression of all inputs.
    pub compression: Compression,
    /// How text inputs are written.
    pub dialect: Dialect,
    /// Receives the bytes that were read.
    pub progress: Progress,
}

impl RowOptions {
    /// Sets [`RowOptions::format`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets [`RowOptions::compression`].
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets [`RowOptions::dialect`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets [`RowOptions::progress`].
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// The rows of inputs in their order. One input is open at a time.
///
/// As an iterator it yields rows; a [`BadRow`](crate::BadRow) is the inner error, an input that
/// cannot be read any further the outer one.
///
/// ```
/// use firndb_ingest::{RawValue, RowOptions, Rows};
///
/// let csv = &b"id,price\n7,1.5\n8\n"[..];
/// let mut rows = Rows::from_reader("prices.csv", csv, RowOptions::default());
/// let row = rows.next_row()?.unwrap().unwrap();
/// assert_eq!(row.get("id"), Some(&RawValue::Text("7".to_string())));
/// let bad = rows.next_row()?.unwrap().unwrap_err();
/// assert!(bad.to_string().starts_with("prices.csv:3: the row has 1 value"));
/// assert!(rows.next_row()?.is_none());
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct Rows {
    sources: VecDeque<Source>,
    options: RowOptions,
    open: Option<Box<dyn ReadRows>>,
    ahead: VecDeque<RowResult>,
}

impl Rows {
    /// The rows of `inputs`. Inputs are opened as reading reaches them.
    pub fn new(inputs: impl IntoIterator<Item = Input>, options: RowOptions) -> Rows {
        let sources = inputs.into_iter().map(Source::Input).collect();
        Rows { sources, options, open: None, ahead: VecDeque::new() }
    }

    /// The rows of a file.
    pub fn from_path(path: impl Into<PathBuf>, options: RowOptions) -> Rows {
        Rows::new([Input::File(path.into())], options)
    }

    /// The rows of a reader. `name` is used in messages, and its extension determines the format.
    pub fn from_reader(
        name: impl Into<PathBuf>,
        reader: impl Read + Send + 'static,
        options: RowOptions,
    ) -> Rows {
        let source = Source::Reader { name: name.into(), reader: Box::new(reader) };
        Rows { sources: [source].into(), options, open: None, ahead: VecDeque::new() }
    }

    /// The next row; `None` after the last row of the last input.
    ///
    /// # Errors
    ///
    /// If an input cannot be read any further: `NotFound`; `Io`; `Corrupt` if its compression is
    /// damaged, or it is a damaged Parquet, Arrow or Avro file; `InvalidArgument` if it is of
    /// another format, or has a type or a feature that is not supported.
    pub fn next_row(&mut self) -> Result<Option<RowResult>> {
        match self.ahead.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.read(),
        }
    }

    /// Returns at least the next `count` rows without consuming them, or fewer at the end. The flag
    /// is true if these are all remaining rows.
    ///
    /// # Errors
    ///
    /// As [`Rows::next_row`].
    pub fn look_ahead(&mut self, count: usize) -> Result<(&VecDeque<RowResult>, bool)> {
        while self.ahead.len() <= count {
            match self.read()? {
                Some(row) => self.ahead.push_back(row),
                None => return Ok((&self.ahead, true)),
            }
        }
        Ok((&self.ahead, false))
    }

    /// Infers a schema from the next `sample` rows without taking them: see
    /// [`infer`](crate::infer). Memory: these rows.
    ///
    /// # Errors
    ///
    /// As [`Rows::next_row`]; `InvalidArgument` if no row can be used.
    pub fn infer_schema(&mut self, sample: usize, null_texts: &[String]) -> Result<Schema> {
        let (ahead, complete) = self.look_ahead(sample)?;
        let good = ahead.iter().filter_map(|row| row.as_ref().ok());
        let schema = crate::infer(good, null_texts, complete).map_err(|e| {
            let file = ahead.iter().find_map(|row| row.as_ref().ok()).map(|row| &row.position.file);
            let place = file.map_or(String::new(), |file| format!("{file}: "));
            Error::new(e.kind(), format!("{place}{}", e.message()))
        })?;
        if !schema.fields().is_empty() {
            return Ok(schema);
        }
        Err(match ahead.iter().find_map(|row| row.as_ref().err()) {
            Some(bad) => Error::invalid(bad.to_string()),
            None => Error::invalid("there are no rows to infer a schema from"),
        })
    }

    fn read(&mut self) -> Result<Option<RowResult>> {
        loop {
            if let Some(open) = &mut self.open {
                match open.next_row()? {
                    Some(Ok(row)) if row.json.is_none() => {
                        // Texts have the same limit for their lines, which are never shorter.
                        let dialect = &self.options.dialect;
                        match row.size() > dialect.max_row {
                            true => return Err(dialect.too_long(&row.position.to_string(), "")),
                            false => return Ok(Some(Ok(row))),
                        }
                    }
                    Some(row) => return Ok(Some(row)),
                    None => self.open = None,
                }
            }
            match self.sources.pop_front() {
                Some(source) => self.open = Some(self.open_source(source)?),
                None => return Ok(None),
            }
        }
    }

    fn open_source(&self, mut source: Source) -> Result<Box<dyn ReadRows>> {
        let RowOptions { format, compression, dialect, progress } = &self.options;
        let mut reader = source.open(*compression, progress)?;
        let by_name = source.path().and_then(row_format);
        let name = source.name();
        let name: Arc<str> = name.into();
        let head = reader.fill_buf().map_err(|e| read_error(&name, e))?;
        let (format, is_guess) = match (format, by_name) {
            (Format::Auto, None | Some(Format::Auto)) => (Format::of_rows(head), true),
            (Format::Auto, Some(format)) => (format, false),
            (format, _) => (*format, false),
        };
        if format.has_types() {
            let columns = Columns::open(format, source.file(), reader, &name, BATCH_ROWS)?;
            return Ok(Box::new(BatchRows::new(columns.all()?, name)));
        }
        let mut input = TextInput::new(reader, &name, dialect, false)?;
        let format = match is_guess {
            true => {
                let head = input.fill_buf();
                let head = head.map_err(|e| read_error(&name, e))?;
                Format::of_rows(dialect.first_row(head))
            }
            false => format,
        };
        Ok(match format {
            Format::JsonLines => Box::new(JsonRows::new(input, name, dialect)),
            Format::Tsv => Box::new(CsvRows::new(input, name, b'\t', dialect)?),
            _ => Box::new(CsvRows::new(input, name, b',', dialect)?),
        })
    }
}

impl Iterator for Rows {
    type Item = Result<std::result::Result<Row, crate::BadRow>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("options", &self.options).finish_non_exhaustive()
    }
}
