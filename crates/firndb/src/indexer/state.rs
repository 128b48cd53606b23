//! The state of an index: its log, and the small records that are also kept in memory.

use super::format::{
    Change, DIRTY, Id, META, Meta, PUBLISHED, PublishedSet, REPARTITION, SOURCES, decode_meta,
    decode_names, decode_published, encode_meta, encode_partitioning, entry_key, read_entry,
    source_list,
};
use super::lists;
use super::partitioning::Partitioning;
use crate::log::{LogStore, WriteOptions};
use crate::search::{Collection, Schema};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashSet};

pub(super) struct State {
    pub(super) log: LogStore,
    pub(super) schema: Schema,
    pub(super) partitioning: Partitioning,
    /// Generation of the partitions' ID lists; grows by 1 when documents are repartitioned.
    pub(super) generation: u32,
    /// Partitions to rebuild, as recorded in the log.
    pub(super) dirty: BTreeSet<String>,
    pub(super) sources: BTreeSet<String>,
}

/// How the stored document of a source and key compares with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Absent,
    Different,
    Same,
}

impl State {
    /// Loads the state from a log. Initializes the log if it is new.
    pub(super) fn load(log: LogStore, wanted: Option<(Schema, Partitioning)>) -> Result<State> {
        let stored = log.get_with(META, decode_meta)?.transpose()?;
        let meta = match (stored, wanted) {
            (None, None) => {
                return Err(Error::new(ErrorKind::NotFound, "there is no index here"));
            }
            (None, Some((schema, partitioning))) => {
                log.put_with(META, encode_meta(0, &partitioning, &schema), WriteOptions::sync())?;
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

    /// Compares `change` with the stored document of its source and key.
    pub(super) fn compare(&self, source: &str, change: &Change) -> Result<Stored> {
        let found = self.log.get_with(entry_key(change.id), |bytes| {
            let mut stored = Stored::Absent;
            let key = read_entry(bytes, |name, document| {
                if name == source {
                    let is_same = change.document.as_deref() == Some(document);
                    stored = if is_same { Stored::Same } else { Stored::Different };
                }
            })?;
            if key == change.key { Ok(stored) } else { Err(same_hash(key, &change.key)) }
        })?;
        found.unwrap_or(Ok(Stored::Absent))
    }

    /// The IDs of a source's documents that are not in `seen`, and the number of all its documents.
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

    /// Whether the content of the collection is what this index has published. It is not if the
    /// collection was changed from outside, was restored from a copy, or belongs to another index,
    /// or if the log has lost its end.
    pub(super) fn has_published(&self, collection: &Collection) -> Result<bool> {
        let content = Some(collection.content());
        Ok(match self.log.get_with(PUBLISHED, decode_published)?.transpose()? {
            // Nothing has been published yet.
            None => collection.reader().partitions().is_empty(),
            Some(PublishedSet { number, content: None, .. }) => {
                let version = collection.version();
                version == number || (version < number && !self.dirty.is_empty())
            }
            Some(set) => set.content == content || set.next == content,
        })
    }

    /// Whether no document was ever added and nothing was published.
    pub(super) fn is_new(&self) -> Result<bool> {
        Ok(self.sources.is_empty() && !self.log.contains(PUBLISHED)?)
    }

    /// Records that the documents are to be repartitioned, which `repartition::resume` then does.
    /// If a repartitioning is already recorded, that one is completed instead.
    pub(super) fn begin_repartition(&self, partitioning: &Partitioning) -> Result<()> {
        if self.log.contains(REPARTITION)? {
            return Ok(());
        }
        self.log.put_with(REPARTITION, encode_partitioning(partitioning), WriteOptions::sync())
    }
}

/// The error of two keys with the same hash. Not expected to occur by chance.
pub(super) fn same_hash(a: &[u8], b: &[u8]) -> Error {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    Error::invalid(format!("the keys `{a}` and `{b}` have the same 128-bit hash; rename one"))
}

/// The record of the set that the collection has.
pub(super) fn published_set(collection: &Collection) -> PublishedSet {
    let (number, content) = (collection.version(), Some(collection.content()));
    PublishedSet { number, content, next: None }
}
