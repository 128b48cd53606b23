//! CSV and TSV: a header line, then a record per row.

use crate::parse::csv::{CsvRows, Record};
use crate::parse::text_input::TextInput;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::cells::{self, Cell, ColumnRule};
use crate::records::key::write_key;
use crate::records::layout::{Layout, SAMPLE, SAMPLE_BYTES, infer_type, no_column};
use crate::records::options::RecordOptions;
use crate::row::Numbered;
use firndb::{Error, Result};
use std::collections::VecDeque;

/// Reads the rows of one input.
pub(crate) struct DelimitedRecords {
    rows: CsvRows,
    input: usize,
    name: String,
    ahead: VecDeque<Numbered<Record>>,
    plan: Plan,
}

/// How the cells of a row become a key and a value.
#[derive(Default)]
struct Plan {
    keys: Vec<usize>,
    key_names: Vec<String>,
    row_number: bool,
    values: Vec<usize>,
    names: Vec<String>,
    rules: Option<Vec<ColumnRule>>,
}

impl DelimitedRecords {
    /// Reads the header. `delimiter` is that of the format.
    pub(crate) fn new(
        reader: TextInput,
        (input, name): (usize, String),
        delimiter: u8,
        options: &RecordOptions,
    ) -> Result<DelimitedRecords> {
        let rows = CsvRows::new(reader, name.as_str().into(), delimiter, &options.dialect)?;
        if rows.columns().is_empty() {
            let message = "the file is empty; a line with the names of its columns comes first";
            return Err(Error::invalid(format!("{name}: {message}")));
        }
        let (ahead, plan) = (VecDeque::new(), Plan::default());
        Ok(DelimitedRecords { rows, input, name, ahead, plan })
    }
}

/// A cell of a row.
fn cell(row: &Record, number: usize) -> Cell<'_> {
    row.get(number).map_or(Cell::Missing, Cell::Text)
}

impl ReadRecords for DelimitedRecords {
    fn infer_layout(&mut self, options: &RecordOptions) -> Result<Option<Layout>> {
        let names: Vec<String> = self.rows.columns().iter().map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = Layout::columns(options, &names, &self.name)?;
        let guess = options.needs_inference();
        let mut bytes = 0;
        while guess && self.ahead.len() < SAMPLE && bytes < SAMPLE_BYTES {
            let Some((line, row)) = self.rows.next_record()? else { break };
            bytes += row.as_ref().map_or(0, |record| record.size());
            self.ahead.push_back((line, row.cloned()));
        }
        let infer = |column: &str| {
            let number = names.iter().position(|name| *name == column);
            let rows = self.ahead.iter().filter_map(|(_, row)| row.as_ref().ok());
            infer_type(rows.filter_map(|row| Some(cell(row, number?))))
        };
        let mut layout = Layout::of_rows(columns, options.record, infer);
        layout.has_no_rows = guess && self.ahead.is_empty();
        Ok(Some(layout))
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        let names: Vec<&str> = self.rows.columns().iter().map(|name| &**name).collect();
        let place = |column: &String| {
            let found = names.iter().position(|name| name == column);
            found.ok_or_else(|| no_column(&self.name, column, &names))
        };
        let is_key = |name: &str| options.keys.iter().any(|key| *key == name);
        let others = || names.iter().filter(|name| !is_key(name));
        let unknown = others().find(|name| !layout.columns.iter().any(|column| column == *name));
        if let Some(name) = unknown.filter(|_| options.values.is_empty()) {
            return Err(Error::invalid(format!(
                "{}: the inputs before have no column `{name}`; name the columns with --value",
                self.name
            )));
        }
        self.plan = Plan {
            keys: options.keys.iter().map(place).collect::<Result<_>>()?,
            key_names: options.keys.clone(),
            row_number: options.row_number,
            values: layout.columns.iter().map(place).collect::<Result<_>>()?,
            names: layout.columns.clone(),
            rules: layout.rules(&self.name)?,
        };
        Ok(())
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while !batch.is_full() {
            let number = batch.rows() + 1;
            let ahead;
            let (line, row) = match self.ahead.pop_front() {
                Some((line, row)) => {
                    ahead = row;
                    (line, ahead.as_ref().map_err(String::clone))
                }
                None => match self.rows.next_record()? {
                    Some(row) => row,
                    None => return Ok(false),
                },
            };
            match row.and_then(|row| self.plan.record(row, number, &mut key, &mut value)) {
                Ok(()) => batch.push(origin(self.input, line), &key, &value),
                Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
            }
        }
        Ok(true)
    }
}

impl Plan {
    /// Writes the key and the value of a row. A cell without a value is null, and a row whose key
    /// is null or empty is refused.
    fn record(
        &self,
        row: &Record,
        number: u64,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        // Programs that quote all values write a missing one like the empty text.
        let part = |column: usize, key: &mut Vec<u8>| match row.get(self.keys[column]) {
            Some(text) if !text.is_empty() => {
                key.extend_from_slice(text);
                Ok(())
            }
            _ => Err("there is no value, so the row has no key".to_string()),
        };
        write_key(self.keys.len(), key, part)
            .map_err(|(column, reason)| format!("column `{}`: {reason}", self.key_names[column]))?;
        if self.row_number {
            key.extend_from_slice(number.to_string().as_bytes());
        }
        value.clear();
        match &self.rules {
            None => {
                let cells = self.values.iter().filter_map(|&number| row.get(number));
                cells.for_each(|text| value.extend_from_slice(text));
            }
            Some(rules) => {
                for ((&number, &rule), name) in self.values.iter().zip(rules).zip(&self.names) {
                    cells::field(rule, cell(row, number), value)
                        .map_err(|reason| format!("column `{name}`: {reason}"))?;
                }
            }
        }
        Ok(())
    }
}
