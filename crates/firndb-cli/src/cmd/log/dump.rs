//! `firn log dump`: writes all records of one snapshot in a format that `firn log load` reads.

use super::form::Form;
use super::{open_to_read, unescape};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, STDOUT, plural, size, thousands, time};
use crate::target::{Content, check_file};
use firndb::Error;
use firndb::log::{Entry, LogStore};
use firndb_ingest::{OutputFile, RecordWriter, RecordWriterOptions};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write all records: firn log dump users -o users.jsonl.zst. JSON lines say when records expire
/// (`expires_at`, in milliseconds since 1970); records that have expired are left out.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The file to write, compressed if its name ends in .gz or .zst. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the records. JSON lines hold every record; text and CSV do with --hex, except for
    /// expiry times.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
    /// Write keys and values in hexadecimal digits; give --hex to `load` too for text and CSV.
    #[arg(long)]
    hex: bool,
    /// Write records that expire as if they did not. Without it text and CSV are refused if a
    /// record expires.
    #[arg(long)]
    without_expiry: bool,
    /// Replace a regular file of this name. Files of FirnDB, directories, links, pipes and devices
    /// are never replaced.
    #[arg(long)]
    force: bool,
}

/// Counts of what was written.
#[derive(Clone, Copy, Default)]
struct Written {
    records: u64,
    /// Total bytes of their keys and values.
    bytes: u64,
    /// Records skipped because they had expired.
    expired: u64,
    /// Records that expire and were written as if they did not.
    unexpiring: u64,
}

impl Written {
    /// Reports on standard error what the output lacks.
    fn warn(self) {
        if self.unexpiring > 0 {
            let records = plural(self.unexpiring, "record");
            eprintln!(
                "note: the expiry times of {records} were not written: loaded again, they do not \
                 expire"
            );
        }
    }
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    if args.separator.is_empty() {
        return Err(Error::invalid("a separator has at least one byte").into());
    }
    let options = RecordWriterOptions::default()
        .format(args.format.of(args.output.as_deref()))
        .separator(args.separator.clone())
        .hex(args.hex)
        .without_expiry(args.without_expiry);
    let Some(path) = &args.output else {
        let store = open_to_read(&args.dir)?;
        let to = RecordWriter::new(Out::new(), STDOUT, options)?;
        let (out, written) = write_all(&store, to, |_, _| ())?;
        out.finish()?;
        written.warn();
        return Ok(());
    };
    check_file(path, Content::Rows, args.force)?;
    let store = open_to_read(&args.dir)?;
    let written = to_file(&store, path, options)?;
    let Written { records, bytes, expired, unexpiring } = written;
    let file = path.metadata().map_err(|e| Error::io("read", path, e))?.len();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "records": records,
            "bytes": bytes,
            "expired": expired,
            "without_expiry": unexpiring,
            "file_bytes": file,
            "seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        written.warn();
        let rate = records as f64 / start.elapsed().as_secs_f64().max(1e-9);
        out.line(format!(
            "{}: {}{}, {}, written in {} ({} per second)",
            path.display(),
            plural(records, "record"),
            if expired == 0 { String::new() } else { format!(" ({} expired)", thousands(expired)) },
            size(file),
            time(start.elapsed()),
            thousands(rate as u64)
        ))?;
    }
    Ok(out.finish()?)
}

/// Writes a temporary file, and renames it to `path` once it is complete.
fn to_file(store: &LogStore, path: &Path, options: RecordWriterOptions) -> firndb::Result<Written> {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".part-{}", std::process::id()));
    let part = PathBuf::from(name);
    check_file(&part, Content::Rows, false)?; // Never removes a file that it did not create.
    interrupt::says("no file was written");
    let temporary = interrupt::temporary(&part);
    let bar = progress_bar(None);
    let written = OutputFile::create(&part, path)
        .and_then(|file| RecordWriter::new(file, path, options))
        .and_then(|to| {
            write_all(store, to, |records, bytes| {
                let rate = records as f64 / bar.elapsed().as_secs_f64().max(1e-9);
                let (records, rate) = (thousands(records), thousands(rate as u64));
                bar.set_position(bytes);
                bar.set_message(format!("{records} records, {rate} a second"));
            })
        })
        .and_then(|(file, done)| {
            file.finish()?;
            std::fs::rename(&part, path).map_err(|e| Error::io("name the file", path, e))?;
            Ok(done)
        });
    bar.finish_and_clear();
    if written.is_ok() {
        interrupt::says("the file is complete");
    }
    drop(temporary);
    if written.is_err() {
        // Report the first error.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Records between two calls of `progress`.
const STEP: u64 = 1 << 14;

/// Writes all records.
fn write_all<W: Write>(
    store: &LogStore,
    mut to: RecordWriter<W>,
    progress: impl Fn(u64, u64),
) -> firndb::Result<(W, Written)> {
    let mut done = Written::default();
    let snapshot = store.snapshot();
    let mut all = snapshot.iter();
    let mut write = |entry: Entry<'_>| {
        done.records += 1;
        done.bytes += (entry.key.len() + entry.value.len()) as u64;
        if done.records % STEP == 0 {
            progress(done.records, done.bytes);
        }
        to.write(entry)
    };
    while let Some(written) = all.next_entry_with(&mut write) {
        written??;
    }
    let expired = all.expired();
    let (out, unexpiring) = to.finish()?;
    Ok((out, Written { expired, unexpiring, ..done }))
}
