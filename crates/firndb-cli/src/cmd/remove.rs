//! `firn search remove`: takes partitions out of a collection.

use super::require_partitions;
use crate::failure::Result;
use crate::output::{Out, plural};
use firndb::search::Collection;
use serde_json::json;
use std::path::PathBuf;

/// Remove partitions: firn search remove flights 2013-01
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// The partitions to remove.
    #[arg(required = true)]
    names: Vec<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let collection = Collection::open(&args.dir)?;
    require_partitions(&collection.reader(), &args.names)?;
    let mut change = collection.change()?;
    args.names.iter().try_for_each(|name| change.remove(name))?;
    let reader = change.commit()?;
    let (removed, left) = (args.names.len() as u64, reader.partitions().len() as u64);
    let mut out = Out::new();
    if json {
        out.json(&json!({ "removed": removed, "partitions": left, "documents": reader.len() }))?;
    } else {
        let documents = plural(reader.len(), "document");
        let left = plural(left, "partition");
        out.line(format!(
            "Removed {}; {documents} in {left} remain.",
            plural(removed, "partition")
        ))?;
    }
    Ok(out.finish()?)
}
