//! Turns changes of a source into one batch of the log.
//!
//! An edit collects the entries of the changed keys in memory and writes each once. A partition
//! becomes dirty if the published document of a key changes. A change of a document that is hidden
//! by that of another source makes no partition dirty.

use super::assign::partition_of;
use super::format::{
    Change, DIRTY, Entry, Id, SOURCES, decode_entry, encode_entry, encode_names, entry_key,
    partition_list, source_list,
};
use super::lists;
use super::state::{State, same_hash};
use crate::Result;
use crate::log::{Batch, WriteOptions};
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Edit<'a> {
    state: &'a mut State,
    source: &'a str,
    /// The entry of each changed key, before and after.
    entries: BTreeMap<Id, (Entry, Entry)>,
    /// The batch. Callers may add operations.
    pub(super) batch: Batch,
}

impl<'a> Edit<'a> {
    pub(super) fn new(state: &'a mut State, source: &'a str) -> Edit<'a> {
        Edit { state, source, entries: BTreeMap::new(), batch: Batch::new() }
    }

    /// Adds a change. It replaces an earlier change of the same key.
    pub(super) fn add(&mut self, change: Change) -> Result<()> {
        let Change { id, key, document } = change;
        let (_, entry) = match self.entries.entry(id) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let stored = self.state.log.get_with(entry_key(id), decode_entry)?;
                let before = stored.transpose()?.unwrap_or_default();
                slot.insert((before.clone(), before))
            }
        };
        if entry.documents.is_empty() {
            entry.key = key;
        } else if entry.key != key {
            return Err(same_hash(&entry.key, &key));
        }
        match document {
            Some(document) => entry.documents.insert(self.source.to_string(), document),
            None => entry.documents.remove(self.source),
        };
        Ok(())
    }

    /// Writes all changes as one batch. Returns the names of the partitions they make dirty.
    pub(super) fn write(mut self, options: WriteOptions) -> Result<BTreeSet<String>> {
        let mut partitions: BTreeMap<String, Vec<(Id, bool)>> = BTreeMap::new();
        let mut source_entries = Vec::new();
        for (id, (before, after)) in std::mem::take(&mut self.entries) {
            if before == after {
                continue;
            }
            match after.documents.is_empty() {
                true => self.batch.push_delete(entry_key(id)),
                false => self.batch.push_put(entry_key(id), encode_entry(&after)),
            };
            let is_present = after.documents.contains_key(self.source);
            if before.documents.contains_key(self.source) != is_present {
                source_entries.push((id, is_present));
            }
            self.note_partitions(id, &before, &after, &mut partitions)?;
        }
        let State { log, generation, .. } = &*self.state;
        for (name, entries) in partitions.iter().filter(|(_, entries)| !entries.is_empty()) {
            lists::append(log, &mut self.batch, &partition_list(*generation, name), entries)?;
        }
        if !source_entries.is_empty() {
            lists::append(log, &mut self.batch, &source_list(self.source), &source_entries)?;
        }
        let touched: BTreeSet<String> = partitions.into_keys().collect();
        let dirty = &self.state.dirty | &touched;
        if dirty.len() > self.state.dirty.len() {
            self.batch.push_put(DIRTY, encode_names(&dirty));
        }
        let mut sources = self.state.sources.clone();
        if !source_entries.is_empty() && sources.insert(self.source.to_string()) {
            self.batch.push_put(SOURCES, encode_names(&sources));
        }
        self.state.log.write_with(&self.batch, options)?;
        (self.state.dirty, self.state.sources) = (dirty, sources);
        Ok(touched)
    }

    /// Collects the partitions in which a key changes, and the new entries of their lists.
    fn note_partitions(
        &self,
        id: Id,
        before: &Entry,
        after: &Entry,
        partitions: &mut BTreeMap<String, Vec<(Id, bool)>>,
    ) -> Result<()> {
        if before.published() == after.published() {
            return Ok(());
        }
        let State { schema, partitioning, .. } = &*self.state;
        let name = |entry: &Entry| {
            entry
                .published()
                .map(|document| partition_of(partitioning, schema, id, document))
                .transpose()
        };
        let (old, new) = (name(before)?, name(after)?);
        let has_moved = old != new;
        for (name, is_present) in [(old, false), (new, true)] {
            let Some(name) = name else { continue };
            let entries = partitions.entry(name).or_default();
            if has_moved {
                entries.push((id, is_present));
            }
        }
        Ok(())
    }
}
