//! Readers of catalogs, and the versions that they have open.

use super::origin::Switch;
use super::values::{pack_stats, pack_version};
use super::{packed, text};
use crate::convert::{long, path};
use crate::error::Result;
use crate::handle::{Handles, Refused};
use crate::table::{access, size};
use crate::{approximate, search, sharded, table};
use firndb::catalog::{CatalogReader, Generation, ReaderOptions, Watch};
use jni::Env;
use jni::objects::{JByteArray, JString};
use jni::sys::{jint, jlong};
use std::sync::Arc;
use std::time::Duration;

static READERS: Handles<Arc<Open>, 8> = Handles::new("reader");
static GENERATIONS: Handles<Arc<Generation>, 1> = Handles::new("generation");

/// An open reader.
struct Open {
    reader: CatalogReader,
    /// The thread that follows the catalog.
    _watch: Option<Watch>,
    /// Ends a refresh when the reader is closed.
    switch: Switch,
}

/// `CatalogReaderOptions`. A negative number is the default.
pub struct ReaderArguments {
    pub version: jlong,
    pub access: jint,
    pub warm: jint,
    pub bundle_limit: jlong,
    pub cache_bytes: jlong,
    pub threads: jint,
    pub follow_millis: jlong,
}

impl ReaderArguments {
    fn options(&self) -> ReaderOptions {
        let mut options = ReaderOptions::new()
            .version(u64::try_from(self.version).ok())
            .access(access(self.access))
            .threads(size(self.threads))
            .warm(match self.warm {
                1 => Some(true),
                2 => Some(false),
                _ => None,
            });
        if let Ok(bytes) = u64::try_from(self.bundle_limit) {
            options = options.bundle_limit(bytes);
        }
        if let Ok(bytes) = u64::try_from(self.cache_bytes) {
            options = options.cache_bytes(bytes);
        }
        options
    }
}

pub fn open(
    env: &mut Env<'_>,
    catalog: jlong,
    name: &JString<'_>,
    cache_dir: &JString<'_>,
    given: &ReaderArguments,
) -> Result<jlong> {
    let (name, cache_dir) = (text(env, name)?, path(env, cache_dir)?);
    let switch = Switch::default();
    let reader = super::with(catalog, |catalog| {
        switch.over(catalog).reader(&name, cache_dir, given.options())
    })?;
    let interval = u64::try_from(given.follow_millis).ok().map(Duration::from_millis);
    // Errors are in the statistics.
    let _watch = interval.map(|interval| reader.watch(interval, |_| ()));
    Ok(READERS.insert(Arc::new(Open { reader, _watch, switch }))?)
}

/// Closes a reader, and ends the thread that follows the catalog.
pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    // First, so that a refresh that runs ends soon.
    let _ = READERS.with(handle, |open| open.switch.turn_off());
    READERS.close(handle)?;
    Ok(())
}

/// A new handle of the open version.
pub fn current(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    let generation = READERS.with(handle, |open| open.reader.current())?;
    Ok(GENERATIONS.insert(generation)?)
}

pub fn refresh(_: &mut Env<'_>, handle: jlong) -> Result<bool> {
    READERS.with(handle, |open| match open.reader.refresh() {
        // The error is that of the switch.
        Err(_) if open.switch.is_off() => Err(Refused::Closed("reader").into()),
        switched => Ok(switched?),
    })?
}

pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    let stats = READERS.with(handle, |open| open.reader.stats())?;
    packed(env, |packed| pack_stats(packed, &stats))
}

pub fn generation_close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    GENERATIONS.close(handle)?;
    Ok(())
}

/// Calls `call` with an open generation.
fn with<R>(handle: jlong, call: impl FnOnce(&Generation) -> Result<R>) -> Result<R> {
    GENERATIONS.with(handle, |generation| call(generation))?
}

pub fn generation_number(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |generation| Ok(long(generation.version().number)))
}

pub fn generation_version<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    with(handle, |generation| packed(env, |packed| pack_version(packed, generation.version())))
}

pub fn generation_table(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |generation| table::share(generation.shared_table()?))
}

pub fn generation_approximate(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |generation| approximate::share(generation.shared_approximate_table()?))
}

pub fn generation_sharded(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |generation| sharded::share(generation.shared_sharded_table()?))
}

pub fn generation_collection(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |generation| search::reader::open(generation.collection()?.clone()))
}
