//! Collections.

use super::{change, reader};
use crate::convert::{Pack, Unpack, bytes_of, long, path};
use crate::error::Result;
use crate::handle::Handles;
use crate::log::Packed;
use firndb::search::{Collection, Merge, MergePolicy, Reader};
use jni::Env;
use jni::objects::{JByteArray, JString};
use jni::sys::{jboolean, jlong};
use std::sync::Arc;
use std::time::Duration;

static COLLECTIONS: Handles<Arc<Collection>, 8> = Handles::new("collection");

pub fn create(env: &mut Env<'_>, at: &JString<'_>) -> Result<jlong> {
    Ok(COLLECTIONS.insert(Arc::new(Collection::create(path(env, at)?)?))?)
}

pub fn open(env: &mut Env<'_>, at: &JString<'_>) -> Result<jlong> {
    Ok(COLLECTIONS.insert(Arc::new(Collection::open(path(env, at)?)?))?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    COLLECTIONS.close(handle)?;
    Ok(())
}

/// Calls `call` with an open collection.
fn with<R>(handle: jlong, call: impl FnOnce(&Arc<Collection>) -> firndb::Result<R>) -> Result<R> {
    Ok(COLLECTIONS.with(handle, call)??)
}

/// A reader of partition files, whose paths are packed.
pub fn open_files(env: &mut Env<'_>, files: &Packed<'_>) -> Result<jlong> {
    let packed = bytes_of(env, &files.bytes, files.length)?;
    reader::open(Reader::open_files(&Unpack(&packed).texts()?)?)
}

/// A reader of the current version.
pub fn reader(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    reader::open(with(handle, |collection| Ok(collection.reader()))?)
}

pub fn version(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |collection| Ok(long(collection.version())))
}

pub fn refresh(_: &mut Env<'_>, handle: jlong) -> Result<jboolean> {
    with(handle, |collection| collection.refresh())
}

/// Begins a change. Nothing is locked before it is committed.
pub fn change(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    let collection = with(handle, |collection| {
        collection.check_changeable()?;
        Ok(collection.clone())
    })?;
    change::open(collection)
}

/// `Collection.MergePolicy`.
pub struct PolicyArguments {
    pub small: jlong,
    pub most_documents: jlong,
    pub most_bytes: jlong,
    pub at_least: jlong,
    pub unchanged_millis: jlong,
}

/// Merges small partitions, or returns what would be merged: for each new partition its name, the
/// number of its documents, and the names of the old ones.
pub fn compact<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    given: &PolicyArguments,
    dry_run: jboolean,
) -> Result<JByteArray<'l>> {
    let documents = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let policy = MergePolicy::default()
        .small(documents(given.small))
        .most_documents(documents(given.most_documents))
        .most_bytes(given.most_bytes.cast_unsigned())
        .at_least(usize::try_from(given.at_least).unwrap_or(0))
        .unchanged_for(Duration::from_millis(given.unchanged_millis.cast_unsigned()));
    let merges = with(handle, |collection| {
        if dry_run {
            return collection.compact_plan(&policy);
        }
        let mut merges = Vec::new();
        collection.compact(&policy, |merge| merges.push(merge.clone()))?;
        Ok(merges)
    })?;
    pack_merges(&merges).finish(env)
}

fn pack_merges(merges: &[Merge]) -> Pack {
    let mut packed = Pack::default();
    for merge in merges {
        packed.text(&merge.into);
        packed.long(long(merge.documents));
        packed.texts(&merge.from);
    }
    packed
}
