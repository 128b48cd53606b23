//! Indexes.

use super::feed::{self, removals};
use super::slot::Slot;
use crate::catalog::{self, values::pack_published};
use crate::convert::{Pack, Unpack, bytes_of, long, new_longs, optional_string, path};
use crate::error::Result;
use crate::handle::Handles;
use crate::log::Packed;
use crate::search::{document, reader, schema};
use crate::table::size;
use firndb::catalog::Published;
use firndb::indexer::{Indexer, Options, Partitioning, Publication};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::sync::Arc;

static INDEXES: Handles<Arc<Slot>, 1> = Handles::new("index");

/// `Partitioning`.
pub struct PartitioningArguments<'l> {
    /// Null if documents are not assigned by a field.
    pub field: JString<'l>,
    /// 0 if documents are not assigned by hash.
    pub partitions: jint,
}

impl PartitioningArguments<'_> {
    fn get(&self, env: &Env<'_>) -> Result<Partitioning> {
        let partitions = u32::try_from(self.partitions).unwrap_or(0);
        Ok(match optional_string(env, &self.field)? {
            None => Partitioning::by_hash(partitions),
            Some(field) if partitions == 0 => Partitioning::by_field(field),
            Some(field) => Partitioning::by_field_and_hash(field, partitions),
        })
    }
}

/// `IndexerOptions`.
pub struct OptionArguments {
    pub memory_limit: jlong,
    pub threads: jint,
    /// Negative if not set.
    pub max_removed: jdouble,
}

/// Opens or creates an index. Without a schema, opens the index that exists.
pub fn open(
    env: &mut Env<'_>,
    at: &JString<'_>,
    schema: &JString<'_>,
    partitioning: &PartitioningArguments<'_>,
    given: &OptionArguments,
) -> Result<jlong> {
    let at = path(env, at)?;
    let mut options =
        Options::new().memory_limit(size(given.memory_limit)).threads(size(given.threads));
    if let Some(removals) = removals(given.max_removed) {
        options = options.removals(removals);
    }
    let index = match schema.is_null() {
        true => Indexer::open_existing(at, options)?,
        false => {
            let (schema, by) = (schema::parse(env, schema)?, partitioning.get(env)?);
            Indexer::open(at, schema, by, options)?
        }
    };
    Ok(INDEXES.insert(Arc::new(Slot::new(index)))?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    match INDEXES.close(handle)? {
        Some(slot) => slot.close(),
        None => Ok(()),
    }
}

/// Calls `call` with an open index.
fn with<R>(handle: jlong, call: impl FnOnce(&mut Indexer) -> firndb::Result<R>) -> Result<R> {
    INDEXES.with(handle, |slot| slot.with(call))?
}

pub fn schema<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    with(handle, |index| Ok(schema::pack(index.schema())))?.finish(env)
}

pub fn is_remade(_: &mut Env<'_>, handle: jlong) -> Result<jboolean> {
    with(handle, |index| Ok(index.is_remade()))
}

/// The field, or an empty text, and the number of partitions by hash, or 0.
pub fn partitioning<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let mut packed = Pack::default();
    with(handle, |index| {
        packed.text(index.partitioning().field().unwrap_or_default());
        packed.int(index.partitioning().partitions().unwrap_or(0));
        Ok(())
    })?;
    packed.finish(env)
}

/// A reader of the collection, as published last.
pub fn reader(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    reader::open(INDEXES.with(handle, |slot| slot.reader())?)
}

/// Begins a feed, or single changes.
pub fn feed(
    env: &mut Env<'_>,
    handle: jlong,
    source: &JString<'_>,
    is_whole: jboolean,
) -> Result<jlong> {
    let source = source.try_to_string(env)?;
    let slot = INDEXES.with(handle, Arc::clone)?;
    let number = slot.begin(&source, is_whole)?;
    feed::open(slot, number)
}

/// Adds or replaces the document of a key. `item` is the packed key and document.
pub fn upsert(
    env: &mut Env<'_>,
    handle: jlong,
    source: &JString<'_>,
    item: &Packed<'_>,
) -> Result<jboolean> {
    let source = source.try_to_string(env)?;
    let item = bytes_of(env, &item.bytes, item.length)?;
    let mut unpack = Unpack(&item);
    let (key, document) = (unpack.bytes()?, document::unpack(&mut unpack)?);
    with(handle, |index| index.upsert(&source, key, &document))
}

pub fn delete(
    env: &mut Env<'_>,
    handle: jlong,
    source: &JString<'_>,
    key: &Packed<'_>,
) -> Result<jboolean> {
    let source = source.try_to_string(env)?;
    let key = bytes_of(env, &key.bytes, key.length)?;
    with(handle, |index| index.delete(&source, key))
}

pub fn publish<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let published = INDEXES.with(handle, |slot| slot.publish(Indexer::publish))??;
    pack_publication(&published, None).finish(env)
}

/// Publishes, and then publishes the collection in a catalog.
pub fn publish_to<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    catalog: jlong,
    name: &JString<'_>,
) -> Result<JByteArray<'l>> {
    let name = name.try_to_string(env)?;
    let (published, version) = INDEXES.with(handle, |slot| {
        catalog::with(
            catalog,
            |catalog| Ok(slot.publish(|index| index.publish_to(catalog, &name))),
        )?
    })??;
    pack_publication(&published, version.as_ref()).finish(env)
}

/// `Indexer.Publication`. `version` is the new version in a catalog.
fn pack_publication(published: &Publication, version: Option<&Published>) -> Pack {
    let mut packed = Pack::default();
    packed.long(long(published.version));
    packed.texts(&published.rebuilt);
    packed.texts(&published.removed);
    packed.long(long(published.documents));
    packed.long(long(published.bytes));
    let mut packed_version = Pack::default();
    if let Some(version) = version {
        pack_published(&mut packed_version, version);
    }
    packed.bytes(&packed_version.0);
    packed
}

pub fn repartition(
    env: &mut Env<'_>,
    handle: jlong,
    partitioning: &PartitioningArguments<'_>,
) -> Result<()> {
    let wanted = partitioning.get(env)?;
    with(handle, |index| index.repartition(wanted))
}

/// `Indexer.Status`.
pub fn status<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let status = with(handle, |index| index.status())?;
    let mut packed = Pack::default();
    let names: Vec<&str> = status.sources.iter().map(|(name, _)| name.as_str()).collect();
    packed.texts(&names);
    status.sources.iter().for_each(|(_, documents)| packed.long(long(*documents)));
    packed.texts(&status.dirty);
    for number in
        [status.partitions, status.documents, status.bytes, status.version, status.log_bytes]
    {
        packed.long(long(number));
    }
    packed.finish(env)
}

/// `Indexer.Backup`.
pub fn backup<'l>(env: &mut Env<'l>, handle: jlong, to: &JString<'_>) -> Result<JLongArray<'l>> {
    let to = path(env, to)?;
    let backup = with(handle, |index| index.backup(to))?;
    let log = backup.log;
    new_longs(env, &[log.segments, log.kept, log.copied, backup.partitions].map(long))
}
