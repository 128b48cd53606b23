//! `firn log stats`: shows the size of a store, and how it was opened.

use super::open_to_read;
use crate::failure::Result;
use crate::output::{Grid, Out, plural, size, thousands, time};
use firndb::log::AppendMode;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Show keys, segments, sizes and how the store was opened.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = open_to_read(&args.dir)?;
    let stats = store.stats();
    let recovery = stats.recovery;
    let index_per_key = stats.index_bytes as f64 / (stats.keys as f64).max(1.0);
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "kind": "log store",
            "keys": stats.keys,
            "segments": stats.segments,
            "disk_bytes": stats.disk_bytes,
            "live_bytes": stats.live_bytes,
            "index_bytes": stats.index_bytes,
            "ordered": stats.is_ordered,
            "key_runs": stats.key_runs,
            "key_run_bytes": stats.key_run_bytes,
            "tail_bytes": stats.tail_bytes,
            "append_mode": stats.append_mode.name(),
            "recovery": {
                "elapsed_seconds": recovery.seconds,
                "scanned_segments": recovery.scanned_segments,
                "hinted_segments": recovery.hinted_segments,
            },
        }))?;
        return Ok(out.finish()?);
    }
    let share = 100.0 * stats.live_bytes as f64 / (stats.disk_bytes as f64).max(1.0);
    let mut grid = Grid::new(["what", "how much", "note"]);
    let mut row = |name: &str, value: String, note: String| {
        grid.row([name.to_string(), value, note]);
    };
    let none = String::new;
    row("keys", thousands(stats.keys), "expired ones too until they are removed".to_string());
    row("segments", thousands(stats.segments), none());
    row("on disk", size(stats.disk_bytes), "with space reserved for more".to_string());
    row("live records", size(stats.live_bytes), format!("{share:.1} % of what is on disk"));
    row("index in memory", size(stats.index_bytes), format!("{index_per_key:.1} bytes per key"));
    if stats.is_ordered {
        let runs = format!("{} of sealed segments", plural(stats.key_runs, "file"));
        row("sorted keys on disk", size(stats.key_run_bytes), runs);
        row("sorted keys in memory", size(stats.tail_bytes), "of other segments".to_string());
    }
    let how = match stats.append_mode {
        AppendMode::Map => "stored into a map of the segment",
        _ => "one call to the system each",
    };
    row("records appended by", stats.append_mode.name().to_string(), how.to_string());
    let opened = time(Duration::from_secs_f64(recovery.seconds.max(0.0)));
    row(
        "opened in",
        opened,
        format!(
            "{} segments read, {} by their hints",
            thousands(recovery.scanned_segments),
            thousands(recovery.hinted_segments)
        ),
    );
    out.line(grid)?;
    Ok(out.finish()?)
}
