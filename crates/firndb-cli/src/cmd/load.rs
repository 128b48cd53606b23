//! Reads rows of files into documents: shared by `build`, `replace` and `index apply`.

use super::dialect::DialectArgs;
use crate::failure::{Failure, Result, say};
use crate::output::{plural, thousands};
use clap::ValueEnum;
use firndb::search::{Document, Payload, Schema, parse_order};
use firndb::{Error, ErrorKind};
use firndb_ingest::{
    BadRow, BytesFormat, DataFiles, Format, Inference, Input, PayloadSource, Progress,
    READER_THREAD, RecordOptions, RecordReader, Row, RowOptions, Rows, Typer, TyperOptions, expand,
    in_parser,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::panic::{set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// Heading of the options that say how inputs are read.
pub const READING: &str = "Reading the inputs";

/// Number of rows that a schema is inferred from; later rows are checked against it.
const SAMPLE: usize = 100_000;

/// Maximum number of bad rows shown in the report.
const SHOWN: usize = 5;

/// Rows of files, and the schema that they are read with.
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
    /// Format of the rows; auto goes by the file's name, then by its first bytes.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    pub format: RowFormat,
    #[command(flatten)]
    pub dialect: DialectArgs,
    /// What to do about a row that does not fit the schema.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    pub on_error: OnError,
    /// Payload of a document, returned unchanged: the row as JSON, nothing, or one column.
    #[arg(help_heading = READING, long, default_value = "row", value_name = "row|none|COLUMN")]
    pub payload: String,
    /// Text that stands for "no value" (may be given several times); nothing between two delimiters
    /// always does.
    #[arg(help_heading = READING, long, value_name = "TEXT")]
    pub null: Vec<String>,
    /// Separator of the values of a multi-valued field in CSV.
    #[arg(help_heading = READING, long, default_value_t = '|', value_name = "CHAR")]
    pub separator: char,
    /// How text represents the values of bytes fields.
    #[arg(help_heading = READING, long, value_enum, default_value_t, value_name = "FORM")]
    pub bytes: BytesAs,
    /// Memory to build with, for example 512M or 4G.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    pub memory: usize,
}

/// Format of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// By the file's name, else by its first bytes.
    #[default]
    Auto,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// Avro, as an object container file.
    Avro,
}

impl From<RowFormat> for Format {
    fn from(format: RowFormat) -> Format {
        match format {
            RowFormat::Auto => Format::Auto,
            RowFormat::Csv => Format::Csv,
            RowFormat::Tsv => Format::Tsv,
            RowFormat::Jsonl => Format::JsonLines,
            RowFormat::Parquet => Format::Parquet,
            RowFormat::Arrow => Format::Arrow,
            RowFormat::Avro => Format::Avro,
        }
    }
}

/// Format of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// By the file's name, else by its first bytes; text if neither says anything.
    #[default]
    Auto,
    /// One record per line: key, separator, value.
    Text,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// Avro, as an object container file.
    Avro,
}

impl From<RecordFormat> for Format {
    fn from(format: RecordFormat) -> Format {
        match format {
            RecordFormat::Auto => Format::Auto,
            RecordFormat::Text => Format::Text,
            RecordFormat::Csv => Format::Csv,
            RecordFormat::Tsv => Format::Tsv,
            RecordFormat::Jsonl => Format::JsonLines,
            RecordFormat::Parquet => Format::Parquet,
            RecordFormat::Arrow => Format::Arrow,
            RecordFormat::Avro => Format::Avro,
        }
    }
}

/// How text represents the value of a bytes field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BytesAs {
    /// The text's own bytes (UTF-8).
    #[default]
    Text,
    /// Hexadecimal digits, two per byte, as `firn search export` writes them.
    Hex,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Stop, and change nothing.
    #[default]
    Stop,
    /// Skip the row, and report how many were skipped.
    Skip,
}

/// The schema that rows are read with.
pub struct Chosen {
    pub schema: Schema,
    /// Whether it was inferred from the first rows.
    pub inferred: bool,
}

/// Counts of rows read and skipped.
#[derive(Default)]
pub struct Report {
    pub rows: u64,
    pub skipped: u64,
}

/// Rows that do not fit. Each ends the run, or is skipped and reported at the end.
pub struct BadRows {
    on_error: OnError,
    pub skipped: u64,
    first: Vec<String>,
}

/// Receives each document with the row it came from, after the number of this row: from 1, over all
/// inputs, bad rows included.
pub type Sink<'a> = dyn FnMut(u64, &Row, &Document) -> firndb::Result<()> + 'a;

/// The rows of a command's inputs.
pub struct Load<'a> {
    args: &'a RowArgs,
    rows: Rows,
    bar: ProgressBar,
}

impl<'a> Load<'a> {
    /// Finds the inputs. Reads no rows yet.
    pub fn new(args: &'a RowArgs) -> Result<Load<'a>> {
        quiet_parsers();
        let inputs = expand(&args.inputs, DataFiles::Rows)?;
        let sizes: Option<Vec<u64>> = inputs.iter().map(|input| input.size()).collect();
        let bar = progress_bar(sizes.map(|sizes| sizes.iter().sum()));
        let options = RowOptions::default().format(args.format.into());
        let rows =
            Rows::new(inputs, options.dialect(args.dialect.dialect()).progress(advance(&bar)));
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
        let schema = self.rows.infer_schema(SAMPLE, &self.args.null)?;
        Ok(with_payload(schema, &self.payload()))
    }

    /// Infers the schema from all rows.
    pub fn infer_all(args: &RowArgs) -> Result<Schema> {
        let mut inference = Inference::new(&args.null);
        let load = Load::new(args)?;
        let payload = load.payload();
        load.each(&mut |row| {
            inference.add(row);
            Ok(())
        })?;
        let schema = inference.finish(true)?;
        match schema.fields().is_empty() {
            true => Err(Error::invalid("there are no rows to infer a schema from").into()),
            false => Ok(with_payload(schema, &payload)),
        }
    }

    fn payload(&self) -> PayloadSource {
        match self.args.payload.as_str() {
            "row" => PayloadSource::Row,
            "none" => PayloadSource::None,
            column => PayloadSource::Column(column.to_string()),
        }
    }

    /// Passes each row's document to `sink`. An `InvalidArgument` of `sink` marks the row as bad;
    /// any other error ends the run.
    pub fn run(self, chosen: &Chosen, sink: &mut Sink) -> Result<Report> {
        let args = self.args;
        let bytes = match args.bytes {
            BytesAs::Text => BytesFormat::Text,
            BytesAs::Hex => BytesFormat::Hex,
        };
        let options = TyperOptions::default()
            .null_texts(&args.null)
            .separator(args.separator)
            .payload(self.payload())
            .strict(chosen.inferred)
            .bytes(bytes);
        let mut typer = Typer::new(&chosen.schema, options);
        let report = self.walk(&mut |number, row| {
            take(&mut typer, &row, chosen.inferred, &mut |document| sink(number, &row, document))
        })?;
        for (column, rows) in typer.left_out() {
            eprintln!(
                "note: column `{column}` ({}) is not in the schema and was left out",
                plural(*rows, "row")
            );
        }
        Ok(report)
    }

    /// Passes each row to `sink`; its errors are handled as in [`Load::run`].
    pub fn each(self, sink: &mut dyn FnMut(&Row) -> firndb::Result<()>) -> Result<Report> {
        self.walk(&mut |_, row| sort_out(sink(&row), &row))
    }

    fn walk(mut self, take: &mut dyn FnMut(u64, Row) -> Taken) -> Result<Report> {
        let mut report = Report::default();
        let mut bad_rows = BadRows::new(self.args.on_error);
        while let Some(row) = self.rows.next_row()? {
            report.rows += 1;
            if report.rows.is_multiple_of(1024) {
                self.bar.set_message(format!("{} rows", thousands(report.rows)));
            }
            let taken = match row {
                Ok(row) => take(report.rows, row)?,
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

/// A schema that compresses payloads, if documents have them.
fn with_payload(schema: Schema, payload: &PayloadSource) -> Schema {
    match payload {
        PayloadSource::None => schema,
        _ => schema.payload(Payload::Zstd { level: 3, dictionary: false }),
    }
}

/// The result of processing a row. The outer error ends the run, the inner one marks the row as
/// bad.
type Taken = Result<std::result::Result<(), BadRow>>;

/// Converts one row and passes it to the sink.
fn take(
    typer: &mut Typer,
    row: &Row,
    inferred: bool,
    sink: &mut dyn FnMut(&Document) -> firndb::Result<()>,
) -> Taken {
    let document = match typer.document(row) {
        Ok(document) => document,
        Err(mut bad) => {
            if inferred {
                bad.reason += ". The schema was inferred from the rows before: write it to a file \
                               with --infer, change this field, and use it with --schema";
            }
            return Ok(Err(bad));
        }
    };
    sort_out(sink(&document), row)
}

fn sort_out(taken: firndb::Result<()>, row: &Row) -> Taken {
    match taken {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            Ok(Err(BadRow::whole(row.position.clone(), error.message())))
        }
        Err(error) => Err(error.into()),
    }
}

impl BadRows {
    pub fn new(on_error: OnError) -> BadRows {
        BadRows { on_error, skipped: 0, first: Vec::new() }
    }

    /// Records a skipped row; an error if bad rows end the run.
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

    /// Reports on standard error which of `rows` were skipped.
    pub fn print(&self, rows: u64) {
        if self.skipped == 0 {
            return;
        }
        say(&format!("skipped {} of {}:", thousands(self.skipped), plural(rows, "row")));
        self.first.iter().for_each(|bad| say(&format!("  {bad}")));
        if self.skipped > self.first.len() as u64 {
            let more = thousands(self.skipped - self.first.len() as u64);
            say(&format!("  and {more} more"));
        }
    }
}

/// Reads a schema from a file.
pub fn schema_from_file(path: &Path) -> Result<Schema> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    Schema::from_toml(&text).map_err(|error| Failure::in_text(error.in_file(path), &text))
}

/// Parses a memory size of at least 1 MiB.
pub fn parse_size(text: &str) -> std::result::Result<usize, String> {
    let bytes = usize::try_from(parse_size_of(text)?).map_err(|e| e.to_string())?;
    if bytes < 1 << 20 { Err("at least 1M is needed".to_string()) } else { Ok(bytes) }
}

/// Parses a size such as `64M`, `4G` or `1GiB`. A number without a unit is an error: it could be
/// meant in bytes or in megabytes.
pub fn parse_size_of(text: &str) -> std::result::Result<u64, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err(format!(
            "`{text}` has no unit; write {text}M for mebibytes, {text}K, {text}G, or {text}B for \
             bytes"
        )),
        false => parse_bytes(text).map(|bytes| bytes as u64),
    }
}

/// Parses a size such as `4K`, `512M`, or a number of bytes: where bytes are the only unit that
/// makes sense.
pub fn parse_bytes(text: &str) -> std::result::Result<usize, String> {
    let wrong = || format!("`{text}` is not a size; write for example 4K, 512M or 4G");
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

/// Parses a time such as `500ms`, `90s`, `15m`, `12h` or `7d`. A number without a unit is an error.
pub fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if digits == text.len() && !text.is_empty() {
        return Err(format!(
            "`{text}` has no unit and is not a time; write {text}s for seconds, {text}m for \
             minutes, {text}h, {text}d, or {text}ms for milliseconds"
        ));
    }
    let wrong = || format!("`{text}` is not a time; write for example 90s, 15m, 12h or 7d");
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(Duration::from_millis).ok_or_else(wrong)
}

/// [`parse_time`] of more than nothing.
pub fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    parse_time(text).and_then(|time| match time.is_zero() {
        true => Err("an interval is longer than nothing, for example 1s".to_string()),
        false => Ok(time),
    })
}

/// Parses a share, from 0 to 1.
pub fn parse_share(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share; write a number from 0 to 1, such as 0.8"))
}

/// A progress bar over `bytes` of input, or a spinner if the size is unknown. Hidden if standard
/// error is not a terminal.
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

/// Reads records.
pub fn read_records(inputs: &[Input], options: RecordOptions) -> firndb::Result<RecordReader> {
    quiet_parsers();
    RecordReader::new(inputs, options)
}

/// Panics of third-party parsers on damaged files are reported as errors of these files, so the
/// panic hook does not print them.
fn quiet_parsers() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(READER_THREAD) && !in_parser() {
                usual(panic);
            }
        }));
    });
}

/// A callback that advances the bar by the bytes read.
pub fn advance(bar: &ProgressBar) -> Progress {
    let bar = bar.clone();
    Progress::new(move |bytes| bar.inc(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("2097152B"), Ok(2 << 20));
        assert_eq!(parse_bytes("100"), Ok(100));
        assert!(parse_size("M").is_err() && parse_size("1X").is_err() && parse_size("1k").is_err());
        assert!(parse_size("99999999999999T").is_err());
        assert!(parse_size("64").unwrap_err().contains("write 64M"));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for wrong in ["", "h", "-1s", "1w", "99999999999999999d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("5").unwrap_err().contains("write 5s"));
        assert!(parse_interval("0s").is_err());
    }
}
