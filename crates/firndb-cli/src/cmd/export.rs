//! `firn search export`: writes documents into a file that `firn search build` reads back.

use super::formats::{Exported, FileFormat, Target};
use super::{QueryFile, open, query_of};
use crate::failure::Result;
use crate::output::{plural, report_export};
use firndb::Error;
use firndb::search::{Hit, Reader};
use firndb_arrow::document::hits_to_batch;
use firndb_ingest::results::{fields_to_json, readable};
use firndb_ingest::{BatchWriter, Format, RowWriter};
use serde_json::Value as Json;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write documents into a file.
///
/// For example: firn search export flights "carrier = 'UA'" -o ua.parquet
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The query: [CONDITION] [order by ...] [skip N] [limit N]. Empty: all documents.
    #[arg(allow_negative_numbers = true)]
    query: Vec<String>,
    #[command(flatten)]
    from: QueryFile,
    #[command(flatten)]
    target: Target,
    /// Write these fields only (default: all that can be read back).
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    fields: Option<Vec<String>>,
    /// Write the payloads instead of fields, one per line.
    #[arg(long, conflicts_with_all = ["fields", "format"])]
    payload: bool,
    /// Separator of the values of a multi-valued field in CSV and TSV.
    #[arg(long, default_value_t = '|', value_name = "CHAR")]
    separator: char,
}

/// Documents between two updates of the bar.
const STEP: u64 = 1 << 14;

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let format = args.target.check()?;
    let reader = open(&args.dir)?;
    let query = query_of(&args.from.text(&args.query)?, reader.schema())?;
    let all: Vec<String> = readable(reader.schema()).map(str::to_string).collect();
    let fields = args.fields.clone().unwrap_or(all);
    let Exported { counts: documents, file_bytes } = args.target.write(|sink, bar| {
        let name = args.target.path();
        let mut writer = match args.payload {
            true => Documents::payloads(sink, name),
            false => {
                let form = Form { format, separator: args.separator, exact: true };
                Documents::new(sink, name, &reader, form, &fields)?
            }
        };
        let (mut documents, mut result) = (0, Ok(()));
        reader.for_each(&query, |hit| {
            documents += 1;
            if documents % STEP == 0 {
                bar.set_message(plural(documents, "document"));
            }
            result = writer.write(&reader, hit, &fields);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
        Ok((writer.finish(&reader, &fields)?, documents))
    })?;
    report_export(args.target.path(), "documents", documents, file_bytes, start, json)
}

/// Documents per record batch.
const ROWS: usize = 8192;

/// How documents are written.
pub struct Form {
    pub format: FileFormat,
    /// Separates the values of a multi-valued field in CSV and TSV.
    pub separator: char,
    /// Refuses documents that a build would not read back.
    pub exact: bool,
}

/// Writes one document after the other.
pub struct Documents<W: Write + Send> {
    to: To<W>,
    /// Name of the output in messages.
    name: PathBuf,
}

enum To<W: Write + Send> {
    Delimited(RowWriter<W>),
    Jsonl(W),
    Payload(W),
    Batches { writer: BatchWriter<W>, hits: Vec<Hit> },
}

impl<W: Write + Send> Documents<W> {
    pub fn new(
        out: W,
        name: &Path,
        reader: &Reader,
        Form { format, separator, exact }: Form,
        fields: &[String],
    ) -> firndb::Result<Documents<W>> {
        let to = match format {
            FileFormat::Jsonl => To::Jsonl(out),
            FileFormat::Csv | FileFormat::Tsv => {
                let format = if format == FileFormat::Csv { Format::Csv } else { Format::Tsv };
                let multi = reader.schema().fields().iter().filter(|field| field.multi);
                let writer = RowWriter::new(out, name, format, fields)?
                    .multi(multi.map(|field| field.name.as_str()))
                    .separator(separator)
                    .exact(exact);
                To::Delimited(writer)
            }
            FileFormat::Parquet | FileFormat::Arrow | FileFormat::Avro => {
                let schema = hits_to_batch(reader, &[], fields)?.schema();
                let writer = BatchWriter::new(out, format.format(), &schema)?;
                To::Batches { writer, hits: Vec::with_capacity(ROWS) }
            }
            FileFormat::Text => {
                let message = "documents have fields; export them as csv, tsv, jsonl, parquet or \
                               arrow";
                return Err(Error::invalid(message));
            }
        };
        Ok(Documents { to, name: name.to_path_buf() })
    }

    /// Writes payloads, one per line.
    pub fn payloads(out: W, name: &Path) -> Documents<W> {
        Documents { to: To::Payload(out), name: name.to_path_buf() }
    }

    pub fn write(&mut self, reader: &Reader, hit: Hit, fields: &[String]) -> firndb::Result<()> {
        let fail = |e| Error::io("write", &self.name, e);
        match &mut self.to {
            To::Payload(out) => {
                out.write_all(&reader.payload(hit)?).map_err(fail)?;
                out.write_all(b"\n").map_err(fail)
            }
            To::Jsonl(out) => {
                let object = Json::Object(fields_to_json(reader, hit, fields)?);
                writeln!(out, "{object}").map_err(fail)
            }
            To::Delimited(writer) => {
                let values = fields.iter().map(|name| reader.values(hit, name));
                writer.write(&values.collect::<firndb::Result<Vec<_>>>()?)
            }
            To::Batches { writer, hits } => {
                hits.push(hit);
                if hits.len() < ROWS {
                    return Ok(());
                }
                writer.write(&hits_to_batch(reader, &std::mem::take(hits), fields)?)
            }
        }
    }

    pub fn finish(self, reader: &Reader, fields: &[String]) -> firndb::Result<W> {
        let fail = |e| Error::io("write", &self.name, e);
        match self.to {
            To::Jsonl(mut out) | To::Payload(mut out) => out.flush().map_err(fail).map(|()| out),
            To::Delimited(writer) => writer.finish(),
            To::Batches { mut writer, hits } => {
                if !hits.is_empty() {
                    writer.write(&hits_to_batch(reader, &hits, fields)?)?;
                }
                writer.finish()
            }
        }
    }
}
