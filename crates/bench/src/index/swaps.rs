//! Queries at a fixed rate behind a catalog, while a partition per second is changed, published and
//! switched to: without warming, with the default, and with all that can be warmed.

use super::POLL;
use super::prepare::{Prepared, SOURCE, key};
use super::sustained::Waiting;
use crate::search::cars::Market;
use crate::search::ours::Opened;
use crate::units::{quantile, time};
use firndb::catalog::{
    Catalog, CatalogReader, CleanOptions, Generation, PublishOptions, ReaderOptions,
};
use firndb::indexer::Indexer;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use firndb_bench_protocol::search::{Answer, Session};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Parameters of a run.
pub struct Options {
    /// Queries per second.
    pub rate: u32,
    /// Seconds for which queries run before a measurement.
    pub first: u64,
    /// Seconds of each measurement.
    pub seconds: u64,
}

/// The figures of one measurement.
pub struct Figures {
    /// The setting.
    pub name: &'static str,
    /// Time until the reader was open.
    open: Duration,
    /// Switches to new versions.
    pub swaps: u64,
    /// Seconds that warming the versions took.
    warmed: Vec<f64>,
    /// From the moment when a query was due until its answer, in nanoseconds.
    pub latencies: Vec<f64>,
    /// The same without the time that the thread was runnable but had no processor.
    ran: Vec<f64>,
    bundles: u64,
}

const NAME: &str = "offers";
/// Queries of each kind.
const QUERIES: usize = 200;

/// Measures each setting of `ReaderOptions::warm`, and one without swaps. Uses the directory `dir`
/// for the catalog and the caches, and removes it.
pub fn run(prepared: &Prepared, dir: &Path, options: &Options) -> Result<Vec<Figures>> {
    let _ = fs::remove_dir_all(dir);
    let catalog = Catalog::create(dir.join("catalog"))?;
    let mut indexer = prepared.open()?;
    publish(&catalog, prepared)?;
    let mut all = Vec::new();
    // Goes on over all measurements, and differs from those of `sustained`: the same change again
    // would change nothing.
    let mut stamp = i64::from(std::process::id()) * 1_000_000 + 500_000;
    let settings = [
        ("no swaps", None, false),
        ("`warm(false)`", Some(false), true),
        ("default", None, true),
        ("`warm(true)`", Some(true), true),
    ];
    for (number, (name, warm, swap)) in settings.into_iter().enumerate() {
        let start = Instant::now();
        let cache = dir.join(format!("cache-{number}"));
        let reader = catalog.reader(NAME, cache, ReaderOptions::new().warm(warm))?;
        let open = start.elapsed();
        let mut change = |seconds| match swap {
            true => change(&mut indexer, prepared, &catalog, seconds, &mut stamp),
            false => {
                thread::sleep(Duration::from_secs(seconds));
                Ok(())
            }
        };
        let figures = measure(prepared, &reader, &mut change, options)?;
        all.push(Figures { name, open, ..figures });
    }
    indexer.close()?;
    fs::remove_dir_all(dir)?;
    Ok(all)
}

fn publish(catalog: &Catalog, prepared: &Prepared) -> Result<()> {
    catalog.publish(NAME, prepared.dir.join("collection"), &PublishOptions::default())?;
    Ok(())
}

/// Runs queries and refreshes the reader while `change` runs for as many seconds as it is given.
fn measure(
    prepared: &Prepared,
    reader: &CatalogReader,
    change: &mut dyn FnMut(u64) -> Result<()>,
    options: &Options,
) -> Result<Figures> {
    let warmed = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let (latencies, ran) = thread::scope(|scope| -> Result<_> {
        let queries = scope.spawn(|| queries(reader, prepared, options, &over));
        let watch = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(POLL);
                if reader.refresh()? {
                    let seconds = reader.stats().warm_seconds;
                    warmed.lock().map_err(|_| "poisoned")?.push(seconds);
                }
            }
            Ok(())
        });
        thread::sleep(Duration::from_secs(options.first));
        let changed = change(options.seconds);
        over.store(true, Ordering::Relaxed);
        changed?;
        watch.join().map_err(|_| "the watcher panicked")??;
        queries.join().map_err(|_| "the queries panicked")?
    })?;
    let mut warmed = warmed.into_inner().map_err(|_| "poisoned")?;
    warmed.sort_by(f64::total_cmp);
    let bundles = reader.current().collection()?.bundle_memory();
    let swaps = reader.stats().swaps;
    let (name, open) = Default::default();
    Ok(Figures { name, open, swaps, warmed, latencies, ran, bundles })
}

/// In each second, changes a document and publishes its partition. No two calls may have the same
/// `stamp`, which this advances.
fn change(
    indexer: &mut Indexer,
    prepared: &Prepared,
    catalog: &Catalog,
    seconds: u64,
    stamp: &mut i64,
) -> Result<()> {
    let start = Instant::now();
    let mut rng = Rng::new(3, 1, *stamp as u64);
    let clean = CleanOptions::new().keep(2).grace(Duration::ZERO);
    for second in 1..=seconds {
        let id = rng.below(prepared.documents);
        *stamp += 1;
        indexer.upsert(SOURCE, key(id), &prepared.changed(id, *stamp))?;
        let rebuilt = indexer.publish()?.rebuilt.len();
        if rebuilt != 1 {
            return Err(format!("{rebuilt} partitions were rebuilt").into());
        }
        publish(catalog, prepared)?;
        let next = Duration::from_secs(second);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
    catalog.clean(NAME, &clean)?;
    Ok(())
}

/// Runs queries of each kind, one after another, each at its time and on the current version, until
/// `over`. Returns the latencies of those that are measured.
fn queries(
    reader: &CatalogReader,
    prepared: &Prepared,
    options: &Options,
    over: &AtomicBool,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let all = Market::new(42).queries(prepared.documents, QUERIES, 7);
    let kinds = all.len() / QUERIES;
    let open =
        |current: &Generation| -> Result<_> { Ok(Opened::of(current.collection()?.clone())) };
    let mut session = open(&reader.current())?;
    let queries = all.iter().map(|query| session.prepare(query)).collect::<Result<Vec<_>>>()?;
    let (mut latencies, mut ran) = (Vec::new(), Vec::new());
    let (mut answer, waiting) = (Answer::default(), Waiting::new());
    let (start, interval) = (Instant::now(), Duration::from_secs(1) / options.rate);
    for n in (0u32..).take_while(|_| !over.load(Ordering::Relaxed)) {
        let due = start + interval * n;
        let waited = waiting.so_far();
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let current = reader.current();
        let mut session = open(&current)?;
        answer.clear();
        let n = n as usize;
        session.run(&queries[n % kinds * QUERIES + n / kinds % QUERIES], &mut answer)?;
        let latency = due.elapsed().as_nanos() as f64;
        if start.elapsed().as_secs() >= options.first {
            latencies.push(latency);
            ran.push((latency - (waiting.so_far() - waited)).max(0.0));
        }
    }
    latencies.sort_by(f64::total_cmp);
    ran.sort_by(f64::total_cmp);
    Ok((latencies, ran))
}

/// The figures as a Markdown table.
pub fn table(all: &[Figures], options: &Options) -> String {
    let mut text = format!(
        "{} queries per second in one thread, each measured from the moment when it was due; one \
         document of one partition per second is changed, published and switched to, in the same \
         process.\n\n\
         | setting | opening | swaps | warming, median and maximum | bundles | p50 | p99 | p99.9 | \
         max | p99 and max without waiting for a processor |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        options.rate
    );
    for figures in all {
        let [p50, p99, p999, max] =
            [0.5, 0.99, 0.999, 1.0].map(|share| time(quantile(&figures.latencies, share)));
        let [ran, most] = [0.99, 1.0].map(|share| time(quantile(&figures.ran, share)));
        let warmed = match figures.warmed.is_empty() {
            true => "-".to_string(),
            false => {
                let at = |share| time(quantile(&figures.warmed, share) * 1e9);
                format!("{}, {}", at(0.5), at(1.0))
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {warmed} | {} | {p50} | {p99} | {p999} | {max} | {ran}, {most} |",
            figures.name,
            time(figures.open.as_nanos() as f64),
            figures.swaps,
            crate::units::bytes(figures.bundles),
        );
    }
    text
}
