//! `firn search list`: lists names, documents and sizes.

use super::open;
use crate::failure::Result;
use crate::output::{Grid, Out, plural, size, thousands};
use serde_json::json;
use std::path::PathBuf;

/// List the partitions of a collection.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let partitions = open(&args.dir)?.partitions();
    let mut out = Out::new();
    if json {
        for p in &partitions {
            let line = json!({ "name": p.name, "documents": p.documents, "file_bytes": p.bytes });
            out.json(&line)?;
        }
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["partition", "documents", "size"]);
    for p in &partitions {
        grid.row([p.name.clone(), thousands(p.documents.into()), size(p.bytes)]);
    }
    out.line(grid)?;
    out.line(plural(partitions.len() as u64, "partition"))?;
    Ok(out.finish()?)
}
