//! `firn index list`: lists the sources.

use super::open;
use crate::failure::Result;
use crate::output::{Grid, Out, thousands};
use serde_json::json;
use std::path::PathBuf;

/// List the sources.
///
/// List the sources with the numbers of their documents.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index.
    dir: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let sources = open(&args.dir, 0)?.status()?.sources;
    let mut out = Out::new();
    let mut grid = Grid::new(["source", "documents"]);
    for (name, documents) in sources {
        match json {
            true => out.json(&json!({ "name": name, "documents": documents }))?,
            false => grid.row([name, thousands(documents)]),
        }
    }
    if !json {
        out.line(grid)?;
    }
    Ok(out.finish()?)
}
