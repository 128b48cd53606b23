//! `firn log verify`: reads and checks every record of a store.

use super::open_to_read;
use crate::failure::Result;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Check every byte of a store. Exit code 0 if all is well, 6 if something is corrupt.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let store = open_to_read(&args.dir)?;
    let (checked, keys) = (store.verify()?, store.len());
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "keys": keys,
            "records": checked.records,
            "segments": checked.files,
            "bytes": checked.bytes,
        }))?;
    } else {
        out.line(format!(
            "{}: {}, {} in {}, {} checked in {}, all well",
            args.dir.display(),
            plural(keys, "key"),
            plural(checked.records, "record"),
            plural(checked.files, "segment"),
            size(checked.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
