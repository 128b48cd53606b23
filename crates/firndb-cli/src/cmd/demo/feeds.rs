//! Feeds from source to reader: one file per carrier goes into an index, the partitions that
//! changed are rebuilt and published to a catalog, and a reader that is answering queries switches
//! to them.

use super::flights::{self, CORRECTED_CARRIER, CORRECTED_MONTH, CORRECTION};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, thousands, time};
use firndb::catalog::{Catalog, CatalogReader, Published, ReaderOptions};
use firndb::indexer::{Applied, Indexer, Options, Partitioning};
use firndb::search::{Document, Value, query};
use firndb::{Error, ErrorKind};
use firndb_ingest::{CsvWriter, Format, RawValue, Row, RowOptions, Rows, Typer, TyperOptions};
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The day of the corrected month whose flights are missing from the second feed.
const GONE: &str = "4";
/// The month on whose first day the second feed has additional flights.
const NEW_MONTH: &str = "8";
/// Columns that identify a flight.
const KEY: [&str; 4] = ["time_hour", "carrier", "flight", "origin"];
const NAME: &str = "flights";
/// Interval at which the reader polls for a new version.
const LOOK: Duration = Duration::from_millis(10);

/// The result of applying the second version of a feed.
struct Second {
    applied: Applied,
    published: Published,
    /// From the return of the index's call until the reader had the version.
    seen: Duration,
    queries: u64,
    failed: u64,
}

/// Names of the files and directories of a run.
const MADE: [&str; 4] = ["feeds", "index", "catalog", "cache"];

/// Removes what an interrupted earlier run left, and nothing else.
fn remove_earlier(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|e| Error::io("list", dir, e))?,
    };
    let is_ours = |name: &OsStr| MADE.iter().any(|made| name == *made);
    if let Some(other) = entries.flatten().map(|e| e.file_name()).find(|name| !is_ours(name)) {
        let message = format!(
            "this is not the demo's: it has `{}`; give the demo another directory with --dir",
            other.to_string_lossy()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir).into());
    }
    Ok(std::fs::remove_dir_all(dir).map_err(|e| Error::io("remove", dir, e))?)
}

pub fn run(out: &mut Out, csv: &Path, dir: &Path, bar: &ProgressBar, json: bool) -> Result<()> {
    let dir = dir.join("pipeline");
    remove_earlier(&dir)?;
    let temporary = interrupt::temporary(&dir);
    let files = split(csv, &dir.join("feeds"))?;
    let start = Instant::now();
    let by_month = Partitioning::by_field("month");
    let index = dir.join("index");
    let mut indexer = Indexer::open(&index, flights::schema()?, by_month, Options::default())?;
    for (carrier, file) in &files {
        bar.set_message(format!("taking the feed of {carrier}"));
        apply(&mut indexer, carrier, file)?;
    }
    let catalog = Catalog::create(dir.join("catalog"))?;
    let first = publish(&catalog, &mut indexer)?;
    bar.finish_and_clear();
    let took = start.elapsed();
    let reader = catalog.reader(NAME, dir.join("cache"), ReaderOptions::default())?;
    let corrected = correct(&files[CORRECTED_CARRIER], &dir.join("feeds"))?;
    let second = send_again(&mut indexer, &catalog, &reader, &corrected)?;
    let flights = reader.current().collection()?.len();
    let expected: u64 = indexer.status()?.sources.iter().map(|(_, documents)| documents).sum();
    indexer.close()?;
    if json {
        out.json(&in_json(files.len(), took, &second))?;
    } else {
        print(out, files.len(), took, &first, &second)?;
    }
    drop((reader, temporary));
    std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, e))?;
    if second.failed > 0 || flights != expected {
        let message = format!(
            "{} queries failed; the reader has {flights} flights, the index {expected}",
            second.failed
        );
        return Err(Error::new(ErrorKind::Failed, message).into());
    }
    Ok(())
}

/// Writes one file per carrier; returns their paths by carrier.
fn split(csv: &Path, dir: &Path) -> firndb::Result<BTreeMap<String, PathBuf>> {
    std::fs::create_dir_all(dir).map_err(|e| Error::io("make", dir, e))?;
    let mut rows = read(csv);
    let mut feeds: BTreeMap<String, (PathBuf, CsvWriter<File>)> = BTreeMap::new();
    while let Some(row) = next(&mut rows)? {
        let name = text(&row, "carrier")?;
        if !feeds.contains_key(name) {
            let path = dir.join(format!("{name}.csv"));
            feeds.insert(name.to_string(), (path.clone(), writer(&path, &row)?));
        }
        let (_, feed) = feeds.get_mut(name).expect("it was made above");
        write(feed, &row)?;
    }
    let mut paths = BTreeMap::new();
    for (name, (path, feed)) in feeds {
        feed.finish()?;
        paths.insert(name, path);
    }
    Ok(paths)
}

/// Writes the carrier's second feed: delays of a month corrected, a day of it removed, and a day of
/// the next month with additional flights.
fn correct(feed: &Path, dir: &Path) -> firndb::Result<PathBuf> {
    let path = dir.join("corrected.csv");
    let mut rows = read(feed);
    let mut to = None;
    while let Some(mut row) = next(&mut rows)? {
        let (month, day) = (text(&row, "month")?, text(&row, "day")?);
        let is_corrected = month == CORRECTED_MONTH.to_string();
        let is_new = month == NEW_MONTH && day == "1";
        if is_corrected && day == GONE {
            continue;
        }
        if is_corrected {
            change(&mut row, &["dep_delay", "arr_delay"], |text| {
                let delay: Option<i64> = text.parse().ok();
                delay.map_or(text.to_string(), |delay| (delay - CORRECTION).to_string())
            });
        }
        let to = match &mut to {
            Some(to) => to,
            none => none.insert(writer(&path, &row)?),
        };
        write(to, &row)?;
        if is_new {
            change(&mut row, &["flight"], |text| format!("9{text}"));
            write(to, &row)?;
        }
    }
    to.ok_or_else(|| Error::invalid("the feed has no flights"))?.finish()?;
    Ok(path)
}

fn read(path: &Path) -> Rows {
    Rows::from_path(path, RowOptions::default().format(Format::Csv))
}

fn next(rows: &mut Rows) -> firndb::Result<Option<Row>> {
    let row = rows.next_row()?.transpose();
    row.map_err(|bad| Error::invalid(bad.to_string()))
}

/// The text of a cell; empty if it has no value.
fn text<'r>(row: &'r Row, column: &str) -> firndb::Result<&'r str> {
    match row.get(column) {
        Some(RawValue::Text(text)) => Ok(text),
        Some(_) => Ok(""),
        None => Err(Error::invalid(format!("the flights have no column `{column}`"))),
    }
}

/// Changes the texts of some cells.
fn change(row: &mut Row, columns: &[&str], changed: impl Fn(&str) -> String) {
    for (name, value) in &mut row.cells {
        if let RawValue::Text(text) = value
            && columns.contains(&&**name)
        {
            *text = changed(text);
        }
    }
}

/// A file for rows with the columns of this one.
fn writer(path: &Path, row: &Row) -> firndb::Result<CsvWriter<File>> {
    let file = File::create(path).map_err(|e| Error::io("create", path, e))?;
    let mut writer = CsvWriter::new(file, path, b',');
    let names: Vec<&str> = row.cells.iter().map(|(name, _)| &**name).collect();
    writer.header(&names)?;
    Ok(writer)
}

fn write(to: &mut CsvWriter<File>, row: &Row) -> firndb::Result<()> {
    to.row(row.cells.iter().map(|(_, value)| match value {
        RawValue::Text(text) => Some(text),
        _ => None,
    }))
}

/// Applies the rows of a file as the new version of a carrier's feed.
fn apply(indexer: &mut Indexer, carrier: &str, file: &Path) -> firndb::Result<Applied> {
    let schema = indexer.schema().clone();
    let mut typer = Typer::new(&schema, TyperOptions::default().null_texts(["NA"]));
    let mut rows = read(file);
    let mut feed = indexer.feed(carrier)?;
    while let Some(row) = next(&mut rows)? {
        let document = flights::document(&mut typer, &row)?;
        feed.add(key_of(&document), &document)?;
    }
    feed.finish()
}

fn key_of(document: &Document) -> String {
    let text = |name: &str| {
        let value = document.fields().find(|(field, _)| *field == name);
        value.map_or(String::new(), |(_, value)| match value {
            Value::Str(text) => text.clone(),
            other => crate::output::to_text(other),
        })
    };
    KEY.map(text).join(" ")
}

fn publish(catalog: &Catalog, indexer: &mut Indexer) -> firndb::Result<Published> {
    let (_, version) = indexer.publish_to(catalog, NAME)?;
    version.ok_or_else(|| Error::new(ErrorKind::Failed, "the feed changed nothing"))
}

/// Applies and publishes the second feed, while one thread queries the reader and another polls for
/// new versions.
fn send_again(
    indexer: &mut Indexer,
    catalog: &Catalog,
    reader: &CatalogReader,
    feed: &Path,
) -> Result<Second> {
    let stop = AtomicBool::new(false);
    let (send, outcomes) = std::sync::mpsc::channel();
    let watch = reader.watch(LOOK, move |outcome| {
        let _ = send.send((Instant::now(), outcome.is_ok()));
    });
    let (work, (queries, failed)) = std::thread::scope(|scope| {
        let querying = scope.spawn(|| query_until(&stop, reader));
        let work = (|| {
            let applied = apply(indexer, CORRECTED_CARRIER, feed)?;
            let start = Instant::now();
            let published = publish(catalog, indexer)?;
            let seen = outcomes.recv_timeout(Duration::from_secs(60));
            Ok::<_, Error>((applied, published, start, seen))
        })();
        stop.store(true, Ordering::Release);
        (work, querying.join().unwrap_or((0, 1)))
    });
    drop(watch);
    let (applied, published, start, seen) = work?;
    match seen {
        Ok((at, true)) => Ok(Second { applied, published, seen: at - start, queries, failed }),
        _ => {
            let why = reader.stats().last_error;
            let message = why.unwrap_or_else(|| "the reader saw no new version".to_string());
            Err(Error::new(ErrorKind::Failed, message).into())
        }
    }
}

/// Repeatedly queries the open version for the carrier's average delay. Returns how many queries
/// succeeded and how many failed.
fn query_until(stop: &AtomicBool, reader: &CatalogReader) -> (u64, u64) {
    let filter = query::eq("carrier", CORRECTED_CARRIER);
    let (mut answered, mut failed) = (0, 0);
    while !stop.load(Ordering::Acquire) {
        let now = reader.current();
        match now.collection().and_then(|reader| reader.aggregate(&filter, "dep_delay")) {
            Ok(_) => answered += 1,
            Err(_) => failed += 1,
        }
    }
    (answered, failed)
}

fn in_json(feeds: usize, took: Duration, second: &Second) -> serde_json::Value {
    json!({
        "feeds": feeds,
        "index_seconds": took.as_secs_f64(),
        "feed_again": CORRECTED_CARRIER,
        "added": second.applied.added,
        "updated": second.applied.updated,
        "removed": second.applied.removed,
        "dirty": second.applied.dirty,
        "catalog_version": second.published.version.number,
        "sent_files": second.published.files_sent,
        "sent_bytes": second.published.bytes_sent,
        "version_bytes": second.published.version.bytes(),
        "seen_seconds": second.seen.as_secs_f64(),
        "feed_queries": second.queries,
        "feed_failed": second.failed,
    })
}

fn print(
    out: &mut Out,
    feeds: usize,
    took: Duration,
    first: &Published,
    second: &Second,
) -> Result<()> {
    let Second { applied, published, .. } = second;
    out.line(format!(
        "The same flights as feeds: {} go into an index, one from each carrier, and from there \
         into\na catalog: version {}, {}, in {}. Then {CORRECTED_CARRIER} sends its feed once \
         more, with a month\ncorrected, a day of it gone, and some flights more.\n",
        plural(feeds as u64, "feed"),
        first.version.number,
        size(first.version.bytes()),
        time(took)
    ))?;
    out.line(format!(
        "  the feed        {} changed, {} gone, {} new, {} as before",
        thousands(applied.updated),
        thousands(applied.removed),
        thousands(applied.added),
        thousands(applied.unchanged)
    ))?;
    out.line(format!("  dirty           {} (of 12 months)", applied.dirty.join(", ")))?;
    out.line(format!(
        "  published       version {}: {} of {} bytes are new",
        published.version.number,
        size(published.bytes_sent),
        size(published.version.bytes())
    ))?;
    out.line(format!(
        "  seen            by a running reader {} after the feed was taken",
        time(second.seen)
    ))?;
    out.line(format!(
        "  meanwhile       {}, {} failed\n",
        plural(second.queries, "question").replace("questions", "questions answered"),
        second.failed
    ))?;
    Ok(())
}
