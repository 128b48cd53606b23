//! `firn log backup`: a store of its own out of hard links.

use super::open_to_write;
use crate::failure::Result;
use crate::output::{Out, plural, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Make a copy of the store out of hard links, on the same file system; it can be opened as any
/// store. A backup that is there already is brought up to date.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Directory of the backup.
    #[arg(value_name = "BACKUP")]
    to: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let store = open_to_write(&args.dir)?;
    let keys = store.len();
    let made = store.backup(&args.to)?;
    store.close()?;
    let mut out = Out::new();
    if json {
        out.json(&json!({ "keys": keys, "segments": made.segments, "kept": made.kept }))?;
    } else {
        out.line(format!(
            "{}: {} in {} ({} there before), made in {}",
            args.to.display(),
            plural(keys, "key"),
            plural(made.segments, "segment"),
            made.kept,
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
