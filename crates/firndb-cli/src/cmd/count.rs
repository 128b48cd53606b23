//! `firn search count`: how many documents satisfy a condition.

use super::{QueryFile, filter_of, open};
use crate::failure::Result;
use crate::output::Out;
use serde_json::json;
use std::path::PathBuf;

/// Count the documents that satisfy a condition.
///
/// For example: firn search count flights "dep_delay > 60"
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The condition. Empty: all documents.
    #[arg(allow_negative_numbers = true)]
    filter: Vec<String>,
    #[command(flatten)]
    from: QueryFile,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let filter = filter_of(&args.from.text(&args.filter)?, reader.schema())?;
    let count = reader.count(&filter)?;
    let mut out = Out::new();
    if json {
        out.json(&json!({ "count": count }))?;
    } else {
        out.line(count)?;
    }
    Ok(out.finish()?)
}
