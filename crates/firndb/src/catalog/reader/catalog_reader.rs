//! The reader of a name: opens the newest version, and switches to newer versions.

use super::cache::{Cache, Fetch, Fetched};
use super::generation::{Generation, Opening, open};
use super::share::Share;
use crate::Result;
use crate::bytes::metric::Metric;
use crate::catalog::Catalog;
use crate::catalog::format::Version;
use crate::catalog::newest::newest_since;
use crate::catalog::publish::now;
use crate::search::DEFAULT_BUNDLE_LIMIT;
use crate::table::Access;
use arc_swap::ArcSwap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a reader fetches and opens versions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReaderOptions {
    pub(crate) version: Option<u64>,
    pub(crate) opening: Opening,
    pub(crate) warm: Option<bool>,
    pub(crate) threads: usize,
    pub(crate) cache_bytes: u64,
    pub(crate) share: Option<Share>,
}

impl ReaderOptions {
    /// The default options: the newest version and its successors, 8 threads, no limit.
    pub fn new() -> ReaderOptions {
        ReaderOptions::default()
    }

    /// Opens this version and no other. By default a reader opens the newest version and its
    /// successors.
    pub fn version(mut self, version: impl Into<Option<u64>>) -> Self {
        self.version = version.into();
        self
    }

    /// How tables are read.
    pub fn access(mut self, access: Access) -> Self {
        self.opening.access = access;
        self
    }

    /// What is made for a version before it becomes current: verified checksums, value statistics,
    /// and bundles of small partitions ([`Reader::warm`](crate::search::Reader::warm)). Queries
    /// make the rest on demand, which takes the first ones after a switch up to a few hundred
    /// milliseconds.
    ///
    /// - `None`, the default: opening a reader makes nothing, and a refresh makes for the next
    ///   version what queries have made for the open one. Queries then do not notice a switch, and
    ///   a reader without queries does no more work.
    /// - `true`: opening and every refresh make everything. For servers, whose first query after a
    ///   start should be as fast as the others. Opening takes longer: about 75 ns per document and
    ///   indexed field of small partitions.
    /// - `false`: nothing. For a program that switches often and rarely queries.
    ///
    /// If a file proves to be damaged, opening or the refresh fails, and the open version stays.
    /// Until the switch, bundles of both versions are in memory, those of unchanged partitions
    /// once.
    pub fn warm(mut self, warm: impl Into<Option<bool>>) -> Self {
        self.warm = warm.into();
        self
    }

    /// Limit in bytes for the bundles of a collection, of each version
    /// ([`Reader::with_bundle_limit`](crate::search::Reader::with_bundle_limit)); 256 MiB by
    /// default.
    pub fn bundle_limit(mut self, bytes: u64) -> Self {
        self.opening.bundle_limit = bytes;
        self
    }

    /// Threads that fetch files concurrently.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Limit in bytes for the files of the open version and the next version together. Removed
    /// files that old queries still hold open are not counted.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Exposes the files of the reader to other machines.
    pub fn share(mut self, share: impl Into<Option<Share>>) -> Self {
        self.share = share.into();
        self
    }
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions {
            version: None,
            opening: Opening { access: Access::Map, bundle_limit: DEFAULT_BUNDLE_LIMIT },
            warm: None,
            threads: 8,
            cache_bytes: u64::MAX,
            share: None,
        }
    }
}

/// Counters and state of a reader.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReaderStats {
    /// The open version.
    pub version: u64,
    /// The newest version that the reader has found in the catalog. If it is not the open version,
    /// `last_error` has the reason.
    pub newest: u64,
    /// How often the reader switched to a newer version.
    pub swaps: u64,
    /// When the open version became current: microseconds since 1970.
    pub switched: i64,
    /// Seconds that opening the files of the open version took, without fetching them.
    pub open_seconds: f64,
    /// Seconds that warming it took ([`ReaderOptions::warm`]), before it became current.
    pub warm_seconds: f64,
    /// Files that were fetched or linked.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// How often [`CatalogReader::refresh`] failed.
    pub failures: u64,
    /// The error of the last refresh; `None` if it succeeded.
    pub last_error: Option<String>,
}

impl ReaderStats {
    /// Seconds since the open version became current, by the clock of this machine.
    pub fn swap_age(&self) -> f64 {
        (now() - self.switched).max(0) as f64 / 1e6
    }

    /// The figures for monitoring.
    pub fn metrics(&self) -> Vec<Metric> {
        let seconds = |name, help, value| Metric { value, ..Metric::gauge(name, help, 0) };
        vec![
            Metric::gauge("firndb_catalog_version", "The open version", self.version),
            Metric::gauge("firndb_catalog_newest_version", "The newest version", self.newest),
            Metric::counter("firndb_catalog_swaps_total", "Switches of version", self.swaps),
            Metric::counter("firndb_catalog_files_total", "Files fetched", self.files),
            Metric::counter("firndb_catalog_bytes_total", "Bytes fetched", self.bytes),
            Metric::counter("firndb_catalog_failures_total", "Failed refreshes", self.failures),
            seconds(
                "firndb_catalog_swap_age_seconds",
                "Time since the open version became current",
                self.swap_age(),
            ),
            seconds(
                "firndb_catalog_open_seconds",
                "Time that opening the open version took",
                self.open_seconds,
            ),
            seconds(
                "firndb_catalog_warm_seconds",
                "Time that warming the open version took",
                self.warm_seconds,
            ),
        ]
    }
}

/// Keeps a version of a name open, and replaces it by newer versions. Clones are cheap and refer to
/// the same reader.
#[derive(Clone)]
pub struct CatalogReader {
    shared: Arc<Shared>,
}

struct Shared {
    catalog: Catalog,
    name: String,
    options: ReaderOptions,
    current: ArcSwap<Generation>,
    /// Locked while a version is fetched and opened.
    cache: Mutex<Cache>,
    stats: Mutex<ReaderStats>,
}

impl CatalogReader {
    /// See [`Catalog::reader`].
    pub(crate) fn open(
        catalog: &Catalog,
        name: &str,
        cache: &Path,
        options: ReaderOptions,
    ) -> Result<CatalogReader> {
        let mut cache = Cache::open(&catalog.disk, cache, options.cache_bytes)?;
        options.share.iter().try_for_each(|share| cache.share(name, share.clone()))?;
        let mut stats = ReaderStats::default();
        let kept = cache.last_open(name)?;
        let kept = kept.filter(|kept| options.version.is_none_or(|n| n == kept.number));
        let opened = open_wanted(catalog, name, &cache, kept.as_ref(), &options, &mut stats);
        let ((generation, took), fetched) = opened.or_else(|error| {
            let Some(version) = kept else { return Err(error) };
            stats.failures = 1;
            stats.last_error = Some(error.to_string());
            stats.newest = stats.newest.max(version.number);
            Ok((open_warm(version, &cache, &options, None)?, Fetched::default()))
        })?;
        took.note(generation.version(), &mut stats);
        options.share.iter().for_each(|share| share.opened(generation.version()));
        (stats.files, stats.bytes) = (fetched.files, fetched.bytes);
        let shared = Shared {
            catalog: catalog.clone(),
            name: name.to_string(),
            options,
            current: ArcSwap::from_pointee(generation),
            cache: Mutex::new(cache),
            stats: Mutex::new(stats),
        };
        Ok(CatalogReader { shared: Arc::new(shared) })
    }

    /// The open version. Never blocks. The version stays open until the last holder drops it, even
    /// if the reader switches to another one.
    pub fn current(&self) -> Arc<Generation> {
        self.shared.current.load_full()
    }

    /// Opens the newest version next to the current one, warms it ([`ReaderOptions::warm`]), and
    /// switches to it. Returns `false` if the current version is the newest. After an error the
    /// current version stays in use, and the next call tries again; files that were fetched
    /// completely are not fetched again.
    pub fn refresh(&self) -> Result<bool> {
        span!(INFO, "firndb.catalog.refresh");
        let outcome = self.advance();
        let mut stats = self.stats_mut();
        match &outcome {
            Ok(None) => stats.last_error = None,
            Ok(Some(fetched)) => {
                stats.swaps += 1;
                stats.files += fetched.files;
                stats.bytes += fetched.bytes;
                stats.last_error = None;
            }
            Err(error) => {
                stats.failures += 1;
                stats.last_error = Some(error.to_string());
            }
        }
        outcome.map(|fetched| fetched.is_some())
    }

    /// A snapshot of the counters of the reader.
    pub fn stats(&self) -> ReaderStats {
        self.stats_mut().clone()
    }

    fn stats_mut(&self) -> MutexGuard<'_, ReaderStats> {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn share(&self) -> Option<&Share> {
        self.shared.options.share.as_ref()
    }

    fn advance(&self) -> Result<Option<Fetched>> {
        let Shared { catalog, name, options, current, cache, .. } = &*self.shared;
        if options.version.is_some() {
            self.share().iter().for_each(|share| share.looked(Instant::now()));
            return Ok(None);
        }
        let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        let _look = Look { share: options.share.as_ref(), began: Instant::now() };
        let before = current.load_full();
        let number = newest_since(catalog, name, before.version().number)?;
        self.stats_mut().newest = number;
        if number == before.version().number {
            return Ok(None);
        }
        let version = catalog.version(name, number)?;
        let origin = &*catalog.origin;
        let fetch = Fetch { origin, threads: options.threads, progress: &|_| () };
        let fetched = cache.fill(&version, Some(before.version()), fetch)?;
        let (next, took) = open_warm(version, &cache, options, Some(&before))?;
        cache.set_last_open(next.version())?;
        let next = Arc::new(next);
        options.share.iter().for_each(|share| share.opened(next.version()));
        current.store(next.clone());
        took.note(next.version(), &mut self.stats_mut());
        // The switch has succeeded. Files that cannot be removed now are removed after the next.
        let _ = cache.clean(next.version());
        Ok(Some(fetched))
    }
}

/// How long it took to make a version usable.
struct Took {
    open: Duration,
    warm: Duration,
}

impl Took {
    /// Notes that this version has become current.
    fn note(self, version: &Version, stats: &mut ReaderStats) {
        stats.version = version.number;
        stats.switched = now();
        stats.open_seconds = self.open.as_secs_f64();
        stats.warm_seconds = self.warm.as_secs_f64();
    }
}

/// Opens and warms a version whose files are in the cache.
fn open_warm(
    version: Version,
    cache: &Cache,
    options: &ReaderOptions,
    before: Option<&Generation>,
) -> Result<(Generation, Took)> {
    let start = Instant::now();
    let generation = open(version, cache, options.opening, before)?;
    let open = start.elapsed();
    match (options.warm, before) {
        (Some(true), _) => generation.warm()?,
        (None, Some(before)) => generation.warm_like(before)?,
        (None, None) | (Some(false), _) => {}
    }
    Ok((generation, Took { open, warm: start.elapsed() - open }))
}

/// Opens the version that `options` name. `kept` is in the cache and stays there until then.
fn open_wanted(
    catalog: &Catalog,
    name: &str,
    cache: &Cache,
    kept: Option<&Version>,
    options: &ReaderOptions,
    stats: &mut ReaderStats,
) -> Result<((Generation, Took), Fetched)> {
    let version = match options.version {
        Some(number) => catalog.version(name, number)?,
        None => catalog.newest(name)?,
    };
    stats.newest = version.number;
    let fetch = Fetch { origin: &*catalog.origin, threads: options.threads, progress: &|_| () };
    let fetched = cache.fill(&version, kept, fetch)?;
    let (generation, took) = open_warm(version, cache, options, None)?;
    cache.set_last_open(generation.version())?;
    cache.clean(generation.version())?;
    Ok(((generation, took), fetched))
}

/// Reports the end of a look for newer versions to the share, also after an error.
struct Look<'a> {
    share: Option<&'a Share>,
    began: Instant,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.share.iter().for_each(|share| share.looked(self.began));
    }
}
