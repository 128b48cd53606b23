//! `firn index stats`: shows sources, partitions, and what is not published yet.

use super::{in_words, open};
use crate::failure::Result;
use crate::output::{Grid, Out, plural, size, thousands};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Show sources, partitions, and what is not published yet.
///
/// For example: firn index stats flights
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index.
    dir: PathBuf,
}

/// Maximum number of dirty partitions named.
const SHOWN: usize = 8;

pub fn run(args: &Args, json: bool) -> Result<()> {
    let indexer = open(&args.dir, 0)?;
    let status = indexer.status()?;
    let partitioning = indexer.partitioning();
    let mut out = Out::new();
    if json {
        let source = |(name, documents): &(String, u64)| -> Json {
            json!({ "name": name, "documents": documents })
        };
        out.json(&json!({
            "kind": "index",
            "sources": status.sources.iter().map(source).collect::<Vec<_>>(),
            "dirty": status.dirty,
            "partitions": status.partitions,
            "documents": status.documents,
            "file_bytes": status.bytes,
            "version": status.version,
            "log_bytes": status.log_bytes,
            "partition_by": partitioning.field(),
            "partitions_by_hash": partitioning.partitions(),
        }))?;
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["source", "documents"]);
    for (name, documents) in &status.sources {
        grid.row([name.clone(), thousands(*documents)]);
    }
    out.line(grid)?;
    out.line(format!(
        "Published as set {}: {} in {}, {}; divided by {}; the log takes {}.",
        status.version,
        plural(status.documents, "document"),
        plural(status.partitions, "partition"),
        size(status.bytes),
        in_words(partitioning),
        size(status.log_bytes)
    ))?;
    if !status.dirty.is_empty() {
        let names: Vec<&str> = status.dirty.iter().take(SHOWN).map(String::as_str).collect();
        let more = if status.dirty.len() > SHOWN { ", ..." } else { "" };
        out.line(format!(
            "{} changed and not published: {}{more}; `firn index rebuild` publishes.",
            plural(status.dirty.len() as u64, "partition"),
            names.join(", ")
        ))?;
    }
    Ok(out.finish()?)
}
