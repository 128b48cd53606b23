//! What an index knows: its log, and the few small records of it that are kept in memory.

use super::format::{
    Change, DIRTY, Id, META, Meta, PUBLISHED, PublishedSet, REPARTITION, SOURCES, decode_meta,
    decode_names, decode_published, encode_meta, encode_partitioning, entry_key, read_entry,
    source_list,
};
use super::partitioning::Partitioning;
use super::{durable, lists};
use crate::log::LogStore;
use crate::search::{Collection, Schema};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashSet};

pub(super) struct State {
    pub(super) log: LogStore,
    pub(super) schema: Schema,
    pub(super) partitioning: Partitioning,
    /// Of the lists of partitions; grows by 1 when documents are divided anew.
    pub(super) generation: u32,
    /// Partitions to rebuild, as the record in the log has them.
    pub(super) dirty: BTreeSet<String>,
    pub(super) sources: BTreeSet<String>,
}

/// How a document compares with what a source had to say about its key before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Absent,
    Other,
    Same,
}

impl State {
    /// Reads the state from a log; writes it first if the log is new.
    pub(super) fn load(log: LogStore, wanted: Option<(Schema, Partitioning)>) -> Result<State> {
        let stored = log.get_with(META, decode_meta)?.transpose()?;
        let meta = match (stored, wanted) {
            (None, None) => {
                return Err(Error::new(ErrorKind::NotFound, "there is no index here"));
            }
            (None, Some((schema, partitioning))) => {
                log.put_with(META, &encode_meta(0, &partitioning, &schema), durable())?;
                Meta { generation: 0, partitioning, schema }
            }
            (Some(meta), Some((schema, _))) if meta.schema != schema => {
                return Err(Error::invalid(
                    "the index here has another schema; open it with that one, or create another \
                     index",
                ));
            }
            (Some(meta), Some((_, partitioning))) if meta.partitioning != partitioning => {
                return Err(Error::invalid(
                    "the documents of the index here are divided in another way; open it as it \
                     is, then call `repartition`",
                ));
            }
            (Some(meta), _) => meta,
        };
        let names = |key: &[u8]| -> Result<BTreeSet<String>> {
            log.get_with(key, decode_names)?.unwrap_or_else(|| Ok(BTreeSet::new()))
        };
        let (dirty, sources) = (names(DIRTY)?, names(SOURCES)?);
        let Meta { generation, partitioning, schema } = meta;
        Ok(State { log, schema, partitioning, generation, dirty, sources })
    }

    /// How `change` compares with what its source said before.
    pub(super) fn compare(&self, source: &str, change: &Change) -> Result<Known> {
        let found = self.log.get_with(&entry_key(change.id), |bytes| {
            let mut known = Known::Absent;
            let key = read_entry(bytes, |name, document| {
                if name == source {
                    let is_same = change.document.as_deref() == Some(document);
                    known = if is_same { Known::Same } else { Known::Other };
                }
            })?;
            if key == change.key { Ok(known) } else { Err(same_hash(key, &change.key)) }
        })?;
        found.unwrap_or(Ok(Known::Absent))
    }

    /// The IDs of what a source has beside those that were `seen`, and how many it has in all.
    pub(super) fn missing(&self, source: &str, seen: &HashSet<Id>) -> Result<(Vec<Id>, usize)> {
        let mut ids = self.source_ids(source)?;
        let all = ids.len();
        ids.retain(|id| !seen.contains(id));
        Ok((ids, all))
    }

    /// The IDs of the documents of a source, ascending.
    pub(super) fn source_ids(&self, source: &str) -> Result<Vec<Id>> {
        lists::read(&self.log, &source_list(source))
    }

    /// Whether the current set of the collection is the one that was published of this log, by its
    /// content. It is not if somebody else changed the collection, took it from a copy or from
    /// another index, or if damage cost the log its end.
    pub(super) fn knows(&self, collection: &Collection) -> Result<bool> {
        let content = Some(collection.content());
        Ok(match self.log.get_with(PUBLISHED, decode_published)?.transpose()? {
            // Nothing was published yet.
            None => collection.reader().partitions().is_empty(),
            Some(PublishedSet { number, content: None, .. }) => {
                let version = collection.version();
                version == number || (version < number && !self.dirty.is_empty())
            }
            Some(set) => set.content == content || set.next == content,
        })
    }

    /// Whether nothing was ever taken or published.
    pub(super) fn is_new(&self) -> Result<bool> {
        Ok(self.sources.is_empty() && !self.log.contains(PUBLISHED)?)
    }

    /// From now on the documents are being divided anew, until `Indexer::resume_repartition` is
    /// done. A division that was begun before is the one that goes on.
    pub(super) fn begin_repartition(&self, partitioning: &Partitioning) -> Result<()> {
        if self.log.contains(REPARTITION)? {
            return Ok(());
        }
        self.log.put_with(REPARTITION, &encode_partitioning(partitioning), durable())
    }
}

/// Never seen by chance; an answer all the same.
pub(super) fn same_hash(a: &[u8], b: &[u8]) -> Error {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    Error::invalid(format!("the keys `{a}` and `{b}` have the same 128-bit hash; rename one"))
}
