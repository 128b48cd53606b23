//! An open store and what requests need of it.

use super::refresher::Refresher;
use super::table::VersionShown;
use arc_swap::ArcSwapOption;
use firndb::catalog::{Catalog, CatalogReader, Generation, VersionKind};
use firndb::log::LogStore;
use firndb::search::{Collection, Reader};
use firndb::table::{ApproximateTable, ShardedTable, Table};
use firndb::{Error, ErrorKind, Result, Verification};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a store is to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Keys and values that change.
    Log,
    /// Keys and values that are only read.
    Table,
    /// Documents.
    Collection,
}

impl Kind {
    /// The part of URLs: `logs`, `tables` or `collections`.
    pub fn path(self) -> &'static str {
        match self {
            Kind::Log => "logs",
            Kind::Table => "tables",
            Kind::Collection => "collections",
        }
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Table => "table",
            Kind::Collection => "collection",
        }
    }
}

/// An open store.
pub struct Entry {
    /// The name under which it is served.
    pub name: String,
    /// Where it is: a path, or the place of a catalog and a name.
    pub location: String,
    /// The store itself.
    pub source: Source,
    /// Whether the server may not write to it.
    pub read_only: bool,
    /// How the values of the newest version are shown, if it is a table.
    pub(super) shown: ArcSwapOption<VersionShown>,
}

/// An open store, or the reader that keeps its newest version open.
pub enum Source {
    /// A log store.
    Log(LogStore),
    /// A table in a file.
    Table(Arc<Table>),
    /// An approximate table in a file.
    Approximate(Arc<ApproximateTable>),
    /// A table in several files of a directory.
    Sharded(Arc<ShardedTable>),
    /// A collection in a directory.
    Collection {
        /// The collection.
        collection: Arc<Collection>,
        /// The thread that looks for changes.
        refresher: Mutex<Option<Refresher>>,
    },
    /// A name in a catalog.
    Catalog {
        /// The catalog, to list its versions.
        catalog: Catalog,
        /// The place of the catalog, without credentials.
        place: String,
        /// The name in the catalog.
        name: String,
        /// The reader.
        reader: CatalogReader,
        /// The thread that looks for newer versions.
        watch: Mutex<Option<Refresher>>,
    },
}

/// A table of any kind, held open.
pub enum TableHandle {
    /// A table in a file.
    Exact(Arc<Table>),
    /// An approximate table in a file.
    Approximate(Arc<ApproximateTable>),
    /// A table in several files of a directory.
    Sharded(Arc<ShardedTable>),
    /// A version in a catalog.
    Version(Arc<Generation>),
}

/// A table of any kind.
#[derive(Clone, Copy)]
pub enum TableRef<'a> {
    /// One file.
    Exact(&'a Table),
    /// One file per shard.
    Sharded(&'a ShardedTable),
    /// Values of fixed width, without keys.
    Approximate(&'a ApproximateTable),
}

impl Entry {
    /// What the store is to clients.
    pub fn kind(&self) -> Kind {
        match &self.source {
            Source::Log(_) => Kind::Log,
            Source::Table(_) | Source::Approximate(_) | Source::Sharded(_) => Kind::Table,
            Source::Collection { .. } => Kind::Collection,
            Source::Catalog { reader, .. } => match reader.current().version().kind {
                VersionKind::Collection => Kind::Collection,
                _ => Kind::Table,
            },
        }
    }

    /// The log store.
    ///
    /// Errors: `NotFound` if it is another store, as are the errors of the following methods.
    pub fn log(&self) -> Result<&LogStore> {
        match &self.source {
            Source::Log(store) => Ok(store),
            _ => Err(self.wrong_kind(Kind::Log)),
        }
    }

    /// The newest version of the table.
    pub fn table(&self) -> Result<TableHandle> {
        match &self.source {
            Source::Table(table) => Ok(TableHandle::Exact(table.clone())),
            Source::Approximate(table) => Ok(TableHandle::Approximate(table.clone())),
            Source::Sharded(table) => Ok(TableHandle::Sharded(table.clone())),
            Source::Catalog { reader, .. } => {
                let generation = reader.current();
                match generation.version().kind {
                    VersionKind::Collection => Err(self.wrong_kind(Kind::Table)),
                    _ => Ok(TableHandle::Version(generation)),
                }
            }
            _ => Err(self.wrong_kind(Kind::Table)),
        }
    }

    /// The newest version of the collection.
    pub fn collection(&self) -> Result<Reader> {
        match &self.source {
            Source::Collection { collection, .. } => Ok(collection.reader()),
            Source::Catalog { reader, .. } => {
                let generation = reader.current();
                match generation.version().kind {
                    VersionKind::Collection => Ok(generation.collection()?.clone()),
                    _ => Err(self.wrong_kind(Kind::Collection)),
                }
            }
            _ => Err(self.wrong_kind(Kind::Collection)),
        }
    }

    fn wrong_kind(&self, wanted: Kind) -> Error {
        let (name, kind) = (&self.name, self.kind());
        let message = format!(
            "`{name}` is a {}, not a {}: use /v1/{}/{name}",
            kind.name(),
            wanted.name(),
            kind.path()
        );
        Error::new(ErrorKind::NotFound, message)
    }

    /// The time since the server last looked for a newer version without an error; `None` if the
    /// store has no versions.
    pub fn last_look(&self) -> Option<Duration> {
        let refresher = match &self.source {
            Source::Collection { refresher, .. } => refresher,
            Source::Catalog { watch, .. } => watch,
            Source::Log(_) | Source::Table(_) | Source::Approximate(_) | Source::Sharded(_) => {
                return None;
            }
        };
        let refresher = refresher.lock().unwrap_or_else(PoisonError::into_inner);
        refresher.as_ref().map(Refresher::last_look)
    }

    /// Checks every byte of the store.
    pub fn verify(&self) -> Result<Verification> {
        match &self.source {
            Source::Log(store) => store.verify(),
            _ if self.kind() == Kind::Collection => self.collection()?.verify(),
            _ => match self.table()?.get_ref()? {
                TableRef::Exact(table) => table.verify(),
                TableRef::Sharded(table) => table.verify(),
                TableRef::Approximate(table) => table.verify(),
            },
        }
    }

    /// Stops the threads of the store and closes it for all requests.
    pub fn close(&self) -> Result<()> {
        match &self.source {
            Source::Log(store) => store.clone().close(),
            Source::Collection { refresher, .. } => {
                drop(refresher.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(())
            }
            Source::Catalog { watch, .. } => {
                drop(watch.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(())
            }
            Source::Table(_) | Source::Approximate(_) | Source::Sharded(_) => Ok(()),
        }
    }
}

impl TableHandle {
    /// The table.
    pub fn get_ref(&self) -> Result<TableRef<'_>> {
        Ok(match self {
            TableHandle::Exact(table) => TableRef::Exact(table),
            TableHandle::Approximate(table) => TableRef::Approximate(table),
            TableHandle::Sharded(table) => TableRef::Sharded(table),
            TableHandle::Version(generation) => match generation.version().kind {
                VersionKind::ApproximateTable => {
                    TableRef::Approximate(generation.approximate_table()?)
                }
                VersionKind::ShardedTable => TableRef::Sharded(generation.sharded_table()?),
                _ => TableRef::Exact(generation.table()?),
            },
        })
    }
}

impl TableRef<'_> {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            TableRef::Exact(table) => table.get(key)?.map(|value| value.into_owned()),
            TableRef::Sharded(table) => table.get(key)?.map(|value| value.into_owned()),
            TableRef::Approximate(table) => table.get(key)?.map(|value| value.to_vec()),
        })
    }

    /// The values of keys, in order.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(match self {
            TableRef::Exact(table) => {
                let values = table.get_many(keys)?;
                values.into_iter().map(|value| value.map(|v| v.into_owned())).collect()
            }
            TableRef::Sharded(table) => {
                let values = table.get_many(keys)?;
                values.into_iter().map(|value| value.map(|v| v.into_owned())).collect()
            }
            TableRef::Approximate(table) => {
                let values = table.get_many(keys)?;
                values.into_iter().map(|value| value.map(|v| v.to_vec())).collect()
            }
        })
    }

    /// The number of records.
    pub fn len(&self) -> u64 {
        match self {
            TableRef::Exact(table) => table.len(),
            TableRef::Sharded(table) => table.len(),
            TableRef::Approximate(table) => table.len(),
        }
    }

    /// Whether the table has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The schema of the values; empty if they are plain bytes.
    pub fn value_schema(&self) -> Result<&str> {
        match self {
            TableRef::Exact(table) => table.value_schema(),
            TableRef::Sharded(table) => match table.shards().first() {
                Some(shard) => shard.value_schema(),
                None => Ok(""),
            },
            TableRef::Approximate(_) => Ok(""),
        }
    }
}
