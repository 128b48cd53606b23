//! JSON lines: an object per line. Nested values become JSON values.

use crate::parse::json_lines::JsonRows;
use crate::parse::text_input::TextInput;
use crate::records::ReadRecords;
use crate::records::batch::{KeyValueBatch, origin};
use crate::records::cells::{self, Cell, ColumnRule};
use crate::records::key::write_key;
use crate::records::layout::{Layout, SAMPLE, SAMPLE_BYTES, infer_type};
use crate::records::options::RecordOptions;
use crate::row::Numbered;
use firndb::{Error, Result};
use serde_json::{Map, Value as Json};
use std::collections::VecDeque;

/// Reads the objects of one input.
pub(crate) struct JsonLineRecords {
    rows: JsonRows,
    input: usize,
    name: String,
    ahead: VecDeque<Numbered<Map<String, Json>>>,
    keys: Vec<String>,
    row_number: bool,
    columns: Vec<String>,
    /// Whether a row had the column.
    seen: Vec<bool>,
    rules: Option<Vec<ColumnRule>>,
    /// Whether the columns were inferred from the first rows, so that rows with others are refused.
    is_closed: bool,
}

impl JsonLineRecords {
    pub(crate) fn new(
        reader: TextInput,
        (input, name): (usize, String),
        options: &RecordOptions,
    ) -> JsonLineRecords {
        JsonLineRecords {
            rows: JsonRows::new(reader, name.as_str().into(), &options.dialect),
            input,
            name,
            ahead: VecDeque::new(),
            keys: options.keys.clone(),
            row_number: options.row_number,
            columns: Vec::new(),
            seen: Vec::new(),
            rules: None,
            is_closed: false,
        }
    }

    /// Key and value of an object.
    fn record(
        &mut self,
        object: &Map<String, Json>,
        number: u64,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        value.clear();
        let cell = |name: &str| object.get(name).map_or(Cell::Missing, Cell::Json);
        let named = |name: &str, reason: String| format!("column `{name}`: {reason}");
        let part = |column: usize, key: &mut Vec<u8>| cells::key(cell(&self.keys[column]), key);
        write_key(self.keys.len(), key, part)
            .map_err(|(column, reason)| named(&self.keys[column], reason))?;
        if self.row_number {
            key.extend_from_slice(number.to_string().as_bytes());
        }
        for (i, name) in self.columns.iter().enumerate() {
            self.seen[i] |= object.contains_key(name);
            match &self.rules {
                None => cells::raw(cell(name), value),
                Some(rules) => cells::field(rules[i], cell(name), value),
            }
            .map_err(|reason| named(name, reason))?;
        }
        let known = |name: &String| self.keys.contains(name) || self.columns.contains(name);
        match object.keys().find(|name| self.is_closed && !known(name)) {
            Some(name) => Err(named(
                name,
                "the first rows have no such column; name all columns with --value".to_string(),
            )),
            None => Ok(()),
        }
    }
}

impl ReadRecords for JsonLineRecords {
    fn infer_layout(&mut self, options: &RecordOptions) -> Result<Option<Layout>> {
        let guess = options.needs_inference();
        let untyped = options.values.iter().filter(|column| column.ty.is_none());
        let needed: Vec<&String> =
            options.keys.iter().chain(untyped.map(|column| &column.name)).collect();
        let mut bytes = 0;
        while self.ahead.len() < SAMPLE && bytes < SAMPLE_BYTES {
            let Some(row) = self.rows.next_object()? else { break };
            bytes += self.rows.line_len();
            let has = |object: &Map<_, _>| needed.iter().all(|name| object.contains_key(*name));
            let enough = !guess && row.1.as_ref().is_ok_and(has);
            self.ahead.push_back(row);
            if enough {
                break;
            }
        }
        let rows = || self.ahead.iter().filter_map(|(_, row)| row.as_ref().ok());
        let mut names: Vec<&str> = Vec::new();
        for name in rows().flat_map(|row| row.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        match self.ahead.front() {
            None => return Ok(None),
            // No row is an object.
            Some((line, Err(reason))) if rows().next().is_none() => {
                return Err(Error::invalid(format!("{}:{line}: {reason}", self.name)));
            }
            Some(_) => {}
        }
        let columns = Layout::columns(options, &names, &self.name)?;
        let infer =
            |column: &str| infer_type(rows().filter_map(|row| row.get(column)).map(Cell::Json));
        Ok(Some(Layout::of_rows(columns, options.record, infer)))
    }

    fn set_layout(&mut self, layout: &Layout, options: &RecordOptions) -> Result<()> {
        self.columns.clone_from(&layout.columns);
        self.seen = vec![false; layout.columns.len()];
        self.rules = layout.rules(&self.name)?;
        self.is_closed = options.values.is_empty();
        Ok(())
    }

    fn fill(&mut self, batch: &mut KeyValueBatch) -> Result<bool> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while !batch.is_full() {
            let next = match self.ahead.pop_front() {
                Some(row) => Some(row),
                None => self.rows.next_object()?,
            };
            let Some((line, object)) = next else { return Ok(false) };
            let number = batch.rows() + 1;
            match object.and_then(|object| self.record(&object, number, &mut key, &mut value)) {
                Ok(()) => batch.push(origin(self.input, line), &key, &value),
                Err(reason) => batch.push_bad(format!("{}:{line}: {reason}", self.name)),
            }
        }
        Ok(true)
    }

    fn absent_columns(&self) -> Vec<String> {
        let columns = self.columns.iter().zip(&self.seen);
        columns.filter(|(_, seen)| !**seen).map(|(name, _)| name.clone()).collect()
    }
}
