//! `firn log compact`: reclaims the space of replaced and deleted records.

use super::{StoreOptions, existing, open_with};
use crate::cmd::load::parse_share;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Rewrite the live records of partly stale segments and remove those segments.
///
/// A store that a program has open does this by itself.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Minimum stale share of a segment, 0 to 1; 0 compacts the whole store.
    #[arg(long, default_value_t = 0.1, value_name = "SHARE", value_parser = parse_share)]
    threshold: f64,
    #[command(flatten)]
    store: StoreOptions,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    interrupt::says("the store has all of its records; the segments done so far stay compacted");
    let step = interrupt::step();
    // Disable background compaction: its segments would be missing from the count.
    let options = args.store.apply(existing()).background(false);
    let store = open_with(&args.dir, options)?;
    let before = store.stats();
    let segments = store.compact(args.threshold)? as u64;
    let copied = store.stats().moved_bytes;
    store.close()?;
    interrupt::says("the store is compacted");
    drop(step);
    let after = super::open_to_read(&args.dir)?.stats();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "segments": segments,
            "copied_bytes": copied,
            "before_disk_bytes": before.disk_bytes,
            "after_disk_bytes": after.disk_bytes,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        out.line(format!(
            "Compacted {} in {}: {} before, {} after; {} copied.",
            plural(segments, "segment"),
            time(start.elapsed()),
            size(before.disk_bytes),
            size(after.disk_bytes),
            size(copied)
        ))?;
    }
    Ok(out.finish()?)
}
