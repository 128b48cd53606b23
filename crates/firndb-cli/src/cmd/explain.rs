//! `firn search explain`: the plan of a query and what running it touched.

use super::{QueryFile, open, query_of};
use crate::failure::Result;
use crate::output::Out;
use firndb_ingest::results::explain_to_json;
use std::path::PathBuf;

/// Show how a query runs and what it touches.
///
/// For example: firn search explain flights "carrier = 'UA' order by dep_delay desc limit 5"
#[derive(clap::Args)]
#[command(after_help = super::CONDITIONS)]
pub struct Args {
    /// Directory of the collection, or a partition file.
    dir: PathBuf,
    /// The query, as for `firn search query`.
    #[arg(allow_negative_numbers = true)]
    query: Vec<String>,
    #[command(flatten)]
    from: QueryFile,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let reader = open(&args.dir)?;
    let query = query_of(&args.from.text(&args.query)?, reader.schema())?;
    let explain = reader.explain(&query)?;
    let mut out = Out::new();
    if json {
        out.json(&explain_to_json(&explain))?;
    } else {
        out.line(explain.to_string().trim_end())?;
    }
    Ok(out.finish()?)
}
