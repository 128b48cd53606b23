//! Rows of files into documents: the part that `build`, `replace` and `index apply` share.

use crate::failure::{Failure, Result};
use crate::ingest::csv::parse_delimiter;
use crate::ingest::source::{self, Format, expand};
use crate::ingest::{BadRow, BytesAs, PayloadFrom, Row, Rows, Typer, infer};
use crate::output::{plural, thousands};
use clap::ValueEnum;
use firndb::search::{Document, Payload, Schema, parse_order};
use firndb::{Error, ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rows that a schema is inferred from; the rest is checked against it.
const SAMPLE: usize = 100_000;

/// Bad rows that the report shows.
const SHOWN: usize = 5;

/// Rows of files, and the schema that they are read by.
#[derive(clap::Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub rows: RowArgs,
    /// Schema (TOML) to use; without one it is inferred from the first 100,000 rows.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Keep documents in this order: "FIELD [desc], ..."; queries in the same order stop early.
    #[arg(long, allow_hyphen_values = true, value_name = "ORDER")]
    pub order: Option<String>,
}

/// Rows of files.
#[derive(clap::Args)]
pub struct RowArgs {
    /// Files, directories of files, or `-` for standard input; .gz and .zst are decompressed.
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Form of the rows; auto goes by the file's name, then by its first line.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Divides columns of CSV and TSV, for example ';' or '\t' (default: by the form).
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,
    /// What to do about a row that does not fit.
    #[arg(long, value_enum, default_value_t)]
    pub on_error: OnError,
    /// What a document gives back as it was: the row as JSON, nothing, or one column.
    #[arg(long, default_value = "row", value_name = "row|none|COLUMN")]
    pub payload: String,
    /// Text that stands for "no value", beside the empty text (can be given several times).
    #[arg(long, value_name = "TEXT")]
    pub null: Vec<String>,
    /// Stands between the values of a multi-valued field in CSV.
    #[arg(long, default_value_t = '|', value_name = "CHAR")]
    pub separator: char,
    /// How texts give the bytes of fields of bytes.
    #[arg(long, value_enum, default_value_t)]
    pub bytes: BytesAs,
    /// Memory to build with, for example 512M or 4G.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    pub memory: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Stop, and leave everything as it was.
    #[default]
    Stop,
    /// Leave the row out, and report how many were left out.
    Skip,
}

/// The schema that rows are read by.
pub struct Chosen {
    pub schema: Schema,
    /// It was guessed from the first rows.
    pub inferred: bool,
}

/// What became of the rows.
#[derive(Default)]
pub struct Report {
    pub rows: u64,
    pub skipped: u64,
}

/// Rows that do not fit: each ends the run, or is left out and told about at the end.
pub struct BadRows {
    on_error: OnError,
    pub skipped: u64,
    first: Vec<String>,
}

/// Takes each document with the row it came from.
pub type Sink<'a> = dyn FnMut(&Row, &Document) -> firndb::Result<()> + 'a;

/// The rows of the inputs that a command names.
pub struct Load<'a> {
    args: &'a RowArgs,
    rows: Rows,
    bar: ProgressBar,
}

impl<'a> Load<'a> {
    /// Finds the inputs. Nothing is read yet.
    pub fn new(args: &'a RowArgs) -> Result<Load<'a>> {
        let inputs = expand(&args.inputs, &source::ROWS)?;
        let sizes: Option<Vec<u64>> = inputs.iter().map(|input| input.size()).collect();
        let bar = progress_bar(sizes.map(|sizes| sizes.iter().sum()));
        let rows = Rows::new(inputs, args.format, bar.clone()).delimiter(args.delimiter);
        Ok(Load { args, rows, bar })
    }

    /// The schema: from the file that the arguments name, else `existing`, else inferred.
    pub fn schema(&mut self, args: &LoadArgs, existing: Option<&Schema>) -> Result<Chosen> {
        let (schema, inferred) = match (&args.schema, existing) {
            (Some(path), _) => (schema_from_file(path)?, false),
            (None, Some(schema)) => (schema.clone(), false),
            (None, None) => (self.infer()?, true),
        };
        let schema = match &args.order {
            Some(order) => {
                let keys = parse_order(order, Some(&schema));
                schema.order_by(keys.map_err(|error| Failure::in_text(error, order))?)?
            }
            None => schema,
        };
        Ok(Chosen { schema, inferred })
    }

    fn infer(&mut self) -> Result<Schema> {
        let (ahead, complete) = self.rows.look_ahead(SAMPLE)?;
        let good = ahead.iter().filter_map(|row| row.as_ref().ok());
        let schema = infer(good, &self.args.null, complete)?;
        if schema.fields().is_empty() {
            return Err(match ahead.iter().find_map(|row| row.as_ref().err()) {
                Some(bad) => Error::invalid(bad.to_string()),
                None => Error::invalid("there are no rows to infer a schema from"),
            }
            .into());
        }
        Ok(match self.payload() {
            PayloadFrom::None => schema,
            _ => schema.payload(Payload::Zstd { level: 3, dictionary: false }),
        })
    }

    fn payload(&self) -> PayloadFrom {
        match self.args.payload.as_str() {
            "row" => PayloadFrom::Row,
            "none" => PayloadFrom::None,
            column => PayloadFrom::Column(column.to_string()),
        }
    }

    /// Gives every row's document to `sink`. An error of `sink` of the kind `InvalidArgument` is
    /// the row's; any other ends the run.
    pub fn run(self, chosen: &Chosen, sink: &mut Sink) -> Result<Report> {
        let args = self.args;
        let payload = self.payload();
        let (schema, strict) = (&chosen.schema, chosen.inferred);
        let typer = Typer::new(schema, &args.null, args.separator, payload, strict);
        let mut typer = typer.bytes(args.bytes);
        let report = self.walk(&mut |row| take(&mut typer, row, chosen.inferred, sink))?;
        for (column, rows) in &typer.left_out {
            eprintln!(
                "note: column `{column}` ({}) is not in the schema and was left out",
                plural(*rows, "row")
            );
        }
        Ok(report)
    }

    /// Gives every row to `sink`, whose errors count as in [`Load::run`].
    pub fn each(self, sink: &mut dyn FnMut(&Row) -> firndb::Result<()>) -> Result<Report> {
        self.walk(&mut |row| sort_out(sink(&row), &row))
    }

    fn walk(mut self, take: &mut dyn FnMut(Row) -> Taken) -> Result<Report> {
        let mut report = Report::default();
        let mut bad_rows = BadRows::new(self.args.on_error);
        while let Some(row) = self.rows.next()? {
            report.rows += 1;
            if report.rows.is_multiple_of(1024) {
                self.bar.set_message(format!("{} rows", thousands(report.rows)));
            }
            let taken = match row {
                Ok(row) => take(row)?,
                Err(bad) => Err(bad),
            };
            let Err(bad) = taken else { continue };
            bad_rows.take(bad).inspect_err(|_| self.bar.finish_and_clear())?;
        }
        self.bar.finish_and_clear();
        report.skipped = bad_rows.skipped;
        bad_rows.print(report.rows);
        Ok(report)
    }
}

/// What became of a row. The outer error ends the run, the inner one concerns the row alone.
type Taken = Result<std::result::Result<(), BadRow>>;

/// One row to the sink.
fn take(typer: &mut Typer, row: Row, inferred: bool, sink: &mut Sink) -> Taken {
    let document = match typer.document(&row) {
        Ok(document) => document,
        Err(mut bad) => {
            if inferred {
                bad.reason += ". The schema was inferred from the rows before: write it to a file \
                               with --infer, change this field, and use it with --schema";
            }
            return Ok(Err(bad));
        }
    };
    sort_out(sink(&row, &document), &row)
}

fn sort_out(taken: firndb::Result<()>, row: &Row) -> Taken {
    match taken {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            Ok(Err(BadRow::whole(row.place.clone(), error.message())))
        }
        Err(error) => Err(error.into()),
    }
}

impl BadRows {
    pub fn new(on_error: OnError) -> BadRows {
        BadRows { on_error, skipped: 0, first: Vec::new() }
    }

    /// Notes a row that was left out; an error if the run is to stop.
    pub fn take(&mut self, bad: impl Display) -> firndb::Result<()> {
        if self.on_error == OnError::Stop {
            return Err(Error::invalid(bad.to_string()));
        }
        self.skipped += 1;
        if self.first.len() < SHOWN {
            self.first.push(bad.to_string());
        }
        Ok(())
    }

    /// Says on standard error which of `rows` were left out.
    pub fn print(&self, rows: u64) {
        if self.skipped == 0 {
            return;
        }
        eprintln!("skipped {} of {}:", thousands(self.skipped), plural(rows, "row"));
        self.first.iter().for_each(|bad| eprintln!("  {bad}"));
        if self.skipped > self.first.len() as u64 {
            eprintln!("  and {} more", thousands(self.skipped - self.first.len() as u64));
        }
    }
}

/// Reads a schema.
pub fn schema_from_file(path: &Path) -> Result<Schema> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    Schema::from_toml(&text).map_err(|error| Failure::in_text(error.in_file(path), &text))
}

/// Reads a size of memory, at least 1 MiB.
pub fn parse_size(text: &str) -> std::result::Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if bytes < 1 << 20 { Err("at least 1M is needed".to_string()) } else { Ok(bytes) }
}

/// Reads a size such as `512M`, `4G`, `1GiB` or a number of bytes.
pub fn parse_bytes(text: &str) -> std::result::Result<usize, String> {
    let wrong = || format!("`{text}` is not a size; write for example 512M or 4G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().map_err(|_| wrong())?;
    let shift = match text[digits..].trim().to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A bar over `bytes` of input on a terminal, or a spinner if the size is not known; elsewhere
/// nothing.
pub fn progress_bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{bar:30} {bytes}/{total_bytes} {msg} {bytes_per_sec} {eta}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg} {bytes_per_sec}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("2097152"), Ok(2 << 20));
        assert!(parse_size("M").is_err() && parse_size("1X").is_err() && parse_size("1k").is_err());
        assert!(parse_size("99999999999999T").is_err());
    }
}
