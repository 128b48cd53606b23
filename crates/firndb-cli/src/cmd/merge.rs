//! `firn search merge`: joins several partitions into one, without the source documents.

use super::{open_collection, require_partitions};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use serde_json::json;
use std::path::PathBuf;

/// Join partitions into one.
///
/// For example: firn search merge flights 2013-01 2013-02 2013-03 --into 2013-q1
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// The partitions to join; they are removed.
    #[arg(required = true, num_args = 1..)]
    names: Vec<String>,
    /// Name of the joined partition; it may be one of theirs.
    #[arg(long, value_name = "NAME")]
    into: String,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let collection = open_collection(&args.dir)?;
    require_partitions(&collection.reader(), &args.names)?;
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    interrupt::says("the collection is unchanged");
    let step = interrupt::step();
    let mut change = collection.change()?;
    change.merge(&names, &args.into)?;
    let reader = change.commit()?;
    interrupt::says("the change is in the collection");
    drop(step);
    let info = reader.partitions().into_iter().find(|p| p.name == args.into);
    let documents = info.map_or(0, |p| u64::from(p.documents));
    let mut out = Out::new();
    if json {
        out.json(&json!({ "partition": args.into, "documents": documents }))?;
    } else {
        let merged = plural(names.len() as u64, "partition");
        let documents = plural(documents, "document");
        out.line(format!("Merged {merged} into {}: {documents}.", args.into))?;
    }
    Ok(out.finish()?)
}
