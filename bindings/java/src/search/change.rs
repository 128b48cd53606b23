//! Changes of collections: steps that are recorded, and applied when the change is committed.

use super::builder;
use crate::convert::{Unpack, bytes_of, path};
use crate::error::Result;
use crate::handle::{Handles, Refused};
use crate::log::Packed;
use firndb::search::{self, Collection, PartitionBuilder};
use jni::Env;
use jni::objects::JString;
use jni::sys::{jboolean, jlong};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

static CHANGES: Handles<Arc<Change>, 1> = Handles::new(WHAT);

const WHAT: &str = "change";

struct Change {
    collection: Arc<Collection>,
    /// `None` once the change is being committed.
    steps: Mutex<Option<Vec<Step>>>,
}

enum Step {
    Put { name: String, from: Source, extends: bool },
    Remove(String),
    Merge { names: Vec<String>, into: String },
    Clear,
}

/// Where the documents of a partition come from.
enum Source {
    Builder(Box<PartitionBuilder>),
    File(PathBuf),
}

pub fn open(collection: Arc<Collection>) -> Result<jlong> {
    let steps = Mutex::new(Some(Vec::new()));
    Ok(CHANGES.insert(Arc::new(Change { collection, steps }))?)
}

/// Discards a change that was not committed.
pub fn close(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    CHANGES.close(handle)?;
    Ok(())
}

/// Records the step that `step` makes, which is called only if the change is open.
fn record(handle: jlong, step: impl FnOnce() -> Result<Step>) -> Result<()> {
    CHANGES.with(handle, |change| {
        let mut steps = change.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = steps.as_mut().ok_or(Refused::Closed(WHAT))?;
        steps.push(step()?);
        Ok(())
    })?
}

/// Puts or continues a partition with the documents of a builder, which is used up.
pub fn put(
    env: &mut Env<'_>,
    handle: jlong,
    name: &JString<'_>,
    builder: jlong,
    extends: jboolean,
) -> Result<()> {
    let name = name.try_to_string(env)?;
    record(handle, || {
        let from = Source::Builder(Box::new(builder::take(builder)?));
        Ok(Step::Put { name, from, extends })
    })
}

/// Puts or continues a partition with a copy of a file.
pub fn put_file(
    env: &mut Env<'_>,
    handle: jlong,
    name: &JString<'_>,
    file: &JString<'_>,
    extends: jboolean,
) -> Result<()> {
    let (name, from) = (name.try_to_string(env)?, Source::File(path(env, file)?));
    record(handle, || Ok(Step::Put { name, from, extends }))
}

pub fn remove(env: &mut Env<'_>, handle: jlong, name: &JString<'_>) -> Result<()> {
    let name = name.try_to_string(env)?;
    record(handle, || Ok(Step::Remove(name)))
}

/// Merges partitions whose names are packed.
pub fn merge(
    env: &mut Env<'_>,
    handle: jlong,
    names: &Packed<'_>,
    into: &JString<'_>,
) -> Result<()> {
    let packed = bytes_of(env, &names.bytes, names.length)?;
    let names = Unpack(&packed).texts()?.into_iter().map(str::to_string).collect();
    let into = into.try_to_string(env)?;
    record(handle, || Ok(Step::Merge { names, into }))
}

pub fn clear(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    record(handle, || Ok(Step::Clear))
}

/// Applies all steps, in order, as one change of the collection.
pub fn commit(_: &mut Env<'_>, handle: jlong) -> Result<()> {
    CHANGES.with(handle, |change| {
        let steps = change.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
        let steps = steps.ok_or(Refused::Closed(WHAT))?;
        Ok(apply(&change.collection, steps)?)
    })?
}

fn apply(collection: &Collection, steps: Vec<Step>) -> firndb::Result<()> {
    let mut change = collection.change()?;
    for step in steps {
        match step {
            Step::Put { name, from, extends } => put_step(&mut change, &name, from, extends)?,
            Step::Remove(name) => change.remove(&name)?,
            Step::Merge { names, into } => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                change.merge(&names, &into)?;
            }
            Step::Clear => change.clear(),
        }
    }
    change.commit().map(drop)
}

fn put_step(
    change: &mut search::Change<'_>,
    name: &str,
    from: Source,
    extends: bool,
) -> firndb::Result<()> {
    match (from, extends) {
        (Source::Builder(builder), false) => change.put(name, *builder),
        (Source::Builder(builder), true) => change.extend(name, *builder).map(drop),
        (Source::File(file), false) => change.put_file(name, file),
        (Source::File(file), true) => change.extend_file(name, file).map(drop),
    }
}
