//! The reader of a name: opens the newest version, and switches to newer versions.

use super::cache::{Cache, Fetch, Fetched};
use super::generation::{Generation, open};
use super::share::Share;
use crate::Result;
use crate::bytes::metric::Metric;
use crate::catalog::Catalog;
use crate::catalog::format::Version;
use crate::catalog::newest::newest_since;
use crate::table::Access;
use arc_swap::ArcSwap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How a reader fetches and opens versions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReaderOptions {
    pub(crate) version: Option<u64>,
    pub(crate) access: Access,
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
        self.access = access;
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
            access: Access::Map,
            threads: 8,
            cache_bytes: u64::MAX,
            share: None,
        }
    }
}

/// Counters and state of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The figures for monitoring.
    pub fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::gauge("firndb_catalog_version", "The open version", self.version),
            Metric::gauge("firndb_catalog_newest_version", "The newest version", self.newest),
            Metric::counter("firndb_catalog_swaps_total", "Switches of version", self.swaps),
            Metric::counter("firndb_catalog_files_total", "Files fetched", self.files),
            Metric::counter("firndb_catalog_bytes_total", "Bytes fetched", self.bytes),
            Metric::counter("firndb_catalog_failures_total", "Failed refreshes", self.failures),
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
        let (generation, fetched) = opened.or_else(|error| {
            let Some(version) = kept else { return Err(error) };
            stats.failures = 1;
            stats.last_error = Some(error.to_string());
            stats.newest = stats.newest.max(version.number);
            let generation = open(version, &cache, options.access, None)?;
            Ok((generation, Fetched::default()))
        })?;
        options.share.iter().for_each(|share| share.opened(generation.version()));
        stats.version = generation.version().number;
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

    /// Opens the newest version next to the current one and switches to it. Returns `false` if the
    /// current version is the newest. After an error the current version stays in use, and the
    /// next call tries again; files that were fetched completely are not fetched again.
    pub fn refresh(&self) -> Result<bool> {
        span!(INFO, "firndb.catalog.refresh");
        let outcome = self.advance();
        let mut stats = self.stats_mut();
        match &outcome {
            Ok(None) => stats.last_error = None,
            Ok(Some(fetched)) => {
                stats.version = self.shared.current.load().version().number;
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
        let next = open(version, &cache, options.access, Some(&before))?;
        cache.set_last_open(next.version())?;
        let next = Arc::new(next);
        options.share.iter().for_each(|share| share.opened(next.version()));
        current.store(next.clone());
        // The switch has succeeded. Files that cannot be removed now are removed after the next.
        let _ = cache.clean(next.version());
        Ok(Some(fetched))
    }
}

/// Opens the version that `options` name. `kept` is in the cache and stays there until then.
fn open_wanted(
    catalog: &Catalog,
    name: &str,
    cache: &Cache,
    kept: Option<&Version>,
    options: &ReaderOptions,
    stats: &mut ReaderStats,
) -> Result<(Generation, Fetched)> {
    let version = match options.version {
        Some(number) => catalog.version(name, number)?,
        None => catalog.newest(name)?,
    };
    stats.newest = version.number;
    let fetch = Fetch { origin: &*catalog.origin, threads: options.threads, progress: &|_| () };
    let fetched = cache.fill(&version, kept, fetch)?;
    let generation = open(version, cache, options.access, None)?;
    cache.set_last_open(generation.version())?;
    cache.clean(generation.version())?;
    Ok((generation, fetched))
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
