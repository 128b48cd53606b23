//! `firn log repair`: saves the intact records of a damaged store into a new one.

use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::new_dir::{self, Sentences};
use crate::output::{Out, plural, time};
use crate::target::check_new;
use firndb::log::LogStore;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Save what is left of a damaged store into a new one.
///
/// Save every intact record into a new store; the damaged one is not changed. A key whose newest
/// record is lost gets the value of its previous record, if that is still present.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the damaged store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Directory of the new store; it must be missing or empty.
    #[arg(short = 'o', long = "output", required_unless_present = "dry_run", value_name = "DIR")]
    to: Option<PathBuf>,
    /// Report what would be saved, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

const SENTENCES: Sentences = Sentences {
    absent: "nothing was saved, and the damaged store is unchanged",
    unfinished: "the new store is incomplete: remove its files; the damaged store is unchanged",
    complete: "the new store is complete",
};

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    args.to.as_deref().map_or(Ok(()), check_new)?;
    let bar = progress_bar(Some(0));
    let progress = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let repaired = match &args.to {
        Some(to) if !args.dry_run => new_dir::fill(to, "repair", &SENTENCES, |new| {
            LogStore::repair_with(&args.dir, new, progress)
        }),
        _ => LogStore::repair_dry_run(&args.dir, progress),
    };
    bar.finish_and_clear();
    let repaired = repaired?;
    for (file, offset, bytes) in &repaired.dropped {
        let bytes = plural(*bytes, "byte");
        let what = if args.dry_run { "would be" } else { "were" };
        eprintln!(
            "note: {file}: {bytes} at byte {offset} are not an intact record and {what} left out"
        );
    }
    let mut out = Out::new();
    if json {
        let dropped = repaired.dropped.iter().map(|(file, offset, bytes)| {
            json!({ "file": file, "offset": offset, "dropped_bytes": bytes })
        });
        let dropped: Vec<_> = dropped.collect();
        out.json(&json!({
            "keys": repaired.keys,
            "records": repaired.records,
            "dropped": dropped,
            "dry_run": args.dry_run,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let dir = args.to.as_ref().filter(|_| !args.dry_run).unwrap_or(&args.dir);
        let what = if args.dry_run { "nothing was written: " } else { "" };
        out.line(format!(
            "{}: {what}{} from {}, in {}; {} left out",
            dir.display(),
            plural(repaired.keys, "key"),
            plural(repaired.records, "record"),
            time(start.elapsed()),
            plural(repaired.dropped.len() as u64, "damaged range")
        ))?;
    }
    Ok(out.finish()?)
}
