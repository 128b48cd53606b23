//! Builds: what `KeyValueBuilder` calls, for every kind of table.

use crate::convert::{Part, Unpack, bytes_of, long};
use crate::error::Result;
use crate::handle::Handles;
use crate::log::Packed;
use firndb::table::{ApproximateBuilder, TableBuilder};
use firndb::{Error, ErrorKind};
use jni::Env;
use jni::sys::jlong;
use std::sync::{Arc, Mutex, PoisonError};

/// Builders; `None` is one that is finished.
pub type Builders<B> = Handles<Arc<Mutex<Option<B>>>, 1>;

/// A builder of records.
pub trait Building {
    fn add(&mut self, key: &[u8], value: &[u8]) -> firndb::Result<()>;

    /// The number of records added.
    fn records(&self) -> u64;
}

/// Makes a builder known to Java.
pub fn open<B>(builders: &Builders<B>, builder: B) -> Result<jlong> {
    Ok(builders.insert(Arc::new(Mutex::new(Some(builder))))?)
}

/// Abandons a build that was not finished.
pub fn close<B>(_: &mut Env<'_>, builders: &Builders<B>, handle: jlong) -> Result<()> {
    builders.close(handle)?;
    Ok(())
}

/// Takes a builder to finish it. No lock is held afterwards, so a callback may call the builder.
pub fn take<B>(building: &Mutex<Option<B>>) -> Result<B> {
    let taken = building.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(taken.ok_or_else(finished)?)
}

fn finished() -> Error {
    Error::new(ErrorKind::Failed, "the build is finished")
}

/// Calls `call` with a builder that is not finished.
pub fn with<B, R>(
    builders: &Builders<B>,
    handle: jlong,
    call: impl FnOnce(&mut B) -> Result<R>,
) -> Result<R> {
    builders.with(handle, |building| {
        match &mut *building.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(builder) => call(builder),
            None => Err(finished().into()),
        }
    })?
}

pub fn add<'l, B: Building>(
    env: &mut Env<'l>,
    builders: &Builders<B>,
    handle: jlong,
    key: &Part<'l>,
    value: &Part<'l>,
) -> Result<()> {
    key.with_key(env, |env, key| {
        value.with_value(env, |_, value| {
            with(builders, handle, |builder| Ok(builder.add(key, value)?))
        })
    })
}

/// Adds packed records: for each key and value its length and its bytes.
pub fn add_all<B: Building>(
    env: &mut Env<'_>,
    builders: &Builders<B>,
    handle: jlong,
    records: &Packed<'_>,
) -> Result<()> {
    let packed = bytes_of(env, &records.bytes, records.length)?;
    let mut unpack = Unpack(&packed);
    with(builders, handle, |builder| {
        while !unpack.0.is_empty() {
            builder.add(unpack.bytes()?, unpack.bytes()?)?;
        }
        Ok(())
    })
}

pub fn records<B: Building>(
    _: &mut Env<'_>,
    builders: &Builders<B>,
    handle: jlong,
) -> Result<jlong> {
    with(builders, handle, |builder| Ok(long(builder.records())))
}

impl Building for TableBuilder {
    fn add(&mut self, key: &[u8], value: &[u8]) -> firndb::Result<()> {
        TableBuilder::add(self, key, value)
    }

    fn records(&self) -> u64 {
        TableBuilder::records(self)
    }
}

impl Building for ApproximateBuilder {
    fn add(&mut self, key: &[u8], value: &[u8]) -> firndb::Result<()> {
        ApproximateBuilder::add(self, key, value)
    }

    fn records(&self) -> u64 {
        ApproximateBuilder::records(self)
    }
}
