//! Getting values by their keys: what `KeyValueReader` calls, for every kind of store.

use crate::convert::{
    Full, Part, Values, array_length, bytes_of, collect_values, ints_of, keys, new_array,
};
use crate::error::Result;
use crate::handle::Handles;
use firndb::log::{LogStore, Snapshot};
use firndb::table::{ApproximateTable, ShardedTable, Table};
use jni::Env;
use jni::objects::{JByteArray, JIntArray};
use jni::sys::{jint, jlong};
use std::sync::Arc;

/// An absent key in a result that is a length.
pub const ABSENT: jint = -1;

/// A store whose values are found by their keys.
pub trait Lookup: Clone {
    /// Passes the value of a key to `call` and returns its result, or `None` if the key is absent.
    fn read<R>(&self, key: &[u8], call: impl FnOnce(&[u8]) -> R) -> firndb::Result<Option<R>>;

    fn contains(&self, key: &[u8]) -> firndb::Result<bool>;

    /// Adds the value of each key.
    fn read_many(&self, keys: &[&[u8]], values: &mut Values) -> std::result::Result<(), Full>;
}

#[inline]
pub fn get<'l, T: Lookup, const LANES: usize>(
    env: &mut Env<'l>,
    stores: &Handles<T, LANES>,
    handle: jlong,
    key: &Part<'l>,
) -> Result<JByteArray<'l>> {
    key.with_key(env, |env, key| {
        let found =
            stores.with(handle, |store| store.read(key, |value| new_array(env, value)))??;
        found.unwrap_or_else(|| Ok(JByteArray::default()))
    })
}

/// Copies a value to `to` if it fits, and returns its length.
#[inline]
pub fn get_into<'l, T: Lookup, const LANES: usize>(
    env: &mut Env<'l>,
    stores: &Handles<T, LANES>,
    handle: jlong,
    key: &Part<'l>,
    to: &Part<'l>,
) -> Result<jint> {
    key.with_key(env, |env, key| {
        let copy = |value: &[u8]| copy_value(env, value, to);
        stores.with(handle, |store| store.read(key, copy))??.unwrap_or(Ok(ABSENT))
    })
}

/// Copies a value to `to` if it fits, and returns its length.
pub fn copy_value(env: &Env<'_>, value: &[u8], to: &Part<'_>) -> Result<jint> {
    let length = array_length(value.len())?;
    if to.fits(value.len()) {
        to.write(env, value)?;
    }
    Ok(length)
}

pub fn contains<'l, T: Lookup, const LANES: usize>(
    env: &mut Env<'l>,
    stores: &Handles<T, LANES>,
    handle: jlong,
    key: &Part<'l>,
) -> Result<bool> {
    key.with_key(env, |_, key| Ok(stores.with(handle, |store| store.contains(key))??))
}

/// Some of the keys of a batch: see [`keys`].
pub struct Keys<'l> {
    pub bytes: JByteArray<'l>,
    pub length: jint,
    pub ends: JIntArray<'l>,
    pub from: jint,
    pub count: jint,
}

impl Keys<'_> {
    /// Calls `read` with the selected keys.
    fn with<R>(&self, env: &Env<'_>, read: impl FnOnce(&[&[u8]]) -> Result<R>) -> Result<R> {
        let bytes = bytes_of(env, &self.bytes, self.length)?;
        let start = match self.from {
            ..=0 => 0,
            from => ints_of(env, &self.ends, from - 1, 1)?[0],
        };
        let ends = ints_of(env, &self.ends, self.from, self.count)?;
        read(&keys(&bytes, &ends, start)?)
    }
}

/// The values of keys, one after another, and their lengths in `lengths`.
pub fn get_many<'l, T: Lookup, const LANES: usize>(
    env: &mut Env<'l>,
    stores: &Handles<T, LANES>,
    handle: jlong,
    keys: &Keys<'l>,
    lengths: &JIntArray<'_>,
) -> Result<JByteArray<'l>> {
    let values = keys.with(env, |keys| {
        stores.with(handle, |store| {
            collect_values(keys.len(), |values| store.read_many(keys, values))
        })?
    })?;
    values.finish(env, lengths, keys.from)
}

impl Lookup for LogStore {
    #[inline]
    fn read<R>(&self, key: &[u8], call: impl FnOnce(&[u8]) -> R) -> firndb::Result<Option<R>> {
        self.get_with(key, call)
    }

    fn contains(&self, key: &[u8]) -> firndb::Result<bool> {
        LogStore::contains(self, key)
    }

    fn read_many(&self, keys: &[&[u8]], values: &mut Values) -> std::result::Result<(), Full> {
        LogStore::read_many(self, keys, |_, entry| values.push(entry.map(|entry| entry.value)))
    }
}

impl Lookup for Arc<Table> {
    #[inline]
    fn read<R>(&self, key: &[u8], call: impl FnOnce(&[u8]) -> R) -> firndb::Result<Option<R>> {
        Ok(self.get(key)?.map(|value| call(&value)))
    }

    fn contains(&self, key: &[u8]) -> firndb::Result<bool> {
        Table::contains(self, key)
    }

    fn read_many(&self, keys: &[&[u8]], values: &mut Values) -> std::result::Result<(), Full> {
        Table::read_many(self, keys, |_, value| values.push(value))
    }
}

/// Implements [`Lookup`] by `get`, `contains` and `get_many`.
macro_rules! lookup {
    ($($store:ty),*) => {$(
        impl Lookup for Arc<$store> {
            fn read<R>(
                &self,
                key: &[u8],
                call: impl FnOnce(&[u8]) -> R,
            ) -> firndb::Result<Option<R>> {
                Ok(self.get(key)?.map(|value| call(&value)))
            }

            fn contains(&self, key: &[u8]) -> firndb::Result<bool> {
                <$store>::contains(self, key)
            }

            fn read_many(
                &self,
                keys: &[&[u8]],
                values: &mut Values,
            ) -> std::result::Result<(), Full> {
                let found = self.get_many(keys)?;
                found.iter().try_for_each(|value| values.push(value.as_deref()))
            }
        }
    )*};
}

lookup!(ShardedTable, ApproximateTable, Snapshot);
