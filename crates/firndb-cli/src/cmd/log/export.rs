//! `firn log export`: writes all records of one snapshot into a file that `firn log load` reads.

use super::writer::{entry_writer, write_batches};
use super::{open_to_read, unescape};
use crate::cmd::formats::{Exported, FileFormat, Sink, Target};
use crate::failure::{Result, say};
use crate::output::{Out, plural, size, thousands, time};
use firndb::Error;
use firndb::log::{Entry, LogStore};
use firndb_ingest::RecordWriterOptions;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Write all records into a file that `load` reads.
///
/// For example: firn log export users -o users.jsonl.zst
///
/// JSON lines hold when records expire (`expires_at`, in milliseconds since 1970); records that
/// have expired are left out.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
    /// Write keys and values in hexadecimal digits; give --hex to `load` too for text and CSV.
    #[arg(long)]
    hex: bool,
    /// Write records that expire as if they did not. Without it every format but JSON lines is
    /// refused if a record expires.
    #[arg(long)]
    without_expiry: bool,
}

/// Counts of what was written.
#[derive(Clone, Copy, Default)]
struct Written {
    records: u64,
    /// Total bytes of their keys and values; `None` for record batches.
    bytes: Option<u64>,
    /// Records skipped because they had expired.
    expired: Option<u64>,
    /// Records that expire and were written as if they did not.
    unexpiring: u64,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    if args.separator.is_empty() {
        return Err(Error::invalid("a separator has at least one byte").into());
    }
    let format = args.target.check()?;
    if args.hex && format.is_batches() {
        let message = "Parquet and Arrow hold any bytes, without --hex";
        return Err(Error::invalid(message).into());
    }
    let store = open_to_read(&args.dir)?;
    let Exported { counts, file_bytes } = args.target.write(|sink, bar| {
        let progress = |records: u64, bytes: u64| {
            let rate = records as f64 / bar.elapsed().as_secs_f64().max(1e-9);
            let (records, rate) = (thousands(records), thousands(rate as u64));
            bar.set_position(bytes);
            bar.set_message(format!("{records} records, {rate} per second"));
        };
        match format.is_batches() {
            true => {
                let (sink, records, unexpiring) =
                    write_batches(&store, format, sink, args.without_expiry, |n| progress(n, 0))?;
                Ok((sink, Written { records, unexpiring, ..Written::default() }))
            }
            false => args.write_all(&store, format, sink, progress),
        }
    })?;
    if counts.unexpiring > 0 && !json {
        let records = plural(counts.unexpiring, "record");
        say(&format!(
            "note: the expiry times of {records} were not written: loaded again, they do not expire"
        ));
    }
    let Some(file_bytes) = file_bytes else { return Ok(()) };
    report(args, counts, file_bytes, start, json)
}

fn report(args: &Args, counts: Written, file: u64, start: Instant, json: bool) -> Result<()> {
    let Written { records, bytes, expired, unexpiring } = counts;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "records": records,
            "data_bytes": bytes,
            "expired": expired,
            "without_expiry": unexpiring,
            "file_bytes": file,
            "elapsed_seconds": seconds,
        }))?;
        return Ok(out.finish()?);
    }
    let expired = expired.filter(|expired| *expired > 0);
    out.line(format!(
        "{}: {}{}, {}, written in {} ({} per second)",
        args.target.path().display(),
        plural(records, "record"),
        expired.map_or(String::new(), |expired| format!(" ({} expired)", thousands(expired))),
        size(file),
        time(start.elapsed()),
        thousands((records as f64 / seconds.max(1e-9)) as u64)
    ))?;
    Ok(out.finish()?)
}

/// Records between two calls of `progress`.
const STEP: u64 = 1 << 14;

impl Args {
    /// Writes all records in a text format.
    fn write_all(
        &self,
        store: &LogStore,
        format: FileFormat,
        sink: Sink,
        progress: impl Fn(u64, u64),
    ) -> firndb::Result<(Sink, Written)> {
        let options = RecordWriterOptions::default()
            .separator(self.separator.clone())
            .hex(self.hex)
            .without_expiry(self.without_expiry);
        let mut to = entry_writer(sink, self.target.path(), format, options)?;
        let (mut records, mut bytes) = (0, 0);
        let snapshot = store.snapshot();
        let mut all = snapshot.iter();
        let mut write = |entry: Entry<'_>| {
            records += 1;
            bytes += (entry.key.len() + entry.value.len()) as u64;
            if records % STEP == 0 {
                progress(records, bytes);
            }
            to.write(entry)
        };
        while let Some(written) = all.next_entry_with(&mut write) {
            written??;
        }
        let expired = Some(all.expired());
        let (sink, unexpiring) = to.finish()?;
        Ok((sink, Written { records, bytes: Some(bytes), expired, unexpiring }))
    }
}
