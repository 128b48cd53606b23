//! Assigns all documents to partitions anew.
//!
//! 1. `State::begin_repartition` records the wanted partitioning in the log. From then on the
//!    operation will be completed, after a crash by the next opening.
//! 2. `resume` writes the ID lists of the partitions for the next generation, from the ID lists of
//!    the sources. If repeated after a crash, this writes the same lists.
//! 3. One batch makes that generation current, marks every partition dirty, and deletes the old
//!    lists.

use super::assign::partition_of;
use super::format::{
    DIRTY, Id, META, PUBLISHED, REPARTITION, decode_partitioning, encode_meta, encode_names,
    encode_published, entry_key, inconsistent, partition_list, read_published,
};
use super::lists;
use super::partitioning::Partitioning;
use super::state::{State, published_set};
use crate::Result;
use crate::log::{Batch, WriteOptions};
use crate::search::Collection;
use std::collections::{BTreeMap, BTreeSet};

/// IDs per batch.
const BATCH_IDS: usize = if cfg!(test) { 5 } else { 1 << 16 };

/// Completes the repartitioning that `State::begin_repartition` has recorded, if any.
pub(super) fn resume(state: &mut State, collection: &Collection) -> Result<()> {
    let wanted = state.log.get_with(REPARTITION, decode_partitioning)?;
    let Some(partitioning) = wanted.transpose()? else { return Ok(()) };
    let generation = state.generation + 1;
    let published = collection.reader().partitions();
    let mut old: BTreeSet<String> = published.into_iter().map(|part| part.name).collect();
    old.extend(state.dirty.iter().cloned());
    let mut new = BTreeSet::new();
    for source in &state.sources {
        for ids in state.source_ids(source)?.chunks(BATCH_IDS) {
            let mut batch = Batch::new();
            for (name, entries) in assign_all(state, ids, &partitioning, &mut old)? {
                let list = partition_list(generation, &name);
                lists::append(&state.log, &mut batch, &list, &entries)?;
                new.insert(name);
            }
            state.log.write(&batch)?;
        }
    }
    let dirty = &old | &new;
    let mut batch = Batch::new();
    for name in &old {
        let list = partition_list(state.generation, name);
        lists::remove(&state.log, &mut batch, &list)?;
    }
    batch.push_put(META, encode_meta(generation, &partitioning, &state.schema));
    batch.push_put(DIRTY, encode_names(&dirty));
    batch.push_delete(REPARTITION);
    // Every partition of the collection is dirty, so its present content may count as published.
    batch.push_put(PUBLISHED, encode_published(published_set(collection)));
    state.log.write_with(&batch, WriteOptions::sync())?;
    (state.generation, state.partitioning, state.dirty) = (generation, partitioning, dirty);
    Ok(())
}

/// Groups documents by their new partitions. Adds the names of their present ones to `old`.
fn assign_all(
    state: &State,
    ids: &[Id],
    partitioning: &Partitioning,
    old: &mut BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<(Id, bool)>>> {
    let mut partitions: BTreeMap<String, Vec<(Id, bool)>> = BTreeMap::new();
    for &id in ids {
        let names = state.log.get_with(entry_key(id), |bytes| {
            let document = read_published(bytes)?.unwrap_or_default();
            let name = |by: &Partitioning| partition_of(by, &state.schema, id, document);
            Ok((name(&state.partitioning)?, name(partitioning)?))
        })?;
        let names =
            names.unwrap_or_else(|| Err(inconsistent("a document of a source's list is missing")));
        let (present, next) = names?;
        old.insert(present);
        partitions.entry(next).or_default().push((id, true));
    }
    Ok(partitions)
}
