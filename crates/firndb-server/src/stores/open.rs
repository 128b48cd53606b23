//! Opens and warms the stores that the options name.

use super::entry::{Entry, Source};
use super::refresher::Refresher;
use crate::config::{
    CatalogOptions, CollectionOptions, Config, LogOptions, TableOptions, check_name, duration,
};
use firndb::catalog::ReaderOptions;
use firndb::log::{Durability, LogStore, Options};
use firndb::search::Collection;
use firndb::table::{ApproximateTable, ShardedTable, Table};
use firndb::{Error, ErrorKind, Result, recognize, redact_url};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Opens a log store.
pub fn open_log(name: &str, options: &LogOptions) -> Result<Entry> {
    check_name(name)?;
    let path = &options.path;
    let durability = if options.sync { Durability::Sync } else { Durability::Os };
    let store = match options.read_only {
        true => LogStore::open_read_only(path)?,
        false => {
            let all = Options::new().create(options.create).ordered(options.ordered);
            LogStore::open_with(path, all.durability(durability))?
        }
    };
    let mut entry = Entry::new(name, path.display().to_string(), Source::Log(store));
    entry.read_only = options.read_only;
    Ok(entry)
}

/// Opens a table, an approximate table, or the table whose shards are in a directory.
pub fn open_table(name: &str, options: &TableOptions) -> Result<Entry> {
    check_name(name)?;
    let (path, access) = (&options.path, options.access.into());
    if path.is_dir() {
        let table = Arc::new(ShardedTable::open_dir(path, access)?);
        return Ok(Entry::new(name, path.display().to_string(), Source::Sharded(table)));
    }
    let source = match recognize(path)? {
        Some("approximate table") => {
            Source::Approximate(Arc::new(ApproximateTable::open_with(path, access)?))
        }
        _ => Source::Table(Arc::new(Table::open_with(path, access)?)),
    };
    Ok(Entry::new(name, path.display().to_string(), source))
}

/// Opens and warms a collection, and looks for changes from then on.
pub fn open_collection(name: &str, options: &CollectionOptions) -> Result<Entry> {
    check_name(name)?;
    let path = &options.path;
    let collection = Arc::new(Collection::open(path)?);
    collection.reader().warm()?;
    let every = duration(options.refresh_seconds.max(0.01));
    let looking = collection.clone();
    let refresher = Refresher::start(name.to_string(), every, move || {
        let is_newer = looking.refresh_with(|new| new.warm())?;
        Ok(is_newer.then(|| looking.version()))
    });
    let source = Source::Collection { collection, refresher: Mutex::new(Some(refresher)) };
    Ok(Entry::new(name, path.display().to_string(), source))
}

/// Opens and warms the newest version of a name in a catalog, and switches to newer versions from
/// then on.
pub fn open_catalog(name: &str, options: &CatalogOptions, config: &Config) -> Result<Entry> {
    check_name(name)?;
    let catalog = firndb_remote::open(&options.place)?;
    let cache = cache_dir(config)?.join(name);
    std::fs::create_dir_all(&cache).map_err(|e| Error::io("create", &cache, e))?;
    let reader_options = ReaderOptions::new().access(options.access.into()).warm(true);
    let reader =
        catalog.reader(&options.name, &cache, reader_options).map_err(|e| match e.kind() {
            ErrorKind::Locked => {
                let message = "another server uses this cache: give each its own with --cache";
                Error::new(ErrorKind::Locked, message).in_file(&cache)
            }
            _ => e,
        })?;
    let every = duration(options.refresh_seconds.max(0.01));
    let looking = reader.clone();
    let watch = Refresher::start(name.to_string(), every, move || {
        Ok(looking.refresh()?.then(|| looking.current().version().number))
    });
    let place = redact_url(&options.place);
    let location = format!("{place}/{}", options.name);
    let (watch, entry) = (Mutex::new(Some(watch)), options.name.clone());
    let source = Source::Catalog { catalog, place, name: entry, reader, watch };
    Ok(Entry::new(name, location, source))
}

/// The directory for the caches of catalog readers.
fn cache_dir(config: &Config) -> Result<PathBuf> {
    if let Some(dir) = &config.cache {
        return Ok(dir.clone());
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    // Set by systemd for a unit with `CacheDirectory=`.
    if let Some(dir) = variable("CACHE_DIRECTORY") {
        return Ok(PathBuf::from(dir));
    }
    let user = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let user = user.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    user.map(|dir| dir.join("firn-serve")).ok_or_else(|| {
        Error::invalid("name a directory for copies of the catalog's files with --cache")
    })
}

impl Entry {
    fn new(name: &str, location: String, source: Source) -> Entry {
        // Tables, collections and catalogs are only read; `open_log` says it for a log.
        let read_only = !matches!(source, Source::Log(_));
        Entry { name: name.to_string(), location, source, read_only, shown: Default::default() }
    }
}
