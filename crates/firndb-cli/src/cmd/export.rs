//! `firn search export`: writes documents as CSV or JSON lines that `firn search build` reads back.

use super::{fields_as_json, open, query_of, readable};
use crate::failure::Result;
use crate::output::{Out, STDOUT};
use clap::ValueEnum;
use firndb::search::{Hit, Reader};
use firndb_ingest::{Format, RowWriter};
use serde_json::Value as Json;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Export documents: firn search export flights "carrier = 'UA'" --format jsonl > ua.jsonl
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The query: [CONDITION] [order by ...] [skip N] [limit N]. Empty: all documents.
    #[arg(allow_negative_numbers = true)]
    query: Vec<String>,
    /// Format of the rows.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Write these fields only (default: all that can be read back).
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    fields: Option<Vec<String>>,
    /// Write the payloads instead of fields, one per line.
    #[arg(long, conflicts_with_all = ["fields", "format"])]
    payload: bool,
    /// Separator of the values of a multi-valued field in CSV.
    #[arg(long, default_value_t = '|', value_name = "CHAR")]
    separator: char,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Comma-separated values with a header line.
    #[default]
    Csv,
    /// One JSON object per line.
    Jsonl,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let query = query_of(&args.query.join(" "), reader.schema())?;
    let all: Vec<String> = readable(reader.schema()).iter().map(|f| f.to_string()).collect();
    let fields = args.fields.clone().unwrap_or(all);
    let mut writer = match (args.payload, json, args.format) {
        (true, ..) => Writer::Payload(Out::new()),
        (_, true, _) | (_, _, Form::Jsonl) => Writer::Jsonl(Out::new()),
        _ => Writer::csv(&fields, args.separator)?,
    };
    let mut result = Ok(());
    reader.for_each(&query, |hit| {
        result = writer.write(&reader, hit, &fields);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result?;
    Ok(writer.finish()?)
}

/// Writes one document after the other.
enum Writer {
    Csv(RowWriter<Out>),
    Jsonl(Out),
    Payload(Out),
}

impl Writer {
    fn csv(fields: &[String], separator: char) -> firndb::Result<Writer> {
        let writer = RowWriter::new(Out::new(), STDOUT, Format::Csv, fields)?;
        Ok(Writer::Csv(writer.separator(separator)))
    }

    fn write(&mut self, reader: &Reader, hit: Hit, fields: &[String]) -> firndb::Result<()> {
        match self {
            Writer::Payload(out) => {
                out.bytes(&reader.payload(hit)?)?;
                out.bytes(b"\n")
            }
            Writer::Jsonl(out) => {
                let object = fields_as_json(reader, hit, fields)?;
                out.json(&Json::Object(object))
            }
            Writer::Csv(writer) => {
                let values = fields.iter().map(|name| reader.values(hit, name));
                writer.write(&values.collect::<firndb::Result<Vec<_>>>()?)
            }
        }
    }

    fn finish(self) -> firndb::Result<()> {
        match self {
            Writer::Jsonl(out) | Writer::Payload(out) => out.finish(),
            Writer::Csv(writer) => writer.finish()?.finish(),
        }
    }
}
