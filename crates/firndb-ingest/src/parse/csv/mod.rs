//! CSV and TSV: a header line, then a row per record.

mod scan;

use crate::parse::dialect::{Dialect, Ragged};
use crate::parse::text_input::TextInput;
use crate::row::{BadRow, Numbered, Position, RawValue, ReadRows, Row, RowResult};
use firndb::{Error, Result};
use scan::Scanner;
use std::sync::Arc;

pub(crate) use scan::Record;

const CARRIAGE_RETURN: &str = "holds a carriage return; if lines end in it alone, as on old Macs, \
                               convert them first, for example with tr '\\r' '\\n'";

/// Reads the records of one input.
pub(crate) struct CsvRows {
    scanner: Scanner,
    file: Arc<str>,
    columns: Arc<[Arc<str>]>,
    dialect: Dialect,
    record: Record,
    /// `record` is the first row, which was read to count the columns.
    is_ahead: bool,
}

impl CsvRows {
    /// Reads the header. The delimiter is that of the dialect, else the one of the format
    /// (`default`).
    ///
    /// `InvalidArgument` if two columns have the same name, or the only name contains another
    /// delimiter.
    pub(crate) fn new(
        input: TextInput,
        file: Arc<str>,
        default: u8,
        dialect: &Dialect,
    ) -> Result<CsvRows> {
        let delimiter = dialect.delimiter.unwrap_or(default);
        let mut scanner = Scanner::new(input, file.clone(), dialect.clone(), delimiter)?;
        let mut first = Record::default();
        if let Some(Err(reason)) = scanner.read(&mut first)? {
            let hint = match first.get(0).is_some_and(|name| name.starts_with(b"{")) {
                true => "; if this is JSON lines, say --format jsonl",
                false => "",
            };
            return Err(Error::invalid(format!("{file}:{}: {reason}{hint}", scanner.start_line())));
        }
        let place = format!("{file}:{}", scanner.start_line());
        if dialect.delimiter.is_none() {
            check_delimiter(&first, &place, dialect.header)?;
        }
        let columns = match dialect.header {
            true => names(&first, &place)?,
            false => (1..=first.len()).map(unnamed).collect(),
        };
        Ok(CsvRows {
            scanner,
            file,
            columns,
            dialect: dialect.clone(),
            is_ahead: !dialect.header && first.len() > 0,
            record: first,
        })
    }

    /// Names of the columns.
    pub(crate) fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// The next record with the line that it starts on, or the reason why it cannot be used; `None`
    /// at the end. A record has a field for each column.
    pub(crate) fn next_record(&mut self) -> Result<Option<Numbered<&Record>>> {
        if !std::mem::take(&mut self.is_ahead) {
            match self.scanner.read(&mut self.record)? {
                None => return Ok(None),
                Some(Err(reason)) => return Ok(Some((self.scanner.start_line(), Err(reason)))),
                Some(Ok(())) => {}
            }
        }
        let line = self.scanner.start_line();
        if self.record.len() != self.columns.len()
            && let Err(reason) = self.fit()
        {
            return Ok(Some((line, Err(reason))));
        }
        Ok(Some((line, Ok(&self.record))))
    }

    /// Gives a record the number of columns, if that changes no value.
    fn fit(&mut self) -> std::result::Result<(), String> {
        let (fields, columns) = (self.record.len(), self.columns.len());
        let is_empty = |field| self.record.get(field).is_none();
        let fits = match fields > columns {
            // Delimiters behind the last value, as spreadsheets write them.
            true => (columns..fields).all(is_empty),
            false => self.dialect.ragged == Ragged::Fill,
        };
        if fits {
            self.record.set_len(columns);
            return Ok(());
        }
        let where_ = if self.dialect.header { "the header names" } else { "the first row has" };
        let short = match fields < columns {
            true => ", or fill short rows with --ragged fill",
            false => "",
        };
        let values = if fields == 1 { "value" } else { "values" };
        Err(format!(
            "the row has {fields} {values} where {where_} {columns}; check its quotes and \
             separators{short}"
        ))
    }
}

/// The name of a column that the header does not name. `number` counts from 1.
fn unnamed(number: usize) -> Arc<str> {
    format!("column{number}").into()
}

/// The names of the columns in a header. Delimiters behind the last name are no columns.
fn names(header: &Record, place: &str) -> Result<Arc<[Arc<str>]>> {
    let last = (0..header.len()).rfind(|field| header.get(*field).is_some());
    let count = last.map_or(0, |last| last + 1);
    let mut columns: Vec<Arc<str>> = Vec::with_capacity(count);
    for field in 0..count {
        let number = field + 1;
        let wrong = |what: &str| {
            Err(Error::invalid(format!("{place}: column {number} of the header {what}")))
        };
        let name = header.get(field).unwrap_or_default();
        if name.contains(&b'\r') && !header.is_quoted(field) {
            return wrong(CARRIAGE_RETURN);
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return wrong("is not valid UTF-8; name the encoding of the file with --encoding");
        };
        let is_named = !name.is_empty();
        let name = if is_named { Arc::from(name) } else { unnamed(number) };
        match columns.contains(&name) {
            true if is_named => {
                return wrong(&format!("repeats the name `{name}`; rename one of the two"));
            }
            true => return wrong(&format!("has no name, and another one is `{name}`; name it")),
            false => columns.push(name),
        }
    }
    Ok(columns.into())
}

/// `InvalidArgument` if the first row has one value that looks like several.
fn check_delimiter(first: &Record, place: &str, header: bool) -> Result<()> {
    let (1, Some(value), false) = (first.len(), first.get(0), first.is_quoted(0)) else {
        return Ok(());
    };
    let value = String::from_utf8_lossy(value);
    let what = if header { "the header has one column" } else { "the first row has one value" };
    match value.chars().find(|c| ";|\t,".contains(*c)) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "{place}: {what}, `{value}`; if `{0}` divides columns, say --delimiter '{0}'",
            other.escape_default()
        ))),
    }
}

impl ReadRows for CsvRows {
    fn next_row(&mut self) -> Result<Option<RowResult>> {
        let (file, columns) = (self.file.clone(), self.columns.clone());
        let Some((line, record)) = self.next_record()? else { return Ok(None) };
        let position = Position { file, line };
        let record = match record {
            Ok(record) => record,
            Err(reason) => return Ok(Some(Err(BadRow::whole(position, reason)))),
        };
        let mut cells = Vec::with_capacity(columns.len());
        for (column, cell) in columns.iter().zip(record.iter()) {
            let value = match cell.map(std::str::from_utf8) {
                None => RawValue::Missing,
                Some(Ok(text)) => RawValue::Text(text.to_string()),
                Some(Err(_)) => {
                    let column = Some(column.to_string());
                    let reason = "the value is not valid UTF-8; name the encoding of the file \
                                  with --encoding";
                    return Ok(Some(Err(BadRow { position, column, reason: reason.to_string() })));
                }
            };
            cells.push((column.clone(), value));
        }
        Ok(Some(Ok(Row { position, cells, json: None })))
    }
}

#[cfg(test)]
mod tests;
