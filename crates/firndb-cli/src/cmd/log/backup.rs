//! `firn log backup`: a store of its own out of hard links, or of copies.

use super::{open_to_read, open_to_write};
use crate::failure::Result;
use crate::output::{Out, plural, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Make a backup of the store: hard links on the same file system, copies on another one. It can be
/// opened as any store. The directory must be new or empty, or have an earlier backup of this store
/// in it that was not written to since: that one is brought up to date. It holds the old backup or
/// the new one at every moment, whatever interrupts the command.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Directory of the backup.
    #[arg(value_name = "BACKUP")]
    to: PathBuf,
    /// Then read every record of the backup and check it.
    #[arg(long)]
    verify: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let store = open_to_write(&args.dir)?;
    let keys = store.len();
    let made = store.backup(&args.to)?;
    store.close()?;
    let verified = match args.verify {
        true => Some(open_to_read(&args.to)?.verify()?),
        false => None,
    };
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "keys": keys,
            "segments": made.segments,
            "kept": made.kept,
            "copied": made.copied,
            "verified_records": verified.map(|verified| verified.records),
        }))?;
    } else {
        let copied = match made.copied {
            0 => String::new(),
            copied => format!(", {copied} copied"),
        };
        let checked = verified.map_or(String::new(), |verified| {
            format!("; {} checked", plural(verified.records, "record"))
        });
        out.line(format!(
            "{}: {} in {} ({} there before{copied}), made in {}{checked}",
            args.to.display(),
            plural(keys, "key"),
            plural(made.segments, "segment"),
            made.kept,
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
