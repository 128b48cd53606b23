//! `firn table build`: builds a table from files; it appears when it is complete, or not at all.

use super::builder::Built;
use super::{AnyBuilder, Approximation, Layout, check, unescape};
use crate::cmd::catalog::{CatalogLocation, publish};
use crate::cmd::dialect::DialectArgs;
use crate::cmd::load::{
    BadRows, OnError, READING, RecordFormat, advance, progress_bar, read_records,
};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, thousands, time};
use crate::target::{Content, check_file};
use clap::ValueEnum;
use firndb::table::{Duplicates, Progress};
use firndb::{Error, ErrorKind};
use firndb_ingest::{
    DataFiles, Input, RecordOptions, RecordReader, ValueColumn, expand, origin_name,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Build a table from text, CSV, JSON lines, Parquet, Arrow or Avro.
///
/// For example: firn table build users.csv.gz --key id -o users.firn
#[derive(clap::Args)]
pub struct Args {
    /// Files, directories of files, or `-` for standard input; gzip and zstd are decompressed.
    #[arg(required_unless_present = "input", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The same, for command lines of BSDB.
    #[arg(short, long, num_args = 1.., hide = true, value_name = "INPUT")]
    input: Vec<PathBuf>,
    /// The table to write.
    #[arg(short, long, value_name = "TABLE")]
    output: PathBuf,
    /// Format of the records; auto goes by the file's name, then by its first bytes.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    format: RecordFormat,
    /// The column that is the key; required for every format but text, and for JSON lines that do
    /// not have the members `key` and `value`. The key of several columns is their values with the
    /// character U+001F between them.
    #[arg(help_heading = READING, short, long, value_delimiter = ',', value_name = "COLUMN,...")]
    key: Vec<String>,
    /// Use the number of a row as its key, from 1 and over all inputs.
    #[arg(help_heading = READING, long, conflicts_with = "key")]
    row_number: bool,
    /// The columns that are the value (default: all others). One column is stored unchanged,
    /// several become a record. In CSV and JSON lines a type can be named: boolean, long, double,
    /// string, json.
    #[arg(
        help_heading = READING,
        long, value_delimiter = ',', value_name = "COLUMN[:TYPE]", value_parser = ValueColumn::parse
    )]
    value: Vec<ValueColumn>,
    /// Make a record of a single column too.
    #[arg(help_heading = READING, long)]
    record: bool,
    /// Separator of key and value in text; \t, \0, \\ and \xHH are understood [default: " "].
    #[arg(help_heading = READING, short, long, value_name = "TEXT", value_parser = separator)]
    separator: Option<std::vec::Vec<u8>>,
    #[command(flatten)]
    dialect: DialectArgs,
    /// What to do about a row that cannot be used.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    on_error: OnError,
    /// What to do about a key that occurs twice.
    #[arg(help_heading = READING, long, value_enum, default_value_t)]
    duplicates: Twice,
    #[command(flatten)]
    layout: Layout,
    #[command(flatten)]
    approximation: Approximation,
    /// Replace a table of this name; no other file is replaced.
    #[arg(long)]
    force: bool,
    /// Afterwards read the inputs again, look up every record and compare.
    #[arg(long)]
    verify_input: bool,
    /// Finally publish the table as the next version of NAME in a catalog.
    #[arg(long, num_args = 2, value_names = ["CATALOG", "NAME"])]
    publish: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Twice {
    /// Stop, and name the key and both input positions.
    #[default]
    Error,
    /// Keep the first record.
    First,
    /// Keep the last record.
    Last,
}

fn separator(text: &str) -> std::result::Result<Vec<u8>, String> {
    match unescape(text)? {
        bytes if bytes.is_empty() => Err("a separator has at least one byte".to_string()),
        bytes if bytes.contains(&b'\n') => {
            Err("a newline ends a record, so it cannot stand within one".to_string())
        }
        bytes => Ok(bytes),
    }
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    interrupt::says("nothing was written");
    let inputs = expand(&[&args.inputs[..], &args.input].concat(), DataFiles::Records)?;
    args.check(&inputs)?;
    let work = Work {
        names: inputs.iter().map(Input::name).collect(),
        options: args.record_options(),
        inputs,
    };
    let (report, read, skipped) = build(args, &work)?;
    if args.verify_input {
        interrupt::says("the table is built, but not compared");
        check::run(&args.output, &work, &report)?;
    }
    let published = match &args.publish[..] {
        [location, name] => {
            interrupt::says("the table is complete, but not published");
            Some(publish(&CatalogLocation::new(location), name, &args.output, &[], false)?)
        }
        _ => None,
    };
    let bytes = args.output.metadata().map_or(0, |meta| meta.len());
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "version": published.map(|published| published.version.number),
            "records": report.records,
            "duplicates": report.duplicates,
            "rows": read,
            "skipped": skipped,
            "data_bytes": report.data_bytes,
            "file_bytes": bytes,
            "spilled_bytes": report.spilled_bytes,
            "verified": args.verify_input,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let twice = match report.duplicates {
            0 => String::new(),
            count => format!(" ({} left out)", plural(count, "duplicate")),
        };
        out.line(format!(
            "{}: {}{twice}, {}, built{} in {}",
            args.output.display(),
            plural(report.records, "record"),
            size(bytes),
            if args.verify_input { " and compared" } else { "" },
            time(start.elapsed())
        ))?;
        if let Some(published) = published {
            let version = published.version;
            out.line(format!("{}: version {}, published", version.name, version.number))?;
        }
    }
    Ok(out.finish()?)
}

/// What the steps of a build share.
pub struct Work {
    pub inputs: Vec<Input>,
    /// Names of the inputs, for messages.
    pub names: Vec<String>,
    pub options: RecordOptions,
}

impl Work {
    /// Reads the inputs from their start. The bar counts their bytes.
    pub fn read(&self) -> firndb::Result<(RecordReader, ProgressBar)> {
        let sizes: Option<Vec<u64>> = self.inputs.iter().map(|input| input.size()).collect();
        let bar = progress_bar(sizes.map(|sizes| sizes.iter().sum()));
        let options = self.options.clone().progress(advance(&bar)).cancel(interrupt::flag());
        Ok((read_records(&self.inputs, options)?, bar))
    }
}

/// Rows between two updates of the bar's message.
const MESSAGE_ROWS: u64 = 1 << 14;

/// Time between two checks of the path while records are written. A check lists the directory of
/// the table and two above it, and the progress is called about a thousand times.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Reads all inputs and writes the table. Returns the report, and the rows read and skipped.
fn build(args: &Args, work: &Work) -> Result<(Built, u64, u64)> {
    let (mut reader, bar) = work.read()?;
    let mut builder = args.builder(reader.schema())?;
    let names = work.names.clone();
    builder.name_origins(move |origin| origin_name(origin, &names));
    let (mut rows, mut bad_rows) = (0, BadRows::new(args.on_error));
    let mut add_all = || -> firndb::Result<()> {
        while let Some(batch) = reader.next_batch()? {
            let before: u64 = rows;
            for bad in batch.bad_rows() {
                rows += 1;
                bad_rows.take(bad)?;
            }
            for (origin, key, value) in batch.iter() {
                rows += 1;
                match builder.add_from(origin, key, value) {
                    Err(e) if e.kind() == ErrorKind::InvalidArgument => bad_rows.take(e)?,
                    added => added?,
                }
            }
            if before / MESSAGE_ROWS != rows / MESSAGE_ROWS {
                bar.set_message(format!("{} records", thousands(rows)));
            }
        }
        Ok(())
    };
    let added = add_all();
    bar.finish_and_clear();
    added?;
    bad_rows.print(rows);
    // A column with a requested type may still be missing or misspelled.
    for name in reader.absent_columns().iter().filter(|_| rows > bad_rows.skipped) {
        eprintln!("note: no row has the column `{name}`: it is null everywhere");
    }
    let bar = record_bar("writing");
    // Another process may have created a file of this name meanwhile. The last check runs once all
    // records are written: a file created while the end is written and synced is still replaced.
    args.check_free()?;
    let (mut taken, mut checked, mut is_written) = (Ok(()), Instant::now(), false);
    let built = builder.finish(|Progress { done, total, .. }| {
        bar.set_length(total);
        bar.set_position(done);
        let is_last = done == total && !is_written;
        is_written = done == total;
        if is_last || checked.elapsed() >= CHECK_INTERVAL {
            (taken, checked) = (args.check_free(), Instant::now());
        }
        if taken.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    taken?;
    Ok((built?, rows, bad_rows.skipped))
}

/// A progress bar over records, with their rate and the remaining time.
fn record_bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_prefix(what);
    let template = "{prefix} {bar:30} {human_pos}/{human_len} records {per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Args {
    /// Finds errors that would otherwise surface only after everything was read.
    fn check(&self, inputs: &[Input]) -> firndb::Result<()> {
        let (table, exists) = (&self.output, self.output.exists());
        let itself = |input: &Input| match input {
            Input::File(path) => exists && path.canonicalize().ok() == table.canonicalize().ok(),
            Input::Stdin => false,
        };
        if self.force && inputs.iter().any(itself) {
            return Err(Error::invalid("the table would replace its own input").in_file(table));
        }
        self.check_free()?;
        if let ([ValueColumn { name, ty: Some(_), .. }], false) = (&self.value[..], self.record) {
            return Err(Error::invalid(format!(
                "a single column is a value as it is, without a type; say --value {name}, or add \
                 --record"
            )));
        }
        let parent = table.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        for dir in std::iter::once(parent).chain(self.layout.temp.as_deref()) {
            let meta = dir.metadata().map_err(|e| Error::io("use the directory", dir, e))?;
            if !meta.is_dir() {
                return Err(Error::invalid("this is not a directory").in_file(dir));
            }
        }
        let once = |input: &&Input| match input {
            Input::File(path) => !path.is_file(),
            Input::Stdin => true,
        };
        if let Some(input) = inputs.iter().find(once).filter(|_| self.verify_input) {
            let name = input.name();
            return Err(Error::invalid(format!(
                "--verify-input reads the inputs again, and {name} is gone by then; name a file"
            )));
        }
        Ok(())
    }

    /// Fails if the path has a file that must not be replaced.
    fn check_free(&self) -> firndb::Result<()> {
        check_file(&self.output, Content::Table, self.force)
    }

    fn record_options(&self) -> RecordOptions {
        RecordOptions::default()
            .format(self.format.into())
            .separator(self.separator.clone().unwrap_or_else(|| b" ".to_vec()))
            .require_text(self.separator.is_some())
            .dialect(self.dialect.dialect())
            .keys(self.key.iter().cloned())
            .row_number(self.row_number)
            .values(self.value.clone())
            .record(self.record)
    }

    fn builder(&self, schema: &str) -> firndb::Result<AnyBuilder> {
        let duplicates = match self.duplicates {
            Twice::Error => Duplicates::Error,
            Twice::First => Duplicates::First,
            Twice::Last => Duplicates::Last,
        };
        AnyBuilder::create(&self.output, &self.layout, &self.approximation, duplicates, schema)
    }
}
