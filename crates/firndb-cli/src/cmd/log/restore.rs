//! `firn log restore`: creates a new store from a backup.

use crate::failure::Result;
use crate::new_dir::{self, Sentences};
use crate::output::{Out, plural, size, time};
use firndb::log::LogStore;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Create a new store from a backup.
///
/// For example: firn log restore backup -o users
///
/// The backup can be one of `backup`, or from any store that no program has open for writing. All
/// records are checked, every file is copied, and the copies are compared; the backup stays
/// independent of the store. An interrupted restore leaves a directory that cannot be opened;
/// nothing is ever overwritten.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the backup.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// Directory of the new store; it must be missing or empty.
    #[arg(short = 'o', long = "output", value_name = "STORE")]
    to: PathBuf,
}

const SENTENCES: Sentences = Sentences {
    absent: "nothing was restored, and the backup is unchanged",
    unfinished: "the directory holds an unfinished store, which cannot be opened: remove its files",
    complete: "the store is restored",
};

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let restored =
        new_dir::fill(&args.to, "restore", &SENTENCES, |dir| LogStore::restore(&args.from, dir))?;
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "keys": restored.keys,
            "records": restored.records,
            "segments": restored.segments,
            "copied_bytes": restored.bytes,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        out.line(format!(
            "{}: {} from {}, {}, checked and compared in {}",
            args.to.display(),
            plural(restored.keys, "key"),
            plural(restored.segments, "segment"),
            size(restored.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
