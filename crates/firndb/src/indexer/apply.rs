//! Applies feeds and single changes: writes the documents that differ from the stored ones.
//!
//! Changes are buffered until the feed is complete, because an incomplete feed must change nothing.
//! Few changes stay in memory and become one batch. More changes are spooled to the log in chunks;
//! then the record `c` marks the feed as complete, and the chunks are applied one after another.
//! `resume` continues this after a crash.

use super::edit::Edit;
use super::format::{
    Change, FEED_COMPLETE, Id, MAX_KEY, MAX_SOURCE, chunk_key, decode_chunk, encode_chunk,
    encode_document, entry_key, id_of, inconsistent, read_entry, source_list,
};
use super::lists;
use super::state::{State, Stored};
use crate::bytes::int::{Encoder, u32_at};
use crate::log::{Batch, LogStore, WriteOptions};
use crate::search::{Document, PartitionBuilder};
use crate::{Error, Result};
use std::collections::{BTreeSet, HashSet};

/// Bytes of changes buffered in memory before they are spooled to the log.
const CHUNK_BYTES: usize = if cfg!(test) { 2 << 10 } else { 4 << 20 };

/// The effect of a feed or of single changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Keys that are new to the source.
    pub added: u64,
    /// Keys whose document has changed.
    pub updated: u64,
    /// Keys that were removed from the source.
    pub removed: u64,
    /// Keys whose document is unchanged.
    pub unchanged: u64,
    /// Documents whose key occurred earlier in the same feed. The last document of a key is used.
    pub repeated: u64,
    /// Partitions with changes, ascending.
    pub dirty: Vec<String>,
}

/// How many of the documents of its source a feed may remove. A feed that would remove more is
/// rejected and changes nothing, because it may be truncated, or consist of single changes.
///
/// ```
/// use firndb::indexer::{Indexer, Removals};
/// use firndb::search::Document;
///
/// /// Applies a feed that may remove any number of documents. Returns how many it removed.
/// fn replace(index: &mut Indexer, offers: &[(String, Document)]) -> firndb::Result<u64> {
///     let mut feed = index.feed("offers")?.removals(Removals::All);
///     for (key, offer) in offers {
///         feed.add(key, offer)?;
///     }
///     Ok(feed.finish()?.removed)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Removals {
    /// At most half of them, or 100 if that is more. None if rows were left out of the feed
    /// ([`Feed::left_out`]), because they may be the rows of the documents to remove.
    #[default]
    Guarded,
    /// At most this share of them, from 0 to 1, whether or not rows were left out.
    Share(f64),
    /// All of them.
    All,
}

/// Removals that [`Removals::Guarded`] always allows.
const ALWAYS_ALLOWED: usize = 100;

impl Removals {
    /// An error unless a feed of `source` with `left_out` missing rows may remove `gone` of `all`
    /// documents.
    fn check(self, source: &str, gone: usize, all: usize, left_out: u64) -> Result<()> {
        let (is_allowed, most) = match self {
            _ if gone == 0 => return Ok(()),
            Removals::All => return Ok(()),
            Removals::Share(share) => {
                (gone as f64 <= share * all as f64, format!("a share of {share} may go"))
            }
            Removals::Guarded if left_out > 0 => (
                false,
                format!("{left_out} rows were left out of it, and they may be the rows of these"),
            ),
            Removals::Guarded => (
                gone <= ALWAYS_ALLOWED || gone <= all - gone,
                format!(
                    "by default it may remove half of them, or {ALWAYS_ALLOWED} if that is more"
                ),
            ),
        };
        if is_allowed {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the feed would remove {gone} of the {all} documents of source `{source}`; {most}: \
             nothing was changed. If that is meant, allow it with --max-removed SHARE or \
             --allow-removals (in a program: `Removals`); if these rows are single changes, use \
             --update (`Indexer::changes`)"
        )))
    }
}

/// A feed or single changes in progress: see [`Indexer::feed`](super::Indexer::feed) and
/// [`Indexer::changes`](super::Indexer::changes). Nothing changes before [`Feed::finish`]; dropping
/// a feed discards it.
///
/// Uses about 32 bytes of memory per document, and a few MiB.
pub struct Feed<'a> {
    state: &'a mut State,
    progress: Progress,
}

impl<'a> Feed<'a> {
    pub(super) fn new(
        state: &'a mut State,
        source: &str,
        is_whole: bool,
        removals: Removals,
    ) -> Result<Feed<'a>> {
        let progress = Progress::new(state, source, is_whole, removals)?;
        Ok(Feed { state, progress })
    }

    /// Sets how many documents the feed may remove. The default is
    /// [`Options::removals`](super::Options::removals). Single changes are not limited.
    pub fn removals(mut self, removals: Removals) -> Self {
        self.progress.removals = removals;
        self
    }

    /// Reports that the caller has skipped a number of rows that it could not use. Their documents
    /// are absent from the feed and would be removed: see [`Removals::Guarded`].
    pub fn left_out(&mut self, rows: u64) {
        self.progress.left_out += rows;
    }

    /// Adds the document of a key. A key has 1 to 65,535 bytes ([`MAX_KEY`]). After an error of
    /// kind `InvalidArgument`, such as a violation of the schema, the feed can be continued.
    pub fn add(&mut self, key: impl AsRef<[u8]>, document: &Document) -> Result<()> {
        self.progress.add_change(self.state, key.as_ref(), Some(document))
    }

    /// Removes the document of a key. Not needed in a feed, whose absent keys are removed.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.progress.add_change(self.state, key.as_ref(), None)
    }

    /// Applies all changes atomically. Once this returns, they survive power loss.
    ///
    /// `InvalidArgument`, and nothing is changed, if the feed would remove more documents than
    /// [`Feed::removals`] allow. After an I/O error the feed may already be recorded as complete;
    /// then the next call or the next opening applies it.
    pub fn finish(mut self) -> Result<Applied> {
        self.progress.finish(self.state)
    }
}

/// The contents of a [`Feed`] or an [`OwnedFeed`](super::OwnedFeed), without the index.
pub(super) struct Progress {
    source: String,
    /// Whether keys that are absent from the feed are removed.
    is_whole: bool,
    checker: PartitionBuilder,
    seen: HashSet<Id>,
    spool: ChangeSpool,
    applied: Applied,
    pub(super) removals: Removals,
    pub(super) left_out: u64,
}

impl Progress {
    pub(super) fn new(
        state: &State,
        source: &str,
        is_whole: bool,
        removals: Removals,
    ) -> Result<Progress> {
        if source.is_empty() || source.len() > MAX_SOURCE {
            return Err(Error::invalid(format!(
                "the name of a source has {} bytes; it may have 1 to {MAX_SOURCE}",
                source.len()
            )));
        }
        let source = source.to_string();
        let checker = PartitionBuilder::new(state.schema.clone());
        let (seen, spool, applied) = Default::default();
        let left_out = 0;
        Ok(Progress { source, is_whole, checker, seen, spool, applied, removals, left_out })
    }

    /// Sets or removes the document of a key.
    pub(super) fn add_change(
        &mut self,
        state: &State,
        key: &[u8],
        document: Option<&Document>,
    ) -> Result<()> {
        let change = check_change(state, &mut self.checker, key, document)?;
        let stored = state.compare(&self.source, &change)?;
        let is_first = self.seen.insert(change.id);
        let applied = &mut self.applied;
        match (stored, document) {
            _ if !is_first => applied.repeated += 1,
            (Stored::Absent, Some(_)) => applied.added += 1,
            (Stored::Different, Some(_)) => applied.updated += 1,
            (Stored::Same, Some(_)) | (Stored::Absent, None) => applied.unchanged += 1,
            (_, None) => applied.removed += 1,
        }
        let is_same = stored == Stored::Same || (stored == Stored::Absent && document.is_none());
        // A repeated key is spooled in any case, because it replaces an earlier change.
        if is_first && is_same {
            return Ok(());
        }
        self.spool.push(&state.log, &self.source, change)
    }

    /// See [`Feed::finish`].
    pub(super) fn finish(&mut self, state: &mut State) -> Result<Applied> {
        let source = &self.source;
        if self.is_whole {
            let (missing, all) = state.missing(source, &self.seen)?;
            self.removals.check(source, missing.len(), all, self.left_out)?;
            for id in missing {
                self.applied.removed += 1;
                let change = Change { id, key: stored_key(&state.log, id)?, document: None };
                self.spool.push(&state.log, source, change)?;
            }
        }
        let dirty = match self.spool.finish(&state.log, source)? {
            0 => {
                let changes = std::mem::take(&mut self.spool.changes);
                apply_changes(state, source, changes, None, WriteOptions::sync())?
            }
            chunks => apply_chunks(state, chunks)?,
        };
        compact_source_list(&state.log, source)?;
        self.applied.dirty = dirty.into_iter().collect();
        Ok(std::mem::take(&mut self.applied))
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        // Best effort: the next feed or the next opening removes what remains.
        let _ = drop_chunks(&self.state.log);
    }
}

/// Applies changes in one batch, which also deletes `chunk`.
fn apply_changes(
    state: &mut State,
    source: &str,
    changes: Vec<Change>,
    chunk: Option<u32>,
    options: WriteOptions,
) -> Result<BTreeSet<String>> {
    let mut edit = Edit::new(state, source);
    changes.into_iter().try_for_each(|change| edit.add(change))?;
    if let Some(chunk) = chunk {
        edit.batch.push_delete(chunk_key(chunk));
    }
    edit.write(options)
}

/// Applies those chunks of a complete feed that are not applied yet.
fn apply_chunks(state: &mut State, chunks: u32) -> Result<BTreeSet<String>> {
    let mut dirty = BTreeSet::new();
    for n in 0..chunks {
        if let Some(chunk) = state.log.get_with(chunk_key(n), decode_chunk)? {
            let (source, changes) = chunk?;
            let options = WriteOptions::default();
            dirty.append(&mut apply_changes(state, &source, changes, Some(n), options)?);
        }
    }
    state.log.delete(FEED_COMPLETE)?;
    Ok(dirty)
}

/// Completes an interrupted feed, or drops it if it was not complete.
pub(super) fn resume(state: &mut State) -> Result<()> {
    match state.log.get_with(FEED_COMPLETE, |bytes| u32_at(bytes, 0))? {
        Some(chunks) => apply_chunks(state, chunks).map(drop),
        None => drop_chunks(&state.log),
    }
}

/// Compacts the list of a source, if that is due.
fn compact_source_list(log: &LogStore, source: &str) -> Result<()> {
    let list = source_list(source);
    if !lists::needs_compaction(log, &list)? {
        return Ok(());
    }
    let mut batch = Batch::new();
    lists::compact(log, &mut batch, &list, &lists::read(log, &list)?)?;
    log.write(&batch)
}

/// The changes of a feed in progress: in memory while they are few, otherwise in the log.
#[derive(Default)]
struct ChangeSpool {
    changes: Vec<Change>,
    bytes: usize,
    chunks: u32,
}

impl ChangeSpool {
    fn push(&mut self, log: &LogStore, source: &str, change: Change) -> Result<()> {
        self.bytes += change.len();
        self.changes.push(change);
        if self.bytes >= CHUNK_BYTES { self.write(log, source) } else { Ok(()) }
    }

    fn write(&mut self, log: &LogStore, source: &str) -> Result<()> {
        log.put(chunk_key(self.chunks), encode_chunk(source, &self.changes))?;
        self.changes.clear();
        (self.bytes, self.chunks) = (0, self.chunks + 1);
        Ok(())
    }

    /// Returns the number of chunks. If there are any, they contain all changes, and the feed is
    /// recorded as complete, durably.
    fn finish(&mut self, log: &LogStore, source: &str) -> Result<u32> {
        if self.chunks == 0 {
            return Ok(0);
        }
        if !self.changes.is_empty() {
            self.write(log, source)?;
        }
        let mut chunks = Encoder::default();
        chunks.u32(self.chunks);
        log.put_with(FEED_COMPLETE, &chunks.0, WriteOptions::sync())?;
        Ok(self.chunks)
    }
}

/// Removes the chunks of a feed, unless it is complete.
pub(super) fn drop_chunks(log: &LogStore) -> Result<()> {
    if log.contains(FEED_COMPLETE)? {
        return Ok(());
    }
    let mut n = 0;
    while log.delete(chunk_key(n))? {
        n += 1;
    }
    Ok(())
}

/// Checks the key and document of a change, and encodes it.
fn check_change(
    state: &State,
    checker: &mut PartitionBuilder,
    key: &[u8],
    document: Option<&Document>,
) -> Result<Change> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Error::invalid(format!(
            "a key has {} bytes; it may have 1 to {MAX_KEY}",
            key.len()
        )));
    }
    let encode = |document: &Document| {
        checker.check_only(document).and_then(|()| encode_document(&state.schema, document))
    };
    let document = document.map(encode).transpose().map_err(|e| {
        Error::invalid(format!("document `{}`: {}", String::from_utf8_lossy(key), e.message()))
    })?;
    Ok(Change { id: id_of(key), key: key.to_vec(), document })
}

fn stored_key(log: &LogStore, id: Id) -> Result<Vec<u8>> {
    let key =
        log.get_with(entry_key(id), |bytes| read_entry(bytes, |_, _| ()).map(<[u8]>::to_vec))?;
    key.ok_or_else(|| inconsistent("a document of a source's list is missing"))?
}
