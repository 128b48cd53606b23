//! `firn search replace`: replaces a partition by rows of files, while readers keep working.

use super::load::{Load, LoadArgs};
use super::{open_collection, require_partitions};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use firndb::search::PartitionBuilder;
use firndb::{Error, ErrorKind};
use serde_json::json;
use std::path::PathBuf;

/// Replace a partition by rows of files.
///
/// For example: firn search replace flights 2013-07 july.csv
///
/// The continuations of a partition NAME (NAME.2, NAME.3, ...) are replaced with it.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the collection.
    dir: PathBuf,
    /// The partition. (`firn search build --add --partition NAME` adds one.)
    name: String,
    #[command(flatten)]
    load: LoadArgs,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    interrupt::says("the collection is unchanged");
    let collection = open_collection(&args.dir)?;
    collection.check_changeable()?; // Fails before any row is read.
    let before = collection.reader();
    require_partitions(&before, std::slice::from_ref(&args.name))?;
    let mut load = Load::new(&args.load.rows)?;
    let chosen = load.schema(&args.load, Some(before.schema()))?;
    let mut builder = PartitionBuilder::new(chosen.schema.clone()).memory_limit(usize::MAX);
    let report = load.run(&chosen, &mut |_, _, document| {
        if builder.memory() > args.load.rows.memory {
            // Not an error of this row, so --on-error skip does not apply.
            let message = "the partition needs more memory than --memory gives";
            return Err(Error::new(ErrorKind::Failed, message));
        }
        builder.add(document)
    })?;
    if builder.is_empty() {
        let hint = "there are no rows; `firn search remove` takes a partition away";
        return Err(Error::invalid(hint).into());
    }
    let documents = u64::from(builder.len());
    let step = interrupt::step();
    let mut change = collection.change()?;
    change.put(&args.name, builder)?;
    let reader = change.commit()?;
    interrupt::says("the change is in the collection");
    drop(step);
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "partition": args.name,
            "documents": documents,
            "skipped": report.skipped,
            "before_documents": before.len(),
            "after_documents": reader.len(),
        }))?;
    } else {
        out.line(format!(
            "Replaced {}: {} now, {} in the collection.",
            args.name,
            plural(documents, "document"),
            plural(reader.len(), "document")
        ))?;
    }
    Ok(out.finish()?)
}
