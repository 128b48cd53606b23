//! `firn search remove`: removes partitions from a collection.

use super::{open_collection, require_partitions};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Remove partitions.
///
/// For example: firn search remove flights 2013-01
///
/// The continuations of a partition NAME (NAME.2, NAME.3, ...) are removed with it.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// The partitions to remove.
    #[arg(required = true)]
    names: Vec<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let collection = open_collection(&args.dir)?;
    require_partitions(&collection.reader(), &args.names)?;
    interrupt::says("the collection is unchanged");
    let step = interrupt::step();
    let mut change = collection.change()?;
    let before: BTreeSet<String> = change.names().into_iter().map(str::to_string).collect();
    let mut names: Vec<&String> = args.names.iter().collect();
    names.sort_by_key(|name| name.len());
    for name in names {
        // A continuation of one of the other names, which is shorter, is already removed.
        if change.names().contains(&name.as_str()) || !before.contains(name) {
            change.remove(name)?;
        }
    }
    let reader = change.commit()?;
    interrupt::says("the change is in the collection");
    drop(step);
    let left = reader.partitions().len() as u64;
    let removed = before.len() as u64 - left;
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
