//! `firn log freeze`: writes one snapshot of a log store into a table.

use super::open_to_read;
use crate::cmd::load::progress_bar;
use crate::cmd::table::{AnyBuilder, Approximation, Layout};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, thousands, time};
use crate::target::{Content, check_file};
use firndb::Error;
use firndb::log::{Entry, Snapshot};
use firndb::table::Duplicates;
use serde_json::json;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Write one snapshot of all records into a table.
///
/// For example: firn log freeze users -o users.firn
///
/// The table appears under its name when it is complete, or not at all. Tables have no expiry:
/// records that have expired are skipped, those that would expire later are kept, and the command
/// reports the number of both.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The table to write.
    #[arg(short, long, value_name = "TABLE")]
    output: PathBuf,
    #[command(flatten)]
    layout: Layout,
    #[command(flatten)]
    approximation: Approximation,
    /// Replace a table of this name; no other file is replaced.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    check_file(&args.output, Content::Table, args.force)?;
    let store = open_to_read(&args.dir)?;
    interrupt::says("no table was written");
    let mut builder =
        AnyBuilder::create(&args.output, &args.layout, &args.approximation, Duplicates::Error, "")?;
    let bar = progress_bar(None);
    let snapshot = store.snapshot();
    let mut records: u64 = 0;
    let mut expiring: u64 = 0;
    let add = |Entry { key, value, expiry, .. }: Entry<'_>| {
        records += 1;
        expiring += u64::from(expiry.millis().is_some());
        bar.inc((key.len() + value.len()) as u64);
        interrupt::check()?;
        if records.is_multiple_of(1 << 14) {
            bar.set_message(format!("{} records", thousands(records)));
        }
        builder.add(key, value)
    };
    let expired = for_each(&snapshot, args.layout.is_ordered(), add);
    bar.set_message("writing");
    let report = expired.and_then(|expired| {
        let report = builder.finish(|_| ControlFlow::Continue(()))?;
        Ok((report, expired))
    });
    bar.finish_and_clear();
    let (report, expired) = report?;
    let bytes = args.output.metadata().map_err(|e| Error::io("read", &args.output, e))?.len();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "records": report.records,
            "expired": expired,
            "without_expiry": expiring,
            "data_bytes": report.data_bytes,
            "file_bytes": bytes,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let mut notes = Vec::new();
        if expired > 0 {
            notes.push(format!("{} left out", plural(expired, "expired record")));
        }
        if expiring > 0 {
            notes.push(format!("{} without the time to expire at", thousands(expiring)));
        }
        let notes = match notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", notes.join(", ")),
        };
        out.line(format!(
            "{}: {}{notes}, {}, built in {}",
            args.output.display(),
            plural(report.records, "record"),
            size(bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// Passes all records to `add`: for a table in key order in that order, if the store has it, so
/// that the table is built in one pass. Otherwise the log is read from one end to the other, which
/// is faster. Returns the number of records left out because they had expired.
fn for_each(
    snapshot: &Snapshot,
    in_key_order: bool,
    mut add: impl FnMut(Entry<'_>) -> firndb::Result<()>,
) -> firndb::Result<u64> {
    if in_key_order && snapshot.is_ordered() {
        let mut all = snapshot.range(..)?;
        while let Some(added) = all.next_entry_with(&mut add) {
            added??;
        }
        return Ok(all.expired());
    }
    let mut all = snapshot.iter();
    while let Some(added) = all.next_entry_with(&mut add) {
        added??;
    }
    Ok(all.expired())
}
