//! `firn index init`: creates an index.

use super::{Division, in_words};
use crate::cmd::load::schema_from_file;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural};
use crate::target::is_free;
use firndb::indexer::{Indexer, Options, Partitioning};
use firndb::{Error, ErrorKind};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Create an index: a directory that takes feeds, with a collection in it.
///
/// For example: firn index init flights --schema flights.toml --partition-by carrier
///
/// `firn search build --infer flights.csv > flights.toml` writes a schema to start from.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index, a new one; its collection will be DIR/collection.
    dir: PathBuf,
    /// Schema (TOML) of the documents.
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    #[command(flatten)]
    division: Division,
}

/// Partitions by hash by default.
const DEFAULT_PARTITIONS: u32 = 64;

pub fn run(args: &Args, json: bool) -> Result<()> {
    check_absent(&args.dir)?;
    let schema = schema_from_file(&args.schema)?;
    let division = args.division.partitioning();
    let division = division.unwrap_or_else(|| Partitioning::by_hash(DEFAULT_PARTITIONS));
    interrupt::says("no index was made");
    let step = interrupt::step();
    let indexer = Indexer::open(&args.dir, schema, division, Options::default())?;
    let (fields, partitioning) = (indexer.schema().fields().len() as u64, indexer.partitioning());
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "fields": fields,
            "partition_by": partitioning.field(),
            "partitions": partitioning.partitions(),
        }))?;
    } else {
        out.line(format!(
            "{}: an index of documents with {}, divided by {}",
            args.dir.display(),
            plural(fields, "field"),
            in_words(partitioning)
        ))?;
    }
    indexer.close()?;
    interrupt::says("the index is complete");
    drop(step);
    Ok(out.finish()?)
}

/// `AlreadyExists` if anything is at this path.
fn check_absent(dir: &Path) -> firndb::Result<()> {
    if is_free(dir)? {
        return Ok(());
    }
    let message = match dir.join("log").is_dir() && dir.join("collection").is_dir() {
        true => {
            "there is an index already; `firn index apply` takes feeds, `firn index rebuild` \
             divides its documents in another way"
        }
        false => "the directory is not empty; name a new one",
    };
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}
