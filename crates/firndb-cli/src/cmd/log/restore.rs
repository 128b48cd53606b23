//! `firn log restore`: creates a new store from a backup.

use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, time};
use crate::target::is_free;
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

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    interrupt::says("nothing was restored, and the backup is unchanged");
    // A directory that is in use is refused, and stays.
    let new = is_free(&args.to)?.then(|| interrupt::new_directory(&args.to));
    let restored = LogStore::restore(&args.from, &args.to)?;
    drop(new);
    interrupt::says("the store is restored");
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
