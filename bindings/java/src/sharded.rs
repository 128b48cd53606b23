//! Sharded tables.

use crate::convert::{Part, Records, long, new_longs, new_strings, path};
use crate::error::{Failure, Result};
use crate::handle::Handles;
use crate::log::finish_page;
use crate::table::{access, size};
use firndb::Error;
use firndb::table::{ShardedTable, shard_of};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JObjectArray, JString};
use jni::sys::{jint, jlong};
use std::path::PathBuf;
use std::sync::Arc;

pub static TABLES: Handles<Arc<ShardedTable>, 8> = Handles::new("sharded table");

/// Opens the shards in these files.
pub fn open(env: &mut Env<'_>, files: &JObjectArray<'_, JString<'_>>, mode: jint) -> Result<jlong> {
    let mut paths: Vec<PathBuf> = Vec::with_capacity(files.len(env)?);
    for at in 0..files.len(env)? {
        let file = files.get_element(env, at)?;
        paths.push(path(env, &file)?);
        env.delete_local_ref(file);
    }
    share(Arc::new(ShardedTable::open_with(&paths, access(mode))?))
}

/// Opens the shards in a directory.
pub fn open_dir(env: &mut Env<'_>, dir: &JString<'_>, mode: jint) -> Result<jlong> {
    share(Arc::new(ShardedTable::open_dir(path(env, dir)?, access(mode))?))
}

/// A handle for an open table.
pub fn share(table: Arc<ShardedTable>) -> Result<jlong> {
    Ok(TABLES.insert(table)?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    TABLES.close(handle)?;
    Ok(())
}

/// Calls `call` with an open table.
fn with<R>(handle: jlong, call: impl FnOnce(&ShardedTable) -> firndb::Result<R>) -> Result<R> {
    Ok(TABLES.with(handle, |table| call(table))??)
}

/// A page of records of a shard after 8 bytes with the cursor of the next page, or -1.
pub fn scan<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    shard: jint,
    cursor: jlong,
    limit: jint,
) -> Result<JByteArray<'l>> {
    let (mut page, mut fits) = (Records(vec![0; 8]), true);
    let next = with(handle, |table| {
        let shard = usize::try_from(shard).ok().and_then(|shard| table.shards().get(shard));
        let shard = shard.ok_or_else(|| Error::invalid("there is no such shard"))?;
        shard.scan_from(cursor.cast_unsigned(), size(limit), |key, value| {
            fits &= page.push(key, value);
        })
    })?;
    finish_page(env, page, fits, next)
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |table| Ok(long(table.len())))
}

/// The number of shards.
pub fn shards(_: &mut Env<'_>, handle: jlong) -> Result<jint> {
    with(handle, |table| Ok(jint::try_from(table.shards().len()).unwrap_or(jint::MAX)))
}

/// The files of the shards.
pub fn paths<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JObjectArray<'l, JString<'l>>> {
    let paths = with(handle, |table| {
        let shards = table.shards().iter();
        Ok(shards.map(|shard| shard.path().to_string_lossy().into_owned()).collect())
    })?;
    new_strings(env, paths)
}

/// The numbers of `ShardedTable.Stats`, in the order of its components.
pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let stats = with(handle, |table| Ok(table.stats()))?;
    let numbers = [
        stats.shards,
        stats.records,
        stats.smallest_shard_records,
        stats.largest_shard_records,
        stats.blocks,
        stats.key_bytes,
        stats.value_bytes,
        stats.file_bytes,
        stats.filter_bytes,
        stats.index_bytes,
        stats.memory_bytes,
    ];
    new_longs(env, &numbers.map(long))
}

pub fn value_schema<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JString<'l>> {
    TABLES.with(handle, |table| Ok(env.new_string(table.value_schema()?)?))?
}

pub fn verify<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let verified = with(handle, ShardedTable::verify)?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

/// The shard of a key.
pub fn shard<'l>(env: &mut Env<'l>, key: &Part<'l>, shards: jint) -> Result<jint> {
    key.with_key(env, |_, key| {
        let shard = shard_of(key, size(shards));
        jint::try_from(shard).map_err(|_| Failure::from(Error::invalid("too many shards")))
    })
}
