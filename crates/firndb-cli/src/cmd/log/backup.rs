//! `firn log backup`: backs up a store into another directory, by hard links or copies.

use super::{open_to_read, open_to_write};
use crate::failure::Result;
use crate::interrupt;
use crate::new_dir::{self, Sentences};
use crate::output::{Out, plural, time};
use crate::target::is_free;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Make a backup of the store, or bring one up to date.
///
/// For example: firn log backup users -o backup
///
/// The files are hard links on the same file system, copies on another one. The backup can be
/// opened like any store. The directory must be new or empty, or hold an earlier backup of this
/// store that was not written to since, which is brought up to date. If the command is interrupted,
/// the directory holds the old backup or the new one.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Directory of the backup.
    #[arg(short = 'o', long = "output", value_name = "BACKUP")]
    to: PathBuf,
    /// Afterwards read and check every record of the backup.
    #[arg(long)]
    verify: bool,
}

const SENTENCES: Sentences = Sentences {
    absent: "no backup was made, and the store is unchanged",
    unfinished: "the directory holds an unfinished backup, which the same command completes",
    complete: "the backup is complete, but not verified",
};

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let store = open_to_write(&args.dir)?;
    let keys = store.len();
    let made = match is_free(&args.to)? {
        true => new_dir::fill(&args.to, "backup", &SENTENCES, |dir| store.backup(dir))?,
        // In the directory of an earlier backup, that backup stays complete.
        false => {
            let _step = interrupt::step();
            interrupt::says("the directory holds the earlier backup or the new one");
            let made = store.backup(&args.to)?;
            interrupt::says(SENTENCES.complete);
            made
        }
    };
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
            "kept_segments": made.kept,
            "copied_segments": made.copied,
            "verified_records": verified.map(|verified| verified.records),
            "elapsed_seconds": start.elapsed().as_secs_f64(),
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
