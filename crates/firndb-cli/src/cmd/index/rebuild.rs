//! `firn index rebuild`: rebuilds what is not published yet, or everything.

use super::{Division, open, publish};
use crate::cmd::load::parse_size;
use crate::failure::Result;
use crate::interrupt;
use crate::output::Out;
use std::path::PathBuf;

/// Rebuild what is not published yet, or everything, optionally with other partitions.
///
/// For example: firn index rebuild flights; everything: ... --all; in 256 partitions: ...
/// --partitions 256
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index.
    dir: PathBuf,
    /// Rebuild all partitions, not only those that changed.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    division: Division,
    /// Also publish the collection as the next version of NAME in a catalog.
    #[arg(long, num_args = 2, value_names = ["CATALOG", "NAME"])]
    publish: Vec<String>,
    /// Memory to build with, for example 512M or 4G.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    memory: usize,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    interrupt::says("the published collection is as it was; run the command again");
    let mut indexer = open(&args.dir, args.memory)?;
    let same = args.all.then(|| indexer.partitioning().clone());
    if let Some(partitioning) = args.division.partitioning().or(same) {
        let _step = interrupt::step();
        indexer.repartition(partitioning)?;
    }
    let done = publish(&mut indexer, &args.publish)?;
    indexer.close()?;
    let mut out = Out::new();
    match json {
        true => out.json(&done.to_json())?,
        false => out.line(done.to_text())?,
    }
    Ok(out.finish()?)
}
