//! CSV and TSV: a header line, then a record per row.

use crate::parse::csv::CsvRows;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::cells::{self, Cell, ColumnRule};
use crate::records::layout::{Layout, SAMPLE, SAMPLE_BYTES, infer_type};
use crate::records::options::RecordOptions;
use crate::records::text::decode;
use crate::row::Numbered;
use csv::ByteRecord;
use encoding_rs::Encoding;
use firndb::{Error, Result};
use std::collections::VecDeque;
use std::io::BufRead;

/// Reads the rows of one input.
pub(crate) struct DelimitedRecords {
    rows: CsvRows,
    input: usize,
    name: String,
    encoding: Option<&'static Encoding>,
    ahead: VecDeque<Numbered<ByteRecord>>,
    plan: Plan,
}

/// How the cells of a row become a key and a value.
#[derive(Default)]
struct Plan {
    key: usize,
    values: Vec<usize>,
    names: Vec<String>,
    key_name: String,
    rules: Option<Vec<ColumnRule>>,
}

impl DelimitedRecords {
    /// Reads the header. `delimiter` is that of the format.
    pub(crate) fn new(
        reader: Box<dyn BufRead + Send>,
        (input, name): (usize, String),
        delimiter: u8,
        options: &RecordOptions,
    ) -> Result<DelimitedRecords> {
        let encoding = options.encoding;
        if let Some(wide) = encoding.filter(|encoding| !encoding.is_ascii_compatible()) {
            return Err(Error::invalid(format!(
                "{name}: CSV in {} cannot be read; convert the file to UTF-8",
                wide.name()
            )));
        }
        let rows = CsvRows::new(reader, name.as_str().into(), delimiter, options.delimiter)?;
        if rows.columns().is_empty() {
            let message = "the file is empty; a line with the names of its columns comes first";
            return Err(Error::invalid(format!("{name}: {message}")));
        }
        let (ahead, plan) = (VecDeque::new(), Plan::default());
        Ok(DelimitedRecords { rows, input, name, encoding, ahead, plan })
    }

    fn read(&mut self) -> Result<Option<Numbered<ByteRecord>>> {
        let (name, encoding) = (&self.name, self.encoding);
        let Some((line, record)) = self.rows.next_record()? else { return Ok(None) };
        let record = record.and_then(|record| match encoding {
            None => Ok(record.clone()),
            Some(encoding) => {
                let cells = record.iter().map(|cell| decode(Some(encoding), cell, false));
                let cells: Option<ByteRecord> = cells.collect();
                cells.ok_or_else(|| format!("the row is not valid {}", encoding.name()))
            }
        });
        Ok(Some((line, record.map_err(|reason| format!("{name}:{line}: {reason}")))))
    }
}

impl ReadRecords for DelimitedRecords {
    fn infer_layout(&mut self, options: &RecordOptions) -> Result<Option<Layout>> {
        let names: Vec<String> = self.rows.columns().iter().map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = Layout::columns(options.key.as_ref(), &options.values, &names, &self.name)?;
        let guess = options.needs_inference();
        let mut bytes = 0;
        while guess && self.ahead.len() < SAMPLE && bytes < SAMPLE_BYTES {
            let Some(row) = self.read()? else { break };
            bytes += row.1.as_ref().map_or(0, |record| record.as_slice().len());
            self.ahead.push_back(row);
        }
        let infer = |column: &str| {
            let number = names.iter().position(|name| *name == column);
            let rows = self.ahead.iter().filter_map(|(_, row)| row.as_ref().ok());
            infer_type(rows.filter_map(|row| row.get(number?)).map(Cell::Text))
        };
        let mut layout = Layout::of_rows(columns, options.record, infer);
        layout.has_no_rows = guess && self.ahead.is_empty();
        Ok(Some(layout))
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        let names = self.rows.columns();
        let place = |column: &str| {
            names.iter().position(|name| **name == *column).ok_or_else(|| {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                let message = format!("{}: there is no column `{column}`", self.name);
                Error::invalid(format!("{message}; columns are {}", names.join(", ")))
            })
        };
        let key = options.key.as_deref().unwrap_or_default();
        let others = || names.iter().filter(|name| ***name != *key);
        let unknown = others().find(|name| !layout.columns.iter().any(|column| *column == ***name));
        if let Some(name) = unknown.filter(|_| options.values.is_empty()) {
            return Err(Error::invalid(format!(
                "{}: the inputs before have no column `{name}`; name the columns with --value",
                self.name
            )));
        }
        self.plan = Plan {
            key: place(key)?,
            values: layout.columns.iter().map(|c| place(c)).collect::<Result<_>>()?,
            names: layout.columns.clone(),
            key_name: key.to_string(),
            rules: layout.rules(&self.name)?,
        };
        Ok(())
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
        let mut value = Vec::new();
        while !batch.is_full() {
            let row = match self.ahead.pop_front() {
                Some(row) => row,
                // Fast path: the row is encoded without copying it.
                None if self.encoding.is_none() => {
                    let Some((line, record)) = self.rows.next_record()? else { return Ok(false) };
                    match record.and_then(|record| self.plan.record(record, &mut value)) {
                        Ok(key) => batch.push(origin(self.input, line), key, &value),
                        Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
                    }
                    continue;
                }
                None => match self.read()? {
                    Some(row) => row,
                    None => return Ok(false),
                },
            };
            match row {
                (line, Ok(record)) => match self.plan.record(&record, &mut value) {
                    Ok(key) => batch.push(origin(self.input, line), key, &value),
                    Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
                },
                (_, Err(reason)) => batch.push_bad(reason),
            }
        }
        Ok(true)
    }
}

impl Plan {
    /// Writes the value of a row to `out` and returns its key. Empty text is null, and a row whose
    /// key is null is refused.
    fn record<'a>(
        &self,
        row: &'a ByteRecord,
        out: &mut Vec<u8>,
    ) -> std::result::Result<&'a [u8], String> {
        if row[self.key].is_empty() {
            return Err(format!(
                "column `{}`: there is no value, so the row has no key",
                self.key_name
            ));
        }
        out.clear();
        match &self.rules {
            None => self.values.iter().for_each(|&number| out.extend_from_slice(&row[number])),
            Some(rules) => {
                for ((&number, &rule), name) in self.values.iter().zip(rules).zip(&self.names) {
                    cells::field(rule, Cell::Text(&row[number]), out)
                        .map_err(|reason| format!("column `{name}`: {reason}"))?;
                }
            }
        }
        Ok(&row[self.key])
    }
}
