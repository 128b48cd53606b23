//! Feeds and single changes: what differs from what is known goes into the log.

use super::edit::Edit;
use super::format::{
    Change, Id, MAX_KEY, MAX_SOURCE, WHOLE, chunk_key, decode_chunk, encode_chunk, encode_document,
    entry_key, id_of, read_entry, source_list,
};
use super::state::{Known, State};
use super::{Indexer, contradiction, durable, lists};
use crate::bytes::int::{Encoder, u32_at};
use crate::log::{Batch, LogStore, WriteOptions};
use crate::search::{Document, PartitionBuilder};
use crate::{Error, Result};
use std::collections::{BTreeSet, HashSet};

/// Bytes of changes that are kept in memory; more go to the log and come back.
const CHUNK: usize = if cfg!(test) { 2 << 10 } else { 4 << 20 };

/// What a feed or some changes did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Keys that the source did not have before.
    pub added: u64,
    /// Keys whose document is another one now.
    pub updated: u64,
    /// Keys that the source has no more.
    pub removed: u64,
    /// Keys whose document is the same.
    pub unchanged: u64,
    /// Documents whose key came before in the same feed; the last one counts.
    pub repeated: u64,
    /// Partitions in which something changed, ascending.
    pub dirty: Vec<String>,
}

/// How many of its source's documents a complete feed may remove. A feed that would remove more is
/// refused and changes nothing: it may have been cut off, or be single changes by mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Removals {
    /// Half of them, or 100 if that is more; none if rows were left out of the feed
    /// ([`Feed::left_out`]), which may be those of the documents that would go.
    #[default]
    Guarded,
    /// This share of them, from 0 to 1, whether rows were left out or not.
    Share(f64),
    /// All of them.
    All,
}

/// So many documents may go in any case, unless the caller says otherwise.
const FEW: usize = 100;

impl Removals {
    /// An error unless a feed of `source` that left out so many rows may remove `gone` of `all`
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
                gone <= FEW || gone <= all - gone,
                format!("more than half of them, and more than {FEW}, may not go unasked"),
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

/// A feed on its way in, or single changes: see [`Indexer::feed`] and [`Indexer::changes`]. Nothing
/// is changed before [`Feed::finish`]; dropping it leaves everything as it was.
///
/// Takes memory of about 32 bytes for each document, and some MiB.
pub struct Feed<'a> {
    indexer: &'a mut Indexer,
    source: &'a str,
    /// What is not in it goes.
    is_whole: bool,
    checker: PartitionBuilder,
    seen: HashSet<Id>,
    spool: Spool,
    applied: Applied,
    removals: Removals,
    left_out: u64,
}

impl Feed<'_> {
    /// How many documents the feed may remove; without this what [`super::Options`] say. Single
    /// changes are not limited.
    pub fn removals(mut self, removals: Removals) -> Self {
        self.removals = removals;
        self
    }

    /// Takes note that the caller left so many more rows out because they could not be used. Their
    /// documents are missing in the feed, and so would be removed: see [`Removals::Guarded`].
    pub fn left_out(&mut self, rows: u64) {
        self.left_out += rows;
    }

    /// Takes the document of a key, 1 to 65,535 bytes. After an error of kind `InvalidArgument`
    /// (it breaks the schema, say) the feed is as before and may go on.
    pub fn add(&mut self, key: impl AsRef<[u8]>, document: &Document) -> Result<()> {
        self.take(key.as_ref(), Some(document))
    }

    /// Takes note that the source has no document of this key. Not needed in a whole feed.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.take(key.as_ref(), None)
    }

    fn take(&mut self, key: &[u8], document: Option<&Document>) -> Result<()> {
        let state = &self.indexer.state;
        let change = change_of(state, &mut self.checker, key, document)?;
        let known = state.compare(self.source, &change)?;
        let is_first = self.seen.insert(change.id);
        let applied = &mut self.applied;
        match (known, document) {
            _ if !is_first => applied.repeated += 1,
            (Known::Absent, Some(_)) => applied.added += 1,
            (Known::Other, Some(_)) => applied.updated += 1,
            (Known::Same, Some(_)) | (Known::Absent, None) => applied.unchanged += 1,
            (_, None) => applied.removed += 1,
        }
        if is_first && (known == Known::Same || (known == Known::Absent && document.is_none())) {
            return Ok(());
        }
        self.spool.push(&state.log, self.source, change)
    }

    /// Makes the changes, all of them; when it returns they survive a power cut. `InvalidArgument`,
    /// and nothing is changed, if a complete feed would remove more than it may. (After an error of
    /// the disk the next call or opening may find that the feed was whole already, and goes on
    /// with it.)
    pub fn finish(mut self) -> Result<Applied> {
        let log = &self.indexer.state.log;
        if self.is_whole {
            let (missing, all) = self.indexer.state.missing(self.source, &self.seen)?;
            self.removals.check(self.source, missing.len(), all, self.left_out)?;
            for id in missing {
                self.applied.removed += 1;
                let change = Change { id, key: stored_key(log, id)?, document: None };
                self.spool.push(log, self.source, change)?;
            }
        }
        let dirty = match self.spool.finish(log, self.source)? {
            0 => {
                let changes = std::mem::take(&mut self.spool.changes);
                self.indexer.play(self.source, changes, None, durable())?
            }
            chunks => self.indexer.play_chunks(chunks)?,
        };
        self.indexer.fold_source(self.source)?;
        self.applied.dirty = dirty.into_iter().collect();
        Ok(std::mem::take(&mut self.applied))
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        // As far as that is possible now; the next opening does it otherwise.
        let _ = drop_chunks(&self.indexer.state.log);
    }
}

impl Indexer {
    /// Begins a new version of everything that a source, whose name has 1 to 255 bytes, has to say:
    /// keys that are new will be added, changed ones updated, and those that are not in it removed,
    /// if that are not too many ([`Feed::removals`]).
    pub fn feed<'a>(&'a mut self, source: &'a str) -> Result<Feed<'a>> {
        self.begin(source, true)
    }

    /// Begins single changes of a source: what is not in them stays.
    pub fn changes<'a>(&'a mut self, source: &'a str) -> Result<Feed<'a>> {
        self.begin(source, false)
    }

    fn begin<'a>(&'a mut self, source: &'a str, is_whole: bool) -> Result<Feed<'a>> {
        if source.is_empty() || source.len() > MAX_SOURCE {
            return Err(Error::invalid(format!(
                "the name of a source has {} bytes; it may have 1 to {MAX_SOURCE}",
                source.len()
            )));
        }
        self.settle()?;
        let checker = PartitionBuilder::new(self.state.schema.clone());
        let (seen, spool, applied) = Default::default();
        let removals = self.options.removals;
        let (indexer, left_out) = (self, 0);
        Ok(Feed { indexer, source, is_whole, checker, seen, spool, applied, removals, left_out })
    }

    /// Takes a new version of a feed: [`Indexer::feed`] of these documents by key. An item that is
    /// an error, or that breaks the schema, leaves the version before as it was, and so does a feed
    /// that would remove more than [`super::Options`] allow.
    ///
    /// Nothing is published: see [`Indexer::publish`].
    pub fn apply<K: AsRef<[u8]>>(
        &mut self,
        source: &str,
        documents: impl IntoIterator<Item = Result<(K, Document)>>,
    ) -> Result<Applied> {
        let mut feed = self.feed(source)?;
        for item in documents {
            let (key, document) = item?;
            feed.add(key, &document)?;
        }
        feed.finish()
    }

    /// Sets the document of a key; `false` if the source has this very document already.
    pub fn upsert(
        &mut self,
        source: &str,
        key: impl AsRef<[u8]>,
        document: &Document,
    ) -> Result<bool> {
        let mut changes = self.changes(source)?;
        changes.add(key, document)?;
        Ok(changes.finish()?.unchanged == 0)
    }

    /// Removes the document of a key; `false` if the source has none.
    pub fn delete(&mut self, source: &str, key: impl AsRef<[u8]>) -> Result<bool> {
        let mut changes = self.changes(source)?;
        changes.remove(key)?;
        Ok(changes.finish()?.unchanged == 0)
    }

    /// Makes changes in one batch, in which `chunk` goes.
    fn play(
        &mut self,
        source: &str,
        changes: Vec<Change>,
        chunk: Option<u32>,
        options: WriteOptions,
    ) -> Result<BTreeSet<String>> {
        let mut edit = Edit::new(&mut self.state, source);
        changes.into_iter().try_for_each(|change| edit.change(change))?;
        if let Some(chunk) = chunk {
            edit.batch.delete(&chunk_key(chunk));
        }
        edit.write(options)
    }

    /// Makes the changes of a feed that is whole in the log, as far as they are not made yet.
    fn play_chunks(&mut self, chunks: u32) -> Result<BTreeSet<String>> {
        let mut dirty = BTreeSet::new();
        for n in 0..chunks {
            if let Some(chunk) = self.state.log.get_with(&chunk_key(n), decode_chunk)? {
                let (source, changes) = chunk?;
                dirty.append(&mut self.play(&source, changes, Some(n), WriteOptions::default())?);
            }
        }
        self.state.log.delete(WHOLE)?;
        Ok(dirty)
    }

    /// Finishes or drops the feed that was being taken when the process died.
    pub(super) fn resume(&mut self) -> Result<()> {
        match self.state.log.get_with(WHOLE, |bytes| u32_at(bytes, 0))? {
            Some(chunks) => self.play_chunks(chunks).map(drop),
            None => drop_chunks(&self.state.log),
        }
    }

    /// Shortens the list of a source, if that is due.
    fn fold_source(&self, source: &str) -> Result<()> {
        let (log, list) = (&self.state.log, source_list(source));
        if !lists::is_long(log, &list)? {
            return Ok(());
        }
        let mut batch = Batch::new();
        lists::fold(log, &mut batch, &list, &lists::read(log, &list)?)?;
        log.write(&batch)
    }
}

/// Changes of a feed that is being read: in memory while they are few, else in the log.
#[derive(Default)]
struct Spool {
    changes: Vec<Change>,
    bytes: usize,
    chunks: u32,
}

impl Spool {
    fn push(&mut self, log: &LogStore, source: &str, change: Change) -> Result<()> {
        self.bytes += change.len();
        self.changes.push(change);
        if self.bytes >= CHUNK { self.write(log, source) } else { Ok(()) }
    }

    fn write(&mut self, log: &LogStore, source: &str) -> Result<()> {
        log.put(&chunk_key(self.chunks), &encode_chunk(source, &self.changes))?;
        self.changes.clear();
        (self.bytes, self.chunks) = (0, self.chunks + 1);
        Ok(())
    }

    /// The number of chunks. If there are any, all changes are in them, and the feed is whole from
    /// the return on, also after a power cut.
    fn finish(&mut self, log: &LogStore, source: &str) -> Result<u32> {
        if self.chunks == 0 {
            return Ok(0);
        }
        if !self.changes.is_empty() {
            self.write(log, source)?;
        }
        let mut chunks = Encoder::default();
        chunks.u32(self.chunks);
        log.put_with(WHOLE, &chunks.0, durable())?;
        Ok(self.chunks)
    }
}

/// Removes the chunks of a feed that is not whole.
fn drop_chunks(log: &LogStore) -> Result<()> {
    if log.contains(WHOLE)? {
        return Ok(());
    }
    let mut n = 0;
    while log.delete(&chunk_key(n))? {
        n += 1;
    }
    Ok(())
}

/// Checks a change of a key whole.
fn change_of(
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
        log.get_with(&entry_key(id), |bytes| read_entry(bytes, |_, _| ()).map(<[u8]>::to_vec))?;
    key.ok_or_else(|| contradiction("a document of a source's list is missing"))?
}
