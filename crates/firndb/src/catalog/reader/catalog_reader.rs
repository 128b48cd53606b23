//! A reader: the newest version of a name, opened, and the next one beside it when it comes.

use super::cache::{Cache, Fetch, Fetched};
use super::format::{Version, VersionKind};
use super::share::Share;
use super::{Catalog, check_name};
use crate::disk::DiskRef;
use crate::search::{self, Reader};
use crate::table::{Access, ApproximateTable, Table};
use crate::{Error, ErrorKind, Result};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How a reader keeps and opens versions.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The version to open, for good; the newest and its successors if `None`.
    pub version: Option<u64>,
    /// How tables are read.
    pub access: Access,
    /// Threads that fetch files at the same time.
    pub threads: usize,
    /// The most bytes that the files of the open version and of the next may take together. (Files
    /// that old queries still have open are not counted.)
    pub cache_bytes: u64,
    /// Through which others may read the files, too.
    pub share: Option<Share>,
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

/// A version that is open. A query that holds it sees this version and no other.
pub struct Generation {
    version: Version,
    store: Store,
}

enum Store {
    Table(Arc<Table>),
    Approximate(Arc<ApproximateTable>),
    Collection(search::Current),
}

impl Generation {
    /// What was published.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The collection. `InvalidArgument` if it is something else.
    pub fn collection(&self) -> Result<&Reader> {
        match &self.store {
            Store::Collection(set) => Ok(&set.reader),
            _ => Err(self.is_no("collection")),
        }
    }

    /// The table. `InvalidArgument` if it is something else.
    pub fn table(&self) -> Result<&Table> {
        match &self.store {
            Store::Table(table) => Ok(table),
            _ => Err(self.is_no("table")),
        }
    }

    /// The approximate table. `InvalidArgument` if it is something else.
    pub fn approximate_table(&self) -> Result<&ApproximateTable> {
        match &self.store {
            Store::Approximate(table) => Ok(table),
            _ => Err(self.is_no("approximate table")),
        }
    }

    fn is_no(&self, wanted: &str) -> Error {
        let Version { name, number, kind, .. } = &self.version;
        let kind = kind.name();
        Error::invalid(format!("version {number} of `{name}` is no {wanted}: its kind is {kind}"))
    }
}

/// What a reader has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// The version that is open.
    pub version: u64,
    /// The newest version that the catalog was seen to have. If it is not open, `last_error` says
    /// why.
    pub newest: u64,
    /// How often a newer version took its place.
    pub swaps: u64,
    /// Files that were fetched or linked.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often [`CatalogReader::refresh`] failed.
    pub failures: u64,
    /// Why it failed the last time; `None` if the last time it did not.
    pub last_error: Option<String>,
}

/// A version of a name, open, that newer versions replace. Clones are cheap and are the same
/// reader.
#[derive(Clone)]
pub struct CatalogReader {
    shared: Arc<Shared>,
}

struct Shared {
    catalog: Catalog,
    name: String,
    options: ReaderOptions,
    current: ArcSwap<Generation>,
    /// Held while a version is fetched and opened.
    cache: Mutex<Cache>,
    stats: Mutex<ReaderStats>,
}

impl Catalog {
    /// Opens the newest version of a name, or the one that `options` say, with a copy of its files
    /// in `cache`, a directory of this reader alone: `Locked` if another reader has it,
    /// `AlreadyExists` if there is anything in it and it was not made by a reader. Files that are
    /// there already are read once and compared with their hashes, and fetched again if they are
    /// damaged. If the newest version cannot be had, the one that was open here before is opened;
    /// [`CatalogReader::stats`] then says why.
    pub fn reader(
        &self,
        name: &str,
        cache: impl AsRef<Path>,
        options: ReaderOptions,
    ) -> Result<CatalogReader> {
        check_name(name)?;
        let mut cache = Cache::open(&self.disk, cache.as_ref(), options.cache_bytes)?;
        options.share.iter().try_for_each(|share| cache.share(name, share.clone()))?;
        let mut stats = ReaderStats::default();
        let kept = cache.remembered(name)?;
        let kept = kept.filter(|kept| options.version.is_none_or(|n| n == kept.number));
        let opened = self.open_first(name, &cache, kept.as_ref(), &options, &mut stats);
        let (generation, fetched) = opened.or_else(|error| {
            let Some(version) = kept else { return Err(error) };
            stats.failures = 1;
            stats.last_error = Some(error.to_string());
            stats.newest = stats.newest.max(version.number);
            let generation = open(version, &cache, options.access, None)?;
            Ok((generation, Fetched::default()))
        })?;
        options.share.iter().for_each(|share| share.opened(&generation.version));
        stats.version = generation.version.number;
        (stats.files, stats.bytes) = (fetched.files, fetched.bytes);
        let shared = Shared {
            catalog: self.clone(),
            name: name.to_string(),
            options,
            current: ArcSwap::from_pointee(generation),
            cache: Mutex::new(cache),
            stats: Mutex::new(stats),
        };
        Ok(CatalogReader { shared: Arc::new(shared) })
    }

    /// Opens the version that `options` say; `kept` is there and stays until it is open.
    fn open_first(
        &self,
        name: &str,
        cache: &Cache,
        kept: Option<&Version>,
        options: &ReaderOptions,
        stats: &mut ReaderStats,
    ) -> Result<(Generation, Fetched)> {
        let version = match options.version {
            Some(number) => self.version(name, number)?,
            None => self.newest(name)?,
        };
        stats.newest = version.number;
        let fetch = Fetch { origin: &*self.origin, threads: options.threads, progress: &|_| () };
        let fetched = cache.fill(&version, kept, fetch)?;
        let generation = open(version, cache, options.access, None)?;
        cache.remember(&generation.version)?;
        cache.clean(&generation.version)?;
        Ok((generation, fetched))
    }
}

impl CatalogReader {
    /// The version that is open. Whoever holds it goes on with it; it is closed when the last one
    /// lets it go. Waits for nothing.
    pub fn current(&self) -> Arc<Generation> {
        self.shared.current.load_full()
    }

    /// Opens the newest version beside the current one and puts it in its place; false if there is
    /// none newer. After an error the current version goes on being read, and the next call tries
    /// again: what was fetched whole is not fetched again.
    pub fn refresh(&self) -> Result<bool> {
        let outcome = self.advance();
        let mut stats = self.stats_mut();
        match &outcome {
            Ok(None) => stats.last_error = None,
            Ok(Some(fetched)) => {
                stats.version = self.shared.current.load().version.number;
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

    /// What the reader has done so far.
    pub fn stats(&self) -> ReaderStats {
        self.stats_mut().clone()
    }

    fn stats_mut(&self) -> MutexGuard<'_, ReaderStats> {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What others may read of this reader.
    pub(super) fn share(&self) -> Option<&Share> {
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
        let number = catalog.newest_since(name, before.version.number)?;
        self.stats_mut().newest = number;
        if number == before.version.number {
            return Ok(None);
        }
        let version = catalog.version(name, number)?;
        let origin = &*catalog.origin;
        let fetch = Fetch { origin, threads: options.threads, progress: &|_| () };
        let fetched = cache.fill(&version, Some(&before.version), fetch)?;
        let next = open(version, &cache, options.access, Some(&before))?;
        cache.remember(&next.version)?;
        let next = Arc::new(next);
        options.share.iter().for_each(|share| share.opened(&next.version));
        current.store(next.clone());
        // The new version is open either way; what cannot be removed now goes with a later one.
        let _ = cache.clean(&next.version);
        Ok(Some(fetched))
    }
}

/// Tells others when it ends, however it does.
struct Look<'a> {
    share: Option<&'a Share>,
    began: Instant,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.share.iter().for_each(|share| share.looked(self.began));
    }
}

/// Opens a version whose files are in the cache; what it shares with `before` is not opened again.
fn open(
    version: Version,
    cache: &Cache,
    access: Access,
    before: Option<&Generation>,
) -> Result<Generation> {
    let disk = cache.reading();
    let store = match version.kind {
        VersionKind::Collection => open_collection(disk, &version, cache, before)?,
        kind => {
            let [file] = &version.files[..] else {
                return Err(Error::corrupt("the version of a table does not have one file"));
            };
            let same = before.filter(|before| before.version.files[0].blake3 == file.blake3);
            let path = cache.path(file);
            match (same.map(|before| &before.store), kind) {
                (Some(Store::Table(table)), VersionKind::Table) => Store::Table(table.clone()),
                (_, VersionKind::Table) => {
                    Store::Table(Arc::new(Table::open_on(disk, &path, access)?))
                }
                (Some(Store::Approximate(t)), _) => Store::Approximate(t.clone()),
                _ => Store::Approximate(Arc::new(ApproximateTable::open_on(disk, &path, access)?)),
            }
        }
    };
    Ok(Generation { version, store })
}

fn open_collection(
    disk: &DiskRef,
    version: &Version,
    cache: &Cache,
    before: Option<&Generation>,
) -> Result<Store> {
    let paths: HashMap<&str, PathBuf> =
        version.files.iter().map(|file| (file.name.as_str(), cache.path(file))).collect();
    let mut sets = paths.keys().filter_map(|name| Some((*name, search::set_number(name)?)));
    let (Some((set, number)), None) = (sets.next(), sets.next()) else {
        return Err(Error::corrupt("the version of a collection does not have one set file"));
    };
    let before = before.and_then(|before| match &before.store {
        Store::Collection(set) => Some(set),
        _ => None,
    });
    // What the manifest does not name is not there.
    let locate = |file: &str| paths.get(file).cloned().unwrap_or_else(|| cache.dir().join(file));
    let opened = search::Current::open(disk, number, &paths[set], &locate, before);
    let set = opened.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            Error::corrupt(format!("the set and the manifest disagree: {}", e.message()))
        }
        _ => e,
    })?;
    Ok(Store::Collection(set))
}
