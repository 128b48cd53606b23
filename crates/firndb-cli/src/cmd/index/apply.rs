//! `firn index apply`: applies rows of files as a new version of a source's feed.

use super::key::key_of;
use super::{open, publish};
use crate::cmd::load::{Chosen, Load, Report, RowArgs, parse_share};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, thousands, time};
use firndb::Error;
use firndb::indexer::{Applied, Indexer, Removals};
use firndb_ingest::Row;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Apply a new version of a source's feed, or single changes, and publish what changed.
///
/// For example: firn index apply flights united united.csv.gz --key flight,time_hour
///
/// The rows are the complete state of the source: documents of the source whose keys are not among
/// them are removed. The feed is applied as a whole or not at all. A feed is refused if it would
/// remove more than half of the source's documents and more than 100, or if rows of it were skipped
/// and it would remove any: --max-removed or --allow-removals allow it.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("key of a row").required(true)))]
pub struct Args {
    /// Directory of the index.
    dir: PathBuf,
    /// The source. If several sources have documents with one key, that of the source with the
    /// smallest name is published.
    source: String,
    #[command(flatten)]
    rows: RowArgs,
    /// Columns whose values are the key of a row; required without --row-number.
    #[arg(long, value_delimiter = ',', value_name = "COLUMN,...", group = "key of a row")]
    key: Vec<String>,
    /// Use the number of a row as its key, counted from 1 over all inputs. Inserting a row changes
    /// the keys of all rows after it, so use this for feeds that grow at their end.
    #[arg(long, conflicts_with_all = ["update", "delete"], group = "key of a row")]
    row_number: bool,
    /// The rows are single changes: other documents stay.
    #[arg(long)]
    update: bool,
    /// The rows name keys whose documents are removed; other columns are ignored.
    #[arg(long, conflicts_with = "update")]
    delete: bool,
    /// Allow a feed without rows, which removes all documents of the source.
    #[arg(long)]
    allow_empty: bool,
    /// Allow the feed to remove at most this share of the source's documents, from 0 to 1, even if
    /// rows were skipped.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    #[arg(conflicts_with_all = ["allow_removals", "update", "delete"])]
    max_removed: Option<f64>,
    /// Allow the feed to remove any number of documents.
    #[arg(long, conflicts_with_all = ["update", "delete"])]
    allow_removals: bool,
    /// Apply the feed, and leave publishing to a later run.
    #[arg(long)]
    no_publish: bool,
    /// Also publish the collection as the next version of NAME in a catalog.
    #[arg(long, num_args = 2, value_names = ["CATALOG", "NAME"], conflicts_with = "no_publish")]
    publish: Vec<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    interrupt::says("the feed was not applied");
    let load = Load::new(&args.rows)?;
    let mut indexer = open(&args.dir, args.rows.memory)?;
    let (applied, report) = take(args, &mut indexer, load)?;
    let took = start.elapsed();
    let done = (!args.no_publish).then(|| publish(&mut indexer, &args.publish)).transpose()?;
    indexer.close()?;
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "source": args.source,
            "added": applied.added,
            "updated": applied.updated,
            "removed": applied.removed,
            "unchanged": applied.unchanged,
            "repeated": applied.repeated,
            "skipped": report.skipped,
            "dirty": applied.dirty,
            "elapsed_seconds": took.as_secs_f64(),
            "published": done.as_ref().map(super::Done::to_json),
        }))?;
    } else {
        out.line(in_words(&args.source, &applied, took))?;
        if let Some(done) = done {
            out.line(done.to_text())?;
        }
    }
    Ok(out.finish()?)
}

fn in_words(source: &str, applied: &Applied, took: Duration) -> String {
    let counts = [
        (applied.added, "added"),
        (applied.updated, "updated"),
        (applied.removed, "removed"),
        (applied.unchanged, "unchanged"),
        (applied.repeated, "given again"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, what)| format!("{} {what}", thousands(*count))).collect();
    let counts = if counts.is_empty() { "no documents".to_string() } else { counts.join(", ") };
    let partitions = plural(applied.dirty.len() as u64, "partition");
    format!("{source}: {counts}; {partitions} changed, in {}.", time(took))
}

/// Applies the rows to the index.
fn take(args: &Args, indexer: &mut Indexer, load: Load) -> Result<(Applied, Report)> {
    let chosen = Chosen { schema: indexer.schema().clone(), inferred: false };
    let is_whole = !args.update && !args.delete;
    let mut feed =
        if is_whole { indexer.feed(&args.source)? } else { indexer.changes(&args.source)? };
    let report = match args.delete {
        true => load.each(&mut |row| feed.remove(key_of(row, &args.key, &chosen.schema)?))?,
        false => {
            let key = |number: u64, row: &Row| match args.row_number {
                true => Ok(number.to_string()),
                false => key_of(row, &args.key, &chosen.schema),
            };
            load.run(&chosen, &mut |number, row, document| feed.add(key(number, row)?, document))?
        }
    };
    let is_empty = is_whole && report.rows == report.skipped;
    if is_empty && !args.allow_empty && !args.allow_removals && args.max_removed.is_none() {
        let message = "the feed has no rows, so everything that the source has would go; use \
                       --allow-empty if that is meant";
        return Err(Error::invalid(message).into());
    }
    feed.left_out(report.skipped);
    // If no row was skipped, the feed is empty on purpose.
    let is_meant = args.allow_removals || (args.allow_empty && report.rows == 0);
    let feed = match args.max_removed {
        Some(share) => feed.removals(Removals::Share(share)),
        None if is_meant => feed.removals(Removals::All),
        None => feed,
    };
    let _step = interrupt::step();
    let applied = feed.finish()?;
    interrupt::says("the feed is applied, but not published: `firn index rebuild` publishes it");
    Ok((applied, report))
}
