//! Builders of partitions.

use super::{document, schema};
use crate::building::{self, Builders};
use crate::convert::{Unpack, bytes_of, long, optional_string, path};
use crate::error::Result;
use crate::handle::Handles;
use crate::log::Packed;
use crate::table::size;
use firndb::search::PartitionBuilder;
use jni::Env;
use jni::objects::{JByteArray, JString};
use jni::sys::jlong;

/// Builders; `None` after one was written or given to a change.
static BUILDERS: Builders<PartitionBuilder> = Handles::new("builder");

pub fn create(
    env: &mut Env<'_>,
    schema: &JString<'_>,
    memory_limit: jlong,
    temp_dir: &JString<'_>,
) -> Result<jlong> {
    let builder = PartitionBuilder::new(schema::parse(env, schema)?);
    let mut builder = builder.memory_limit(size(memory_limit));
    if let Some(dir) = optional_string(env, temp_dir)? {
        builder = builder.temp_dir(dir);
    }
    building::open(&BUILDERS, builder)
}

/// Calls `call` with a builder that is not used up.
fn with<R>(handle: jlong, call: impl FnOnce(&mut PartitionBuilder) -> Result<R>) -> Result<R> {
    building::with(&BUILDERS, handle, call)
}

/// Takes the documents out of a builder, which is used up then.
pub fn take(handle: jlong) -> Result<PartitionBuilder> {
    BUILDERS.with(handle, |builder| building::take(builder))?
}

/// Adds packed documents.
pub fn add(env: &mut Env<'_>, handle: jlong, documents: &Packed<'_>) -> Result<()> {
    let packed = bytes_of(env, &documents.bytes, documents.length)?;
    let mut unpack = Unpack(&packed);
    with(handle, |builder| {
        while !unpack.0.is_empty() {
            builder.add(&document::unpack(&mut unpack)?)?;
        }
        Ok(())
    })
}

pub fn length(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |builder| Ok(jlong::from(builder.len())))
}

/// The memory of the documents.
pub fn memory(_: &mut Env<'_>, handle: jlong) -> Result<jlong> {
    with(handle, |builder| Ok(long(builder.memory() as u64)))
}

/// The schema, with the fields that documents have added to a dynamic one.
pub fn schema<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JByteArray<'l>> {
    with(handle, |builder| Ok(schema::pack(builder.schema())))?.finish(env)
}

/// Writes a partition file.
pub fn write(env: &mut Env<'_>, handle: jlong, to: &JString<'_>) -> Result<()> {
    let to = path(env, to)?;
    Ok(take(handle)?.write(to)?)
}

/// Drops a builder and its documents.
pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    BUILDERS.close(handle)?;
    Ok(())
}
