//! A generation: a version of a table or collection, opened.

use super::cache::Cache;
use crate::catalog::format::{Version, VersionKind};
use crate::disk::DiskRef;
use crate::search::{self, Reader};
use crate::table::sharded::shard_file;
use crate::table::{Access, ApproximateTable, ShardedTable, Table};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// An open version. It never changes: a query that holds a generation reads this version only.
pub struct Generation {
    version: Version,
    store: Store,
}

enum Store {
    Table(Arc<Table>),
    Approximate(Arc<ApproximateTable>),
    Sharded(Arc<ShardedTable>),
    Collection(search::OpenSet),
}

impl Generation {
    /// The manifest of the version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The collection. `InvalidArgument` if the version is of another kind.
    pub fn collection(&self) -> Result<&Reader> {
        match &self.store {
            Store::Collection(set) => Ok(&set.reader),
            _ => Err(self.wrong_kind("collection")),
        }
    }

    /// The table. `InvalidArgument` if the version is of another kind.
    pub fn table(&self) -> Result<&Table> {
        match &self.store {
            Store::Table(table) => Ok(table),
            _ => Err(self.wrong_kind("table")),
        }
    }

    /// The approximate table. `InvalidArgument` if the version is of another kind.
    pub fn approximate_table(&self) -> Result<&ApproximateTable> {
        match &self.store {
            Store::Approximate(table) => Ok(table),
            _ => Err(self.wrong_kind("approximate table")),
        }
    }

    /// The sharded table. `InvalidArgument` if the version is of another kind.
    pub fn sharded_table(&self) -> Result<&ShardedTable> {
        match &self.store {
            Store::Sharded(table) => Ok(table),
            _ => Err(self.wrong_kind("sharded table")),
        }
    }

    /// The table, for callers that keep it longer than the generation. Its file stays open.
    /// `InvalidArgument` if the version is of another kind.
    pub fn shared_table(&self) -> Result<Arc<Table>> {
        match &self.store {
            Store::Table(table) => Ok(table.clone()),
            _ => Err(self.wrong_kind("table")),
        }
    }

    /// The approximate table, as [`Generation::shared_table`].
    pub fn shared_approximate_table(&self) -> Result<Arc<ApproximateTable>> {
        match &self.store {
            Store::Approximate(table) => Ok(table.clone()),
            _ => Err(self.wrong_kind("approximate table")),
        }
    }

    /// The sharded table, as [`Generation::shared_table`].
    pub fn shared_sharded_table(&self) -> Result<Arc<ShardedTable>> {
        match &self.store {
            Store::Sharded(table) => Ok(table.clone()),
            _ => Err(self.wrong_kind("sharded table")),
        }
    }

    /// Makes beforehand everything that queries and lookups would make on demand.
    pub(crate) fn warm(&self) -> Result<()> {
        match &self.store {
            // Opening a table has read its filter and its directory, and blocks that are resident.
            Store::Table(_) | Store::Sharded(_) => Ok(()),
            Store::Approximate(table) => table.warm(),
            Store::Collection(set) => set.reader.warm(),
        }
    }

    /// Makes beforehand what queries and lookups have made for `before`.
    pub(crate) fn warm_like(&self, before: &Generation) -> Result<()> {
        let table = |table: &Table, old: &Table| table.reader.file.warm_like(&old.reader.file);
        match (&self.store, &before.store) {
            (Store::Table(new), Store::Table(old)) => table(new, old),
            (Store::Approximate(new), Store::Approximate(old)) => new.file.warm_like(&old.file),
            (Store::Sharded(new), Store::Sharded(old)) => {
                let mut shards = new.shards().iter().zip(old.shards());
                shards.try_for_each(|(new, old)| table(new, old))
            }
            (Store::Collection(new), Store::Collection(old)) => new.reader.warm_like(&old.reader),
            _ => Ok(()), // The version is of another kind than the one before.
        }
    }

    fn wrong_kind(&self, wanted: &str) -> Error {
        let Version { name, number, kind, .. } = &self.version;
        let kind = kind.name();
        Error::invalid(format!("version {number} of `{name}` is no {wanted}: its kind is {kind}"))
    }
}

/// How a version is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// How tables are read.
    pub(crate) access: Access,
    /// The limit of the bundles of a collection, in bytes.
    pub(crate) bundle_limit: u64,
}

/// Opens a version whose files are in the cache. Files that `before` has, too, are shared with it
/// and not opened again.
pub(crate) fn open(
    version: Version,
    cache: &Cache,
    opening: Opening,
    before: Option<&Generation>,
) -> Result<Generation> {
    let (disk, access) = (cache.unlocked_disk(), opening.access);
    let store = match version.kind {
        VersionKind::Collection => {
            let mut set = open_collection(disk, &version, cache, before)?;
            set.reader = set.reader.with_bundle_limit(opening.bundle_limit);
            Store::Collection(set)
        }
        VersionKind::ShardedTable => open_shards(&version, cache, access, before)?,
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

/// Opens a sharded table. Tables that `before` has open are shared.
fn open_shards(
    version: &Version,
    cache: &Cache,
    access: Access,
    before: Option<&Generation>,
) -> Result<Store> {
    let mut open: HashMap<&str, Arc<Table>> = HashMap::new();
    if let Some(Generation { version, store: Store::Sharded(table) }) = before {
        let tables = version.files.iter().zip(table.shards());
        open.extend(tables.map(|(file, table)| (file.blake3.as_str(), table.clone())));
    }
    let mut shards = Vec::with_capacity(version.files.len());
    for (shard, file) in version.files.iter().enumerate() {
        if file.name != shard_file(shard) {
            let message = format!("the version lacks shard {shard} of the table");
            return Err(Error::corrupt(message));
        }
        shards.push(match open.get(file.blake3.as_str()) {
            Some(table) => table.clone(),
            None => Arc::new(Table::open_on(cache.unlocked_disk(), &cache.path(file), access)?),
        });
    }
    let table = ShardedTable::from_tables(shards);
    // The publisher has checked the same.
    table.map(|table| Store::Sharded(Arc::new(table))).map_err(|e| match e.kind() {
        ErrorKind::InvalidArgument => Error::corrupt(e.message()),
        _ => e,
    })
}

fn open_collection(
    disk: &DiskRef,
    version: &Version,
    cache: &Cache,
    before: Option<&Generation>,
) -> Result<search::OpenSet> {
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
    // The cache has no other files than those of the manifest.
    let locate = |file: &str| paths.get(file).cloned().unwrap_or_else(|| cache.dir().join(file));
    let opened = search::OpenSet::open(disk, number, &paths[set], &locate, before);
    opened.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            Error::corrupt(format!("the set and the manifest disagree: {}", e.message()))
        }
        _ => e,
    })
}
