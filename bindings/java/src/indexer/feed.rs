//! Feeds and single changes of an index.

use super::slot::Slot;
use crate::convert::{Pack, Unpack, bytes_of, long};
use crate::error::{Failure, Result};
use crate::handle::{Handles, Refused};
use crate::log::Packed;
use crate::search::document;
use firndb::indexer::{Applied, Removals};
use jni::Env;
use jni::objects::JByteArray;
use jni::sys::{jdouble, jlong};
use std::sync::Arc;

static FEEDS: Handles<Arc<Feed>, 1> = Handles::new("feed");

struct Feed {
    slot: Arc<Slot>,
    number: u64,
}

/// Makes a feed known to Java.
pub fn open(slot: Arc<Slot>, number: u64) -> Result<jlong> {
    Ok(FEEDS.insert(Arc::new(Feed { slot, number }))?)
}

/// Discards a feed that was not finished.
pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    let Some(feed) = FEEDS.close(handle)? else { return Ok(()) };
    match feed.slot.end(feed.number, |feed| (feed.discard(), Ok(()))) {
        // It was finished, or the index is closed.
        Err(Failure::Handle(Refused::Closed(_))) => Ok(()),
        discarded => discarded,
    }
}

/// Adds packed items: for each the key and the document.
pub fn add(env: &mut Env<'_>, handle: jlong, items: &Packed<'_>) -> Result<()> {
    let packed = bytes_of(env, &items.bytes, items.length)?;
    let mut unpack = Unpack(&packed);
    FEEDS.with(handle, |feed| {
        feed.slot.with_feed(feed.number, |feed| {
            while !unpack.0.is_empty() {
                let key = unpack.bytes()?;
                feed.add(key, &document::unpack(&mut unpack)?)?;
            }
            Ok(())
        })
    })?
}

pub fn remove(env: &mut Env<'_>, handle: jlong, key: &Packed<'_>) -> Result<()> {
    let key = bytes_of(env, &key.bytes, key.length)?;
    FEEDS.with(handle, |feed| feed.slot.with_feed(feed.number, |feed| Ok(feed.remove(key)?)))?
}

pub fn left_out(_: &mut Env<'_>, handle: jlong, rows: jlong) -> Result<()> {
    FEEDS.with(handle, |feed| {
        feed.slot.with_feed(feed.number, |feed| {
            feed.left_out(u64::try_from(rows).unwrap_or(0));
            Ok(())
        })
    })?
}

/// Applies a feed.
pub fn finish<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    max_removed: jdouble,
) -> Result<JByteArray<'l>> {
    let applied = FEEDS.with(handle, |feed| {
        feed.slot.end(feed.number, |feed| match removals(max_removed) {
            Some(removals) => feed.removals(removals).finish(),
            None => feed.finish(),
        })
    })??;
    pack(&applied).finish(env)
}

/// The limit for a share of documents that may be removed. `None` if it is negative.
pub fn removals(share: jdouble) -> Option<Removals> {
    (share >= 0.0).then_some(Removals::Share(share))
}

/// `Indexer.Applied`.
fn pack(applied: &Applied) -> Pack {
    let mut packed = Pack::default();
    let Applied { added, updated, removed, unchanged, repeated, dirty, .. } = applied;
    for number in [added, updated, removed, unchanged, repeated] {
        packed.long(long(*number));
    }
    packed.texts(dirty);
    packed
}
