//! `firn table scan`: writes all records of a table as text, CSV or JSON lines.

use super::{Shown, Source, put_bytes, unescape};
use crate::failure::Result;
use crate::output::Out;
use clap::ValueEnum;
use csv::{ByteRecord, Writer};
use firndb::Error;
use serde_json::{Map, Value as Json};
use std::ops::ControlFlow;

/// Write all records, in the order of the hashes of their keys, which is the order of the file.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Maximum number of records written.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Write keys alone.
    #[arg(long)]
    keys_only: bool,
    /// Format of the records; --json is short for jsonl.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// KEY, separator, VALUE and a newline.
    #[default]
    Text,
    /// A header line, then one row per record: the columns of the table's rows, or `key,value`.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    let shown = Shown::of(&table)?;
    let form = if json { Form::Jsonl } else { args.format };
    let mut writer = Writing::new(args, form, &shown)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut failed = None;
    if left > 0 {
        table.scan(0, 1, |key, value| {
            if let Err(e) = writer.record(key, value) {
                failed = Some(e);
                return ControlFlow::Break(());
            }
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    match failed {
        Some(e) => Err(e.into()),
        None => Ok(writer.finish()?),
    }
}

/// Writes records in one of the formats.
struct Writing<'a> {
    args: &'a Args,
    shown: &'a Shown,
    /// Columns of the rows, if values are rows.
    columns: Option<Vec<String>>,
    to: To,
}

enum To {
    Text(Out),
    Csv(Box<Writer<Out>>),
    Jsonl(Out),
}

impl<'a> Writing<'a> {
    fn new(args: &'a Args, form: Form, shown: &'a Shown) -> firndb::Result<Writing<'a>> {
        let columns = shown.decoder.as_ref().and_then(|decoder| decoder.columns());
        let columns = columns.map(|c| c.into_iter().map(str::to_string).collect::<Vec<_>>());
        let to = match form {
            Form::Text => To::Text(Out::new()),
            Form::Jsonl => To::Jsonl(Out::new()),
            Form::Csv => {
                let mut writer = Box::new(Writer::from_writer(Out::new()));
                let mut header = vec!["key"];
                match &columns {
                    _ if args.keys_only => {}
                    Some(columns) => header.extend(columns.iter().map(String::as_str)),
                    None => header.push("value"),
                }
                writer.write_record(header).map_err(csv_error)?;
                To::Csv(writer)
            }
        };
        Ok(Writing { args, shown, columns, to })
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> firndb::Result<()> {
        let value = (!self.args.keys_only).then_some(value);
        match &mut self.to {
            To::Text(out) => {
                out.bytes(key)?;
                if let Some(value) = value {
                    out.bytes(&self.args.separator)?;
                    out.bytes(&self.shown.text(key, value)?)?;
                }
                out.line("")
            }
            To::Jsonl(out) => {
                let mut object = Map::new();
                put_bytes(&mut object, "key", key);
                if let Some(value) = value {
                    self.shown.json(key, value, &mut object)?;
                }
                out.json(&Json::Object(object))
            }
            To::Csv(writer) => {
                let mut row = ByteRecord::new();
                row.push_field(key);
                match (value, self.shown.record(key, value.unwrap_or_default())) {
                    (None, _) => {}
                    (Some(value), Ok(None)) => row.push_field(value),
                    (_, record) => {
                        let record = record?.unwrap_or_default();
                        for column in self.columns.iter().flatten() {
                            row.push_field(cell(&record[column]).as_bytes());
                        }
                    }
                }
                writer.write_byte_record(&row).map_err(csv_error)
            }
        }
    }

    fn finish(self) -> firndb::Result<()> {
        match self.to {
            To::Text(out) | To::Jsonl(out) => out.finish(),
            To::Csv(writer) => match writer.into_inner() {
                Ok(out) => out.finish(),
                Err(e) => Err(crate::output::stdout_error(e.into_error())),
            },
        }
    }
}

/// A value in CSV: nothing for null, text unchanged, anything else as JSON.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn csv_error(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => crate::output::stdout_error(e),
        other => Error::invalid(format!("{other:?}")),
    }
}
