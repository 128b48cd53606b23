//! Approximate tables and their builder.

use crate::building::{self, Builders};
use crate::convert::{long, new_array, new_longs, optional_bytes, optional_string, path};
use crate::error::{Failure, Result};
use crate::handle::Handles;
use crate::table::{access, duplicates, size};
use firndb::table::{ApproximateBuilder, ApproximateOptions, ApproximateTable};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JString};
use jni::sys::{jint, jlong};
use std::sync::Arc;

pub static TABLES: Handles<Arc<ApproximateTable>, 8> = Handles::new("approximate table");
pub static BUILDERS: Builders<ApproximateBuilder> = Handles::new("builder");

pub fn open(env: &mut Env<'_>, at: &JString<'_>, mode: jint) -> Result<jlong> {
    share(Arc::new(ApproximateTable::open_with(path(env, at)?, access(mode))?))
}

/// A handle for an open table.
pub fn share(table: Arc<ApproximateTable>) -> Result<jlong> {
    Ok(TABLES.insert(table)?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    TABLES.close(handle)?;
    Ok(())
}

/// Calls `call` with an open table.
fn with<R>(handle: jlong, call: impl FnOnce(&ApproximateTable) -> firndb::Result<R>) -> Result<R> {
    Ok(TABLES.with(handle, |table| call(table))??)
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |table| Ok(long(table.len())))
}

/// The numbers of `ApproximateTable.Stats`, in the order of its components.
pub fn stats<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let stats = with(handle, |table| Ok(table.stats()))?;
    let numbers = [
        long(stats.records),
        long(stats.shards),
        long(stats.value_width),
        jlong::from(stats.fingerprint_bits),
        stats.false_positives.to_bits().cast_signed(),
        long(stats.hash_bytes),
        long(stats.slot_bytes),
        long(stats.file_bytes),
        long(stats.memory_bytes),
        stats.seed.cast_signed(),
    ];
    new_longs(env, &numbers)
}

pub fn metadata<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    TABLES.with(handle, |table| new_array(env, table.metadata()?))?
}

/// The file of the table.
pub fn file<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JString<'l>> {
    TABLES.with(handle, |table| Ok(env.new_string(table.path().to_string_lossy())?))?
}

pub fn verify<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let verified = with(handle, ApproximateTable::verify)?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

/// `ApproximateTable.BuildOptions`.
pub struct BuildArguments<'l> {
    pub value_width: jint,
    pub fingerprint_bits: jint,
    pub duplicates: jint,
    pub memory_limit: jlong,
    pub temp_dir: JString<'l>,
    pub threads: jint,
    pub metadata: JByteArray<'l>,
}

pub fn builder_create(
    env: &mut Env<'_>,
    at: &JString<'_>,
    given: &BuildArguments<'_>,
) -> Result<jlong> {
    let mut options = ApproximateOptions::new()
        .value_width(size(given.value_width))
        .fingerprint_bits(u32::try_from(given.fingerprint_bits).unwrap_or(u32::MAX))
        .duplicates(duplicates(given.duplicates))
        .memory_limit(size(given.memory_limit));
    if let Some(dir) = optional_string(env, &given.temp_dir)? {
        options = options.temp_dir(dir);
    }
    if given.threads > 0 {
        options = options.threads(size(given.threads));
    }
    if let Some(metadata) = optional_bytes(env, &given.metadata)? {
        options = options.metadata(metadata);
    }
    let builder = ApproximateBuilder::create_with(path(env, at)?, options)?;
    building::open(&BUILDERS, builder)
}

pub fn builder_finish<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JLongArray<'l>> {
    let report =
        BUILDERS.with(handle, |builder| Ok::<_, Failure>(building::take(builder)?.finish()?))??;
    new_longs(env, &[report.records, report.duplicates, report.spilled].map(long))
}
