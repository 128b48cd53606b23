//! `firn catalog watch`: a reader that follows a name and reports each new version.

use super::location::{Nearby, serve};
use super::{CatalogLocation, to_json};
use crate::cmd::load::parse_interval;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size};
use firndb::catalog::{CatalogReader, ReaderOptions, ReaderStats, Share};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Keep the newest version in a directory and report each new one.
///
/// Keep the newest version open, with its files in a directory, and report each new version and
/// each failure. Ends with Ctrl-C, or after a number of versions.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name to watch.
    name: String,
    /// Directory for the files, for this reader alone: empty, missing, or that of an earlier watch.
    #[arg(short = 'o', long = "output", value_name = "CACHE")]
    cache: PathBuf,
    /// Polling interval; jittered by a quarter.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_interval)]
    every: Duration,
    /// Serve the files over HTTP to any client that can connect: to other readers, as their peer or
    /// as their catalog.
    #[arg(long, value_name = "HOST:PORT")]
    serve: Option<String>,
    #[command(flatten)]
    nearby: Nearby,
    /// End after this many versions, counting the first.
    #[arg(long, value_name = "N")]
    versions: Option<u64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    // Serve before the first version is open: peers that start at the same moment wait for it.
    let share = Share::new(&args.name);
    let serving = args.serve.as_ref().map(|address| serve(address, share.clone())).transpose()?;
    if let Some(serving) = &serving {
        eprintln!("firn: serving http://{}", serving.address());
    }
    let catalog = args.nearby.before(args.catalog.open()?, serving.as_ref())?;
    let share = serving.as_ref().map(|_| share);
    let options = ReaderOptions::new().share(share);
    let reader = catalog.reader(&args.name, &args.cache, options)?;
    report_version(&reader, json)?;
    // The open version may be older than the newest.
    let mut last_error = reader.stats().last_error.map(|error| firndb::redact(&error));
    last_error.iter().for_each(|error| report_failure(&reader, error));
    let (send, outcomes) = std::sync::mpsc::channel();
    let watch = reader.watch(args.every, move |outcome| {
        // The output pipe may be closed when the command ends.
        let _ = send.send(outcome.map(drop).map_err(|error| firndb::redact(&error.to_string())));
    });
    interrupt::says("the files stay in the cache directory, for the next watch");
    let step = interrupt::step();
    let mut seen = 1;
    while args.versions.is_none_or(|versions| seen < versions) {
        match outcomes.recv_timeout(POLL) {
            Ok(Ok(())) => {
                seen += 1;
                last_error = None;
                report_version(&reader, json)?;
            }
            // A failure that persists is reported once.
            Ok(Err(error)) if last_error.as_ref() == Some(&error) => {}
            Ok(Err(error)) => {
                report_failure(&reader, &error);
                last_error = Some(error);
            }
            Err(RecvTimeoutError::Timeout) if !interrupt::is_stopped() => {}
            Err(_) => break,
        }
    }
    drop(watch);
    drop(step);
    Ok(interrupt::check()?)
}

/// Interval at which a signal is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Reports why the newest version is not open.
fn report_failure(reader: &CatalogReader, error: &str) {
    let ReaderStats { version, newest, .. } = reader.stats();
    match newest > version {
        true => {
            eprintln!("firn: {error}; version {newest} cannot be opened, version {version} goes on")
        }
        false => eprintln!("firn: {error}; version {version} goes on"),
    }
}

fn report_version(reader: &CatalogReader, json: bool) -> Result<()> {
    let (now, stats) = (reader.current(), reader.stats());
    let mut out = Out::new();
    if json {
        let mut line = to_json(now.version());
        line["fetched_files"] = json!(stats.files);
        line["fetched_bytes"] = json!(stats.bytes);
        out.json(&line)?;
    } else {
        out.line(format!(
            "{}: version {} is open; {} ({}) fetched so far",
            now.version().name,
            now.version().number,
            plural(stats.files, "file"),
            size(stats.bytes)
        ))?;
    }
    Ok(out.finish()?)
}
