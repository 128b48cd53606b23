//! `firn search export`: documents as CSV or JSON lines that `firn search build` reads again.

use super::{fields_as_json, open, query_of, readable};
use crate::failure::Result;
use crate::output::{Out, stdout_error, to_text};
use clap::ValueEnum;
use firndb::Error;
use firndb::search::{Hit, Reader};
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
    /// Form of the rows.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write these fields only (default: all that can be read back).
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    fields: Option<Vec<String>>,
    /// Write the payloads instead of fields, one a line.
    #[arg(long, conflicts_with_all = ["fields", "format"])]
    payload: bool,
    /// Stands between the values of a multi-valued field in CSV.
    #[arg(long, default_value_t = '|', value_name = "CHAR")]
    separator: char,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values with a header line.
    #[default]
    Csv,
    /// A JSON object a line.
    Jsonl,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let query = query_of(&args.query.join(" "), reader.schema())?;
    let all: Vec<String> = readable(reader.schema()).iter().map(|f| f.to_string()).collect();
    let fields = args.fields.clone().unwrap_or(all);
    let mut writer = match (args.payload, json, args.format) {
        (true, ..) => Writer::Payload(Out::new()),
        (_, true, _) | (_, _, Format::Jsonl) => Writer::Jsonl(Out::new()),
        _ => Writer::csv(&fields)?,
    };
    let mut result = Ok(());
    reader.for_each(&query, |hit| {
        result = writer.write(&reader, hit, &fields, args.separator);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result?;
    Ok(writer.finish()?)
}

/// Writes one document after the other.
enum Writer {
    Csv(Box<csv::Writer<Out>>),
    Jsonl(Out),
    Payload(Out),
}

impl Writer {
    fn csv(fields: &[String]) -> firndb::Result<Writer> {
        let mut writer = csv::Writer::from_writer(Out::new());
        writer.write_record(fields).map_err(csv_error)?;
        Ok(Writer::Csv(Box::new(writer)))
    }

    fn write(
        &mut self,
        reader: &Reader,
        hit: Hit,
        fields: &[String],
        separator: char,
    ) -> firndb::Result<()> {
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
                let mut row = Vec::with_capacity(fields.len());
                for name in fields {
                    let values: Vec<String> =
                        reader.values(hit, name)?.iter().map(to_text).collect();
                    row.push(values.join(separator.encode_utf8(&mut [0; 4])));
                }
                writer.write_record(&row).map_err(csv_error)
            }
        }
    }

    fn finish(self) -> firndb::Result<()> {
        match self {
            Writer::Jsonl(out) | Writer::Payload(out) => out.finish(),
            Writer::Csv(writer) => {
                let out = writer.into_inner().map_err(|e| stdout_error(e.into_error()))?;
                out.finish()
            }
        }
    }
}

fn csv_error(error: csv::Error) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(e) => stdout_error(e),
        _ => Error::invalid(text),
    }
}
