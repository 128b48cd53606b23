//! Catalogs, their readers, and the versions that readers have open.

mod origin;
pub mod reader;
pub mod values;

use crate::convert::{Pack, Unpack, long, new_longs, new_strings, optional_bytes, path};
use crate::error::Result;
use crate::handle::Handles;
use crate::table::{report_progress, size};
use firndb::catalog::{Catalog, CleanOptions, PublishOptions, StageOptions, Staged, Version};
use firndb::{Error, ErrorKind};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use origin::Switch;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use values::{pack_diff, pack_published, pack_staged, pack_version};

static CATALOGS: Handles<Catalog, 1> = Handles::new("catalog");

/// The number of a version in an argument: the newest.
const NEWEST: jlong = -1;

pub fn open(env: &mut Env<'_>, at: &JString<'_>, create: jboolean) -> Result<jlong> {
    let dir = path(env, at)?;
    let catalog = if create { Catalog::create(dir)? } else { Catalog::open(dir)? };
    Ok(CATALOGS.insert(catalog)?)
}

/// Opens the catalog at a URL.
pub fn open_url(env: &mut Env<'_>, url: &JString<'_>) -> Result<jlong> {
    Ok(CATALOGS.insert(firndb_remote::open(&text(env, url)?)?)?)
}

pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    CATALOGS.close(handle)?;
    Ok(())
}

/// Calls `call` with an open catalog.
pub fn with<R>(handle: jlong, call: impl FnOnce(&Catalog) -> firndb::Result<R>) -> Result<R> {
    Ok(CATALOGS.with(handle, call)??)
}

/// Calls `call` with a catalog and a function that calls a `Catalog.Progress`, which may be null,
/// on this thread. If that returns false or throws, the call is cancelled.
fn with_progress<R>(
    env: &mut Env<'_>,
    handle: jlong,
    progress: &JObject<'_>,
    call: impl FnOnce(&Catalog, &dyn Fn(u64, u64)) -> firndb::Result<R>,
) -> Result<R> {
    CATALOGS.with_callback(handle, |catalog| {
        let (switch, thrown) = (Switch::default(), Cell::new(None));
        let env = RefCell::new(env);
        let report = |done, total| {
            if progress.is_null() || switch.is_off() {
                return;
            }
            match report_progress(&mut env.borrow_mut(), progress, done, total) {
                Ok(true) => {}
                Ok(false) => switch.turn_off(),
                Err(failure) => {
                    thrown.set(Some(failure));
                    switch.turn_off();
                }
            }
        };
        let result = call(&switch.over(catalog), &report);
        match thrown.take() {
            Some(failure) => Err(failure),
            // The last report may come after the last access to the origin.
            None if switch.is_off() => {
                let message = "the progress callback cancelled the call";
                Err(Error::new(ErrorKind::Cancelled, message).into())
            }
            None => Ok(result?),
        }
    })?
}

/// Reads a version, or the newest.
fn find(catalog: &Catalog, name: &str, number: jlong) -> firndb::Result<Version> {
    match number {
        NEWEST => catalog.newest(name),
        number => catalog.version(name, number.cast_unsigned()),
    }
}

fn text(env: &Env<'_>, string: &JString<'_>) -> Result<String> {
    Ok(string.try_to_string(env)?)
}

/// The packed form of a result.
fn packed<'l>(env: &mut Env<'l>, pack: impl FnOnce(&mut Pack)) -> Result<JByteArray<'l>> {
    let mut packed = Pack::default();
    pack(&mut packed);
    packed.finish(env)
}

pub fn names<'l>(env: &mut Env<'l>, handle: jlong) -> Result<JObjectArray<'l, JString<'l>>> {
    let names = with(handle, Catalog::names)?;
    new_strings(env, names)
}

pub fn versions<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
) -> Result<JLongArray<'l>> {
    let name = text(env, name)?;
    let numbers = with(handle, |catalog| catalog.versions(&name))?;
    new_longs(env, &numbers.into_iter().map(long).collect::<Vec<_>>())
}

pub fn version<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    number: jlong,
) -> Result<JByteArray<'l>> {
    let name = text(env, name)?;
    let version = with(handle, |catalog| find(catalog, &name, number))?;
    packed(env, |packed| pack_version(packed, &version))
}

/// The options that a `PublishOptions` packs, without its callback.
fn publish_options<'a>(env: &Env<'_>, given: &JByteArray<'_>) -> Result<PublishOptions<'a>> {
    let given = optional_bytes(env, given)?.unwrap_or_default();
    let mut unpack = Unpack(&given);
    let verify = unpack.byte()? != 0;
    let mut labels = BTreeMap::new();
    while !unpack.0.is_empty() {
        labels.insert(unpack.text()?.to_string(), unpack.text()?.to_string());
    }
    Ok(PublishOptions::new().verify(verify).labels(labels))
}

/// Publishes a table or a collection. Null if `if_changed` is true and nothing has changed.
pub fn publish<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    (name, at): (&JString<'_>, &JString<'_>),
    if_changed: jboolean,
    options: &JByteArray<'_>,
    progress: &JObject<'_>,
) -> Result<JByteArray<'l>> {
    let (name, at) = (text(env, name)?, path(env, at)?);
    let options = publish_options(env, options)?;
    let published = with_progress(env, handle, progress, |catalog, report| {
        let options = options.progress(report);
        match if_changed {
            true => catalog.publish_if_changed(&name, &at, &options),
            false => catalog.publish(&name, &at, &options).map(Some),
        }
    })?;
    match published {
        Some(published) => packed(env, |packed| pack_published(packed, &published)),
        None => Ok(JByteArray::default()),
    }
}

/// The text of a staged file.
pub fn stage<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    at: &JString<'_>,
    progress: &JObject<'_>,
) -> Result<JString<'l>> {
    let (name, at) = (text(env, name)?, path(env, at)?);
    let staged = with_progress(env, handle, progress, |catalog, report| {
        catalog.stage(&name, &at, &StageOptions::new().progress(report))
    })?;
    Ok(env.new_string(staged.to_string())?)
}

/// What the text of a staged file says.
pub fn staged<'l>(env: &mut Env<'l>, line: &JString<'_>) -> Result<JByteArray<'l>> {
    let staged: Staged = text(env, line)?.parse()?;
    packed(env, |packed| pack_staged(packed, &staged))
}

/// Publishes staged files, whose texts are packed one after another.
pub fn publish_staged<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    lines: &JByteArray<'_>,
    options: &JByteArray<'_>,
) -> Result<JByteArray<'l>> {
    let (name, options) = (text(env, name)?, publish_options(env, options)?);
    let lines = optional_bytes(env, lines)?.unwrap_or_default();
    let (mut unpack, mut staged) = (Unpack(&lines), Vec::new());
    while !unpack.0.is_empty() {
        staged.push(unpack.text()?.parse::<Staged>()?);
    }
    let published = with(handle, |catalog| catalog.publish_staged(&name, &staged, &options))?;
    packed(env, |packed| pack_published(packed, &published))
}

pub fn rollback<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    to: jlong,
    options: &JByteArray<'_>,
) -> Result<JByteArray<'l>> {
    let (name, options) = (text(env, name)?, publish_options(env, options)?);
    let to = to.cast_unsigned();
    let published = with(handle, |catalog| catalog.rollback(&name, to, &options))?;
    packed(env, |packed| pack_published(packed, &published))
}

pub fn pin(
    env: &mut Env<'_>,
    handle: jlong,
    name: &JString<'_>,
    number: jlong,
    note: &JString<'_>,
) -> Result<()> {
    let (name, note) = (text(env, name)?, text(env, note)?);
    with(handle, |catalog| catalog.pin(&name, number.cast_unsigned(), &note))
}

pub fn unpin(env: &mut Env<'_>, handle: jlong, name: &JString<'_>, number: jlong) -> Result<()> {
    let name = text(env, name)?;
    with(handle, |catalog| catalog.unpin(&name, number.cast_unsigned()))
}

pub fn pins<'l>(env: &mut Env<'l>, handle: jlong, name: &JString<'_>) -> Result<JLongArray<'l>> {
    let name = text(env, name)?;
    let numbers = with(handle, |catalog| catalog.pins(&name))?;
    new_longs(env, &numbers.into_iter().map(long).collect::<Vec<_>>())
}

/// The counts of `Catalog.Cleaned`, and the numbers of the removed versions.
pub fn clean<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    keep: jint,
    grace_millis: jlong,
    dry_run: jboolean,
) -> Result<JLongArray<'l>> {
    let name = text(env, name)?;
    let grace = Duration::from_millis(u64::try_from(grace_millis).unwrap_or(0));
    let options = CleanOptions::new().keep(size(keep)).grace(grace).dry_run(dry_run);
    let cleaned = with(handle, |catalog| catalog.clean(&name, &options))?;
    let counts = [cleaned.files, cleaned.bytes, cleaned.staged];
    let numbers = counts.into_iter().chain(cleaned.versions);
    new_longs(env, &numbers.map(long).collect::<Vec<_>>())
}

pub fn verify<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    number: jlong,
    progress: &JObject<'_>,
) -> Result<JLongArray<'l>> {
    let name = text(env, name)?;
    let verified = with_progress(env, handle, progress, |catalog, report| {
        let version = find(catalog, &name, number)?;
        let mut done = 0;
        catalog.verify(&version, |file| {
            done += file.bytes;
            report(done, version.bytes());
        })
    })?;
    new_longs(env, &[verified.files, verified.bytes, verified.records].map(long))
}

/// Copies a version to a directory, and returns the version.
pub fn pull<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    number: jlong,
    to: &JString<'_>,
    threads: jint,
) -> Result<JByteArray<'l>> {
    let (name, to) = (text(env, name)?, path(env, to)?);
    let version = with(handle, |catalog| {
        let version = find(catalog, &name, number)?;
        catalog.pull(&version, &to, size(threads), &|_| ())?;
        Ok(version)
    })?;
    packed(env, |packed| pack_version(packed, &version))
}

pub fn diff<'l>(
    env: &mut Env<'l>,
    handle: jlong,
    name: &JString<'_>,
    before: jlong,
    after: jlong,
) -> Result<JByteArray<'l>> {
    let name = text(env, name)?;
    let diff = with(handle, |catalog| {
        Ok(find(catalog, &name, before)?.diff(&find(catalog, &name, after)?))
    })?;
    packed(env, |packed| pack_diff(packed, &diff))
}
