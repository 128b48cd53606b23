//! Changes of a source -> one batch of the log.
//!
//! An edit works on the entries of the keys that it changes, in memory, and writes them once. What
//! is published of a key before and after decides which partitions are dirty: a document that only
//! waits behind that of another source dirties none.

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
    /// Before and after.
    entries: BTreeMap<Id, (Entry, Entry)>,
    /// What else the batch does.
    pub(super) batch: Batch,
}

impl<'a> Edit<'a> {
    pub(super) fn new(state: &'a mut State, source: &'a str) -> Edit<'a> {
        Edit { state, source, entries: BTreeMap::new(), batch: Batch::new() }
    }

    /// Takes a change; a later one of the same key replaces it.
    pub(super) fn change(&mut self, change: Change) -> Result<()> {
        let Change { id, key, document } = change;
        let (_, entry) = match self.entries.entry(id) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let stored = self.state.log.get_with(&entry_key(id), decode_entry)?;
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

    /// Writes everything as one batch, and returns the partitions that it dirtied.
    pub(super) fn write(mut self, options: WriteOptions) -> Result<BTreeSet<String>> {
        let mut partitions: BTreeMap<String, Vec<(Id, bool)>> = BTreeMap::new();
        let mut of_source = Vec::new();
        for (id, (before, after)) in std::mem::take(&mut self.entries) {
            if before == after {
                continue;
            }
            match after.documents.is_empty() {
                true => self.batch.delete(&entry_key(id)),
                false => self.batch.put(&entry_key(id), &encode_entry(&after)),
            };
            let is_here = after.documents.contains_key(self.source);
            if before.documents.contains_key(self.source) != is_here {
                of_source.push((id, is_here));
            }
            self.divide(id, &before, &after, &mut partitions)?;
        }
        let State { log, generation, .. } = &*self.state;
        for (name, notes) in partitions.iter().filter(|(_, notes)| !notes.is_empty()) {
            lists::note(log, &mut self.batch, &partition_list(*generation, name), notes)?;
        }
        if !of_source.is_empty() {
            lists::note(log, &mut self.batch, &source_list(self.source), &of_source)?;
        }
        let touched: BTreeSet<String> = partitions.into_keys().collect();
        let dirty = &self.state.dirty | &touched;
        if dirty.len() > self.state.dirty.len() {
            self.batch.put(DIRTY, &encode_names(&dirty));
        }
        let mut sources = self.state.sources.clone();
        if !of_source.is_empty() && sources.insert(self.source.to_string()) {
            self.batch.put(SOURCES, &encode_names(&sources));
        }
        self.state.log.write_with(&self.batch, options)?;
        (self.state.dirty, self.state.sources) = (dirty, sources);
        Ok(touched)
    }

    /// Notes in which partitions something changes, and what becomes of their lists.
    fn divide(
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
            entry.published().map(|document| partitioning.name_of(schema, id, document)).transpose()
        };
        let (old, new) = (name(before)?, name(after)?);
        let has_moved = old != new;
        for (name, is_here) in [(old, false), (new, true)] {
            let Some(name) = name else { continue };
            let notes = partitions.entry(name).or_default();
            if has_moved {
                notes.push((id, is_here));
            }
        }
        Ok(())
    }
}
