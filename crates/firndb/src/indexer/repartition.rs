//! Dividing all documents anew, and rebuilding everything.
//!
//! 1. A record says how the documents are to be divided; from here on it will be done, if need be
//!    by the next opening.
//! 2. The partitions' lists of the next generation are made from the lists of the sources. Made
//!    again after a crash they come out the same.
//! 3. One batch makes that generation the current one, every partition dirty, and the old lists go.

use super::format::{
    DIRTY, Id, META, PUBLISHED, REPARTITION, decode_partitioning, encode_meta, encode_names,
    encode_published, entry_key, partition_list, read_entry,
};
use super::partitioning::Partitioning;
use super::{Indexer, contradiction, durable, lists};
use crate::Result;
use crate::log::Batch;
use std::collections::{BTreeMap, BTreeSet};

/// IDs that are divided at a time.
const AT_ONCE: usize = if cfg!(test) { 5 } else { 1 << 16 };

impl Indexer {
    /// Divides the documents in another way, or in the same way anew; afterwards every partition is
    /// dirty, and those that are published serve until [`Indexer::publish`]. Reads every document.
    pub fn repartition(&mut self, partitioning: Partitioning) -> Result<()> {
        partitioning.check(&self.state.schema)?;
        self.settle()?;
        self.state.begin_repartition(&partitioning)?;
        self.resume_repartition()
    }

    /// Divides the documents as `State::begin_repartition` said, if it did.
    pub(super) fn resume_repartition(&mut self) -> Result<()> {
        let wanted = self.state.log.get_with(REPARTITION, decode_partitioning)?;
        let Some(partitioning) = wanted.transpose()? else { return Ok(()) };
        let generation = self.state.generation + 1;
        let published = self.collection.reader().partitions();
        let mut old: BTreeSet<String> = published.into_iter().map(|part| part.name).collect();
        old.extend(self.state.dirty.iter().cloned());
        let mut new = BTreeSet::new();
        for source in &self.state.sources {
            for ids in self.state.source_ids(source)?.chunks(AT_ONCE) {
                let mut batch = Batch::new();
                for (name, notes) in self.divide(ids, &partitioning, &mut old)? {
                    let list = partition_list(generation, &name);
                    lists::note(&self.state.log, &mut batch, &list, &notes)?;
                    new.insert(name);
                }
                self.state.log.write(&batch)?;
            }
        }
        let dirty = &old | &new;
        let mut batch = Batch::new();
        for name in &old {
            let list = partition_list(self.state.generation, name);
            lists::remove(&self.state.log, &mut batch, &list)?;
        }
        batch.put(META, &encode_meta(generation, &partitioning, &self.state.schema));
        batch.put(DIRTY, &encode_names(&dirty)).delete(REPARTITION);
        // All that the collection has is dirty: whatever it was made of, it is known now.
        batch.put(PUBLISHED, &encode_published(self.published_set()));
        self.state.log.write_with(&batch, durable())?;
        let state = &mut self.state;
        (state.generation, state.partitioning, state.dirty) = (generation, partitioning, dirty);
        Ok(())
    }

    /// The partitions to be of these documents. Notes the names of those they are in now.
    fn divide(
        &self,
        ids: &[Id],
        partitioning: &Partitioning,
        old: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<(Id, bool)>>> {
        let state = &self.state;
        let mut partitions: BTreeMap<String, Vec<(Id, bool)>> = BTreeMap::new();
        for &id in ids {
            let names = state.log.get_with(&entry_key(id), |bytes| {
                let mut published = None;
                read_entry(bytes, |_, document| published = published.or(Some(document)))?;
                let document = published.unwrap_or_default();
                let name = |by: &Partitioning| by.name_of(&state.schema, id, document);
                Ok((name(&state.partitioning)?, name(partitioning)?))
            })?;
            let names = names
                .unwrap_or_else(|| Err(contradiction("a document of a source's list is missing")));
            let (now, then) = names?;
            old.insert(now);
            partitions.entry(then).or_default().push((id, true));
        }
        Ok(partitions)
    }
}
