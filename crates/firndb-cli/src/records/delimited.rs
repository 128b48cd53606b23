//! CSV and TSV: a header line, then a record a row.

use super::cells::{self, Cell};
use super::feed::Wanted;
use super::shape::{Kind, Rule, SAMPLE, SAMPLE_BYTES, Shape};
use super::text::decode;
use super::{Batch, Records, origin};
use crate::ingest::Numbered;
use crate::ingest::csv::CsvRows;
use csv::ByteRecord;
use encoding_rs::Encoding;
use firndb::{Error, Result};
use std::collections::VecDeque;
use std::io::BufRead;

/// Reads the rows of one input.
pub struct DelimitedRecords {
    rows: CsvRows,
    input: usize,
    name: String,
    encoding: Option<&'static Encoding>,
    ahead: VecDeque<Numbered<ByteRecord>>,
    plan: Plan,
}

/// Numbers of the columns, and the names of those of the value.
#[derive(Default)]
struct Plan {
    key: usize,
    values: Vec<usize>,
    names: Vec<String>,
    key_name: String,
    rules: Option<Vec<Rule>>,
}

impl DelimitedRecords {
    /// Reads the header.
    pub fn new(
        reader: Box<dyn BufRead>,
        (input, name): (usize, String),
        usual: u8,
        wanted: &Wanted,
    ) -> Result<DelimitedRecords> {
        let encoding = wanted.encoding;
        if let Some(wide) = encoding.filter(|encoding| !encoding.is_ascii_compatible()) {
            return Err(Error::invalid(format!(
                "{name}: CSV in {} cannot be read; convert the file to UTF-8",
                wide.name()
            )));
        }
        let rows = CsvRows::new(reader, name.as_str().into(), usual, wanted.delimiter)?;
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

impl Records for DelimitedRecords {
    fn shape(&mut self, wanted: &Wanted) -> Result<Option<Shape>> {
        let names: Vec<String> = self.rows.columns().iter().map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = Shape::columns(wanted.key.as_ref(), &wanted.values, &names, &self.name)?;
        let guess = Shape::is_looked_for(wanted);
        let mut bytes = 0;
        while guess && self.ahead.len() < SAMPLE && bytes < SAMPLE_BYTES {
            let Some(row) = self.read()? else { break };
            bytes += row.1.as_ref().map_or(0, |record| record.as_slice().len());
            self.ahead.push_back(row);
        }
        let infer = |column: &str| {
            let number = names.iter().position(|name| *name == column);
            let rows = self.ahead.iter().filter_map(|(_, row)| row.as_ref().ok());
            Kind::infer(rows.filter_map(|row| row.get(number?)).map(Cell::Text))
        };
        let mut shape = Shape::of_rows(columns, wanted.record, infer);
        shape.blind = guess && self.ahead.is_empty();
        Ok(Some(shape))
    }

    fn follow(&mut self, shape: &Shape, wanted: &Wanted) -> Result<()> {
        let names = self.rows.columns();
        let place = |column: &str| {
            names.iter().position(|name| **name == *column).ok_or_else(|| {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                let message = format!("{}: there is no column `{column}`", self.name);
                Error::invalid(format!("{message}; columns are {}", names.join(", ")))
            })
        };
        let key = wanted.key.as_deref().unwrap_or_default();
        let others = || names.iter().filter(|name| ***name != *key);
        let unknown = others().find(|name| !shape.columns.iter().any(|column| *column == ***name));
        if let Some(name) = unknown.filter(|_| wanted.values.is_empty()) {
            return Err(Error::invalid(format!(
                "{}: the inputs before have no column `{name}`; name the columns with --value",
                self.name
            )));
        }
        self.plan = Plan {
            key: place(key)?,
            values: shape.columns.iter().map(|c| place(c)).collect::<Result<_>>()?,
            names: shape.columns.clone(),
            key_name: key.to_string(),
            rules: shape.rules(&self.name)?,
        };
        Ok(())
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        let mut value = Vec::new();
        while !batch.is_full() {
            let row = match self.ahead.pop_front() {
                Some(row) => row,
                // A row that need not be kept is not copied.
                None if self.encoding.is_none() => {
                    let Some((line, record)) = self.rows.next_record()? else { return Ok(false) };
                    match record.and_then(|record| self.plan.record(record, &mut value)) {
                        Ok(key) => batch.push(origin(self.input, line), key, &value),
                        Err(reason) => batch.bad.push(format!("{}:{line}: {reason}", self.name)),
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
                    Err(reason) => batch.bad.push(format!("{}:{line}: {reason}", self.name)),
                },
                (_, Err(reason)) => batch.bad.push(reason),
            }
        }
        Ok(true)
    }
}

impl Plan {
    /// Puts the value of a row into `out` and returns its key. The empty text is null, and a row
    /// whose key is null has no key.
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
