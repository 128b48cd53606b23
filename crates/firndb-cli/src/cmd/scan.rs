//! `firn search scan`: prints documents as CSV, TSV or JSON lines.

use super::export::{self, Documents};
use super::formats::FileFormat;
use super::{QueryFile, open, query_of};
use crate::failure::Result;
use crate::output::{Out, STDOUT};
use clap::ValueEnum;
use firndb_ingest::results::readable;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Print documents as CSV, TSV or JSON lines.
///
/// For example: firn search scan flights "carrier = 'UA'" --limit 100
///
/// `firn search query` shows a page of them as a table.
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    pub dir: PathBuf,
    /// The query: [CONDITION] [order by ...] [skip N] [limit N]. Empty: all documents.
    #[arg(allow_negative_numbers = true)]
    pub query: Vec<String>,
    #[command(flatten)]
    pub from: QueryFile,
    /// Maximum number of documents printed.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Format of the rows; --json is short for jsonl.
    #[arg(long, value_enum, default_value_t)]
    pub format: Form,
    /// Print these fields only (default: all that can be read back).
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub fields: Option<Vec<String>>,
    /// Print the payloads instead of fields, one per line.
    #[arg(long, conflicts_with_all = ["fields", "format"])]
    pub payload: bool,
    /// Separator of the values of a multi-valued field in CSV and TSV.
    #[arg(long, default_value_t = '|', value_name = "CHAR")]
    pub separator: char,
}

/// How printed documents look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Comma-separated values with a header line.
    #[default]
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// One JSON object per line.
    Jsonl,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let mut query = query_of(&args.from.text(&args.query)?, reader.schema())?;
    query.limit = args.limit.or(query.limit);
    let all: Vec<String> = readable(reader.schema()).map(str::to_string).collect();
    let fields = args.fields.clone().unwrap_or(all);
    let format = match args.format {
        _ if json => FileFormat::Jsonl,
        Form::Csv => FileFormat::Csv,
        Form::Tsv => FileFormat::Tsv,
        Form::Jsonl => FileFormat::Jsonl,
    };
    let (out, name) = (Out::new(), STDOUT.as_ref());
    let mut writer = match args.payload {
        true => Documents::payloads(out, name),
        false => {
            let form = export::Form { format, separator: args.separator, exact: false };
            Documents::new(out, name, &reader, form, &fields)?
        }
    };
    let mut result = Ok(());
    reader.for_each(&query, |hit| {
        result = writer.write(&reader, hit, &fields);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result?;
    Ok(writer.finish(&reader, &fields)?.finish()?)
}
