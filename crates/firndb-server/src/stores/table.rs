//! What requests need of tables: values without copies, pages, and how values are shown.

use super::entry::{Entry, TableHandle, TableRef};
use crate::app::Deadline;
use firndb::table::{Range, Table};
use firndb::{Error, KeyRange, Result};
use firndb_ingest::Shown;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// How the values of one version of a table are shown.
pub(super) struct VersionShown {
    version: u64,
    shown: Shown,
}

/// A position in a scan: the shard, and the cursor in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCursor {
    /// The shard; 0 if the table has only one file.
    pub shard: usize,
    /// The cursor of [`Table::scan_from`].
    pub position: u64,
}

const NO_KEYS: &str =
    "this is an approximate table, which does not store its keys: they cannot be listed";

/// A page ends when it has this many bytes.
const PAGE_BYTES: usize = 16 << 20;

impl TableHandle {
    /// The number of the version in its catalog; 0 for a table that is not in a catalog.
    pub fn version(&self) -> u64 {
        match self {
            TableHandle::Version(generation) => generation.version().number,
            _ => 0,
        }
    }
}

impl Entry {
    /// Calls `read` with how the values of the table are shown. The schema is parsed once per
    /// version of the table.
    pub fn with_shown<T>(&self, handle: &TableHandle, read: impl FnOnce(&Shown) -> T) -> Result<T> {
        let version = handle.version();
        let cached = self.shown.load();
        if let Some(cached) = cached.as_ref().filter(|cached| cached.version == version) {
            return Ok(read(&cached.shown));
        }
        let shown = Shown::new(handle.get_ref()?.value_schema()?).unwrap_or_else(|reason| {
            let store = &self.name;
            tracing::warn!(store, reason, "values are shown as bytes: no schema of their rows");
            Shown::bytes()
        });
        let new = Arc::new(VersionShown { version, shown });
        self.shown.store(Some(new.clone()));
        Ok(read(&new.shown))
    }
}

impl TableRef<'_> {
    /// Calls `read` with the value of a key, without copying it where the table has it in memory.
    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(match self {
            TableRef::Exact(table) => table.get(key)?.map(|value| read(&value)),
            TableRef::Sharded(table) => table.get(key)?.map(|value| read(&value)),
            TableRef::Approximate(table) => table.get(key)?.map(|value| read(&value)),
        })
    }

    /// Calls `read` with the position and the value of each key, in order, without copying values
    /// where the table has them in memory.
    pub fn read_many<E: From<Error>>(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            TableRef::Exact(table) => table.read_many(keys, read),
            TableRef::Sharded(table) => {
                let mut values = table.get_many(keys)?.into_iter().enumerate();
                values.try_for_each(|(i, value)| read(i, value.as_deref()))
            }
            TableRef::Approximate(table) => {
                let mut values = table.get_many(keys)?.into_iter().enumerate();
                values.try_for_each(|(i, value)| read(i, value.as_deref()))
            }
        }
    }

    /// The files of the table.
    ///
    /// Errors: `InvalidArgument` if the table is approximate.
    fn shards(&self) -> Result<Shards<'_>> {
        match self {
            TableRef::Exact(table) => Ok(Shards::One(table)),
            TableRef::Sharded(table) => Ok(Shards::Many(table.shards())),
            TableRef::Approximate(_) => Err(Error::invalid(NO_KEYS)),
        }
    }

    /// Identifies the contents of the table: for cursors, which are valid for these contents only.
    pub fn content_id(&self) -> Result<u64> {
        let mut hash = Xxh3::new();
        let shards = self.shards()?;
        (0..shards.len()).for_each(|i| hash.update(&shards.get(i).content_id().to_le_bytes()));
        Ok(hash.digest())
    }

    /// Calls `read` with the records of a page of about `limit` records from a cursor on. Returns
    /// the cursor of the next page.
    pub fn scan_from(
        &self,
        cursor: TableCursor,
        limit: usize,
        deadline: &Deadline,
        mut read: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<TableCursor>> {
        let shards = self.shards()?;
        if cursor.shard >= shards.len() {
            return Err(Error::invalid("the cursor names a shard that the table does not have"));
        }
        let (mut keys, mut bytes, mut position) = (0, 0, cursor.position);
        for shard in cursor.shard..shards.len() {
            deadline.check()?;
            let left = limit.saturating_sub(keys);
            if (left == 0 || bytes >= PAGE_BYTES) && keys > 0 {
                return Ok(Some(TableCursor { shard, position: 0 }));
            }
            let next = shards.get(shard).scan_from(position, left, |key, value| {
                keys += 1;
                bytes += key.len() + value.len();
                read(key, value);
            })?;
            if let Some(position) = next {
                return Ok(Some(TableCursor { shard, position }));
            }
            position = 0;
        }
        Ok(None)
    }
}

impl<'a> TableRef<'a> {
    /// The records of a range of keys, in their order.
    ///
    /// Errors: `InvalidArgument` if the table is not ordered.
    pub fn range(&self, range: KeyRange) -> Result<Range<'a>> {
        match self {
            TableRef::Exact(table) => table.range(range),
            TableRef::Sharded(_) => Err(Error::invalid(
                "the table has several shards, which are divided by the hashes of keys: its keys \
                 have no order",
            )),
            TableRef::Approximate(_) => Err(Error::invalid(NO_KEYS)),
        }
    }
}

/// The files of a table.
enum Shards<'a> {
    One(&'a Table),
    Many(&'a [Arc<Table>]),
}

impl Shards<'_> {
    fn len(&self) -> usize {
        match self {
            Shards::One(_) => 1,
            Shards::Many(tables) => tables.len(),
        }
    }

    fn get(&self, shard: usize) -> &Table {
        match self {
            Shards::One(table) => table,
            Shards::Many(tables) => &tables[shard],
        }
    }
}
