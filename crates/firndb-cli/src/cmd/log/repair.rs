//! `firn log repair`: what is left of a damaged store, in a new one.

use super::check_absent;
use crate::failure::Result;
use crate::output::{Out, plural, time};
use firndb::log::LogStore;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Save every record that is whole into a new store; the damaged one is left as it is. A key whose
/// newest record is lost gets the value of the record before, if that is still there.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the damaged store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Directory of the new store.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    check_absent(&args.to)?;
    let repaired = LogStore::repair(&args.dir, &args.to)?;
    for (file, offset, bytes) in &repaired.dropped {
        let bytes = plural(*bytes, "byte");
        eprintln!("note: {file}: {bytes} at byte {offset} are no whole record and were given up");
    }
    let mut out = Out::new();
    if json {
        let dropped = repaired
            .dropped
            .iter()
            .map(|(file, offset, bytes)| json!({ "file": file, "offset": offset, "bytes": bytes }));
        let dropped: Vec<_> = dropped.collect();
        out.json(&json!({
            "keys": repaired.keys, "records": repaired.records, "dropped": dropped,
        }))?;
    } else {
        out.line(format!(
            "{}: {} from {}, in {}; {} given up",
            args.to.display(),
            plural(repaired.keys, "key"),
            plural(repaired.records, "record"),
            time(start.elapsed()),
            plural(repaired.dropped.len() as u64, "place")
        ))?;
    }
    Ok(out.finish()?)
}
