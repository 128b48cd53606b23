//! An open table, in one file or in several.

use firndb::Verification;
use firndb::table::{Access, ShardedTable, Table};
use firndb::{Error, Result};
use std::borrow::Cow;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

/// A cheap clone of an open table.
#[derive(Clone)]
pub enum TableRef {
    One(Arc<Table>),
    Sharded(Arc<ShardedTable>),
}

/// Where the files of a table are.
#[derive(Clone, Debug)]
pub enum Location {
    File(PathBuf),
    /// A directory of shards.
    Dir(PathBuf),
    /// The files of the shards.
    Shards(Vec<PathBuf>),
}

impl TableRef {
    pub fn open(location: &Location, access: Access) -> Result<TableRef> {
        Ok(match location {
            Location::File(path) => TableRef::One(Arc::new(Table::open_with(path, access)?)),
            Location::Dir(dir) => TableRef::Sharded(Arc::new(ShardedTable::open_dir(dir, access)?)),
            Location::Shards(paths) => {
                TableRef::Sharded(Arc::new(ShardedTable::open_with(paths, access)?))
            }
        })
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match self {
            TableRef::One(table) => table.get(key),
            TableRef::Sharded(table) => table.get(key),
        }
    }

    #[inline]
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        match self {
            TableRef::One(table) => table.contains(key),
            TableRef::Sharded(table) => table.contains(key),
        }
    }

    /// Calls `read` with the value of each key, in the order of the keys.
    pub fn read_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        match self {
            TableRef::One(table) => table.read_many(keys, read),
            TableRef::Sharded(table) => {
                let values = table.get_many(keys)?;
                values.iter().enumerate().try_for_each(|(at, value)| read(at, value.as_deref()))
            }
        }
    }

    pub fn len(&self) -> u64 {
        match self {
            TableRef::One(table) => table.len(),
            TableRef::Sharded(table) => table.len(),
        }
    }

    /// The tables that the table consists of.
    pub fn shards(&self) -> &[Arc<Table>] {
        match self {
            TableRef::One(table) => slice::from_ref(table),
            TableRef::Sharded(table) => table.shards(),
        }
    }

    /// The table, to read ranges of its keys. `InvalidArgument` if it has several shards.
    pub fn single(&self) -> Result<&Arc<Table>> {
        match self {
            TableRef::One(table) => Ok(table),
            TableRef::Sharded(_) => Err(Error::invalid(
                "a sharded table has no ranges of keys: its keys are distributed by their hashes",
            )),
        }
    }

    /// Whether ranges of keys can be read.
    pub fn is_ordered(&self) -> bool {
        matches!(self, TableRef::One(table) if table.is_ordered())
    }

    pub fn value_schema(&self) -> Result<&str> {
        match self {
            TableRef::One(table) => table.value_schema(),
            TableRef::Sharded(table) => table.value_schema(),
        }
    }

    pub fn verify(&self) -> Result<Verification> {
        match self {
            TableRef::One(table) => table.verify(),
            TableRef::Sharded(table) => table.verify(),
        }
    }
}

/// The access mode of this name.
pub fn access_of(name: &str) -> Result<Access> {
    match name {
        "map" => Ok(Access::Map),
        "buffered" => Ok(Access::Buffered),
        "direct" => Ok(Access::Direct),
        "resident" => Ok(Access::Resident),
        other => Err(Error::invalid(format!(
            "access is '{other}'; it is one of 'map', 'buffered', 'direct' and 'resident'"
        ))),
    }
}
