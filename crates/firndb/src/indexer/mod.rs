//! Indexer: feeds of documents -> a log -> a collection, of which only what changed is rebuilt.
//!
//! A feed is everything that one source has to say: documents by key. [`Indexer::feed`] takes a new
//! version of it, [`Indexer::changes`] single changes, and [`Indexer::publish`] rebuilds the
//! partitions that are dirty since. All state is in a LogStore beside the collection: `format.rs`
//! has its records.
//!
//! Write path
//! 1. `Feed::add` compares each document with the stored one: `State::compare`. What differs, and
//!    in `Feed::finish` by `State::missing` what is gone, becomes a list of changes.
//! 2. A list that is short is played at once. A longer one is written to the log in chunks
//!    (`Spool::push`), then one record says that the feed is whole (`Spool::finish`).
//! 3. `Indexer::play` turns changes into one batch (`Edit::change`, `Edit::write`): entries by key,
//!    notes to the lists of sources and partitions (`lists::note`), and the names of dirty
//!    partitions. From here on the change is made.
//! 4. `Indexer::publish` makes the log durable, rebuilds dirty partitions in a few threads
//!    (`build_partition`), puts them into the collection in one change, and then takes their names
//!    from the list of dirty ones.
//!
//! After a crash `Indexer::open` plays what is left of a feed that was whole (`Indexer::resume`),
//! or drops what there is of one that was not. A partition is clean only once the collection that
//! has it is durable, so a publish that was cut off is made again, with the same bytes. The log has
//! the content id of the set that it published, and, before the next one becomes visible, of that.
//! If the collection has neither (`State::knows`), all of it is made again.
//!
//! Several sources may have a document of the same key. The one of the source whose name is the
//! smallest is published, the others wait for it to go: the result depends on what the feeds
//! contain, never on the order in which they came.

mod partitioning;
mod format;
mod lists;
mod state;
mod edit;
mod apply;
mod publish;
mod repartition;
mod backup;
#[cfg(test)]
mod tests;

pub use apply::{Applied, Feed, Removals};
pub use backup::Backup;
pub use format::{MAX_KEY, MAX_SOURCE};
pub use partitioning::{MAX_PARTITIONS, Partitioning, partition_name};
pub use publish::Published;

use crate::disk::{self, DiskRef};
use crate::log::{self, LogStore, WriteOptions};
use crate::search::{Collection, Schema};
use crate::{Error, ErrorKind, Result};
use state::State;
use std::path::{Path, PathBuf};

/// The directory of the collection in that of the index.
pub(crate) const COLLECTION: &str = "collection";
/// The directory of the log in that of an index.
pub(crate) const LOG: &str = "log";

/// How an index is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory that rebuilding partitions may take, all threads together. Default: 1 GiB.
    pub memory: usize,
    /// Threads that rebuild partitions; 0 is as many as there are processors. Default: 0.
    pub threads: usize,
    /// How many documents a feed may remove, unless [`Feed::removals`] says otherwise.
    pub removals: Removals,
    /// How the log is opened; `create` and `read_only` are not looked at.
    pub log: log::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: 1 << 30,
            threads: 0,
            removals: Removals::default(),
            log: log::Options::default(),
        }
    }
}

/// An index in a directory: documents of feeds in `log/`, and what is published in `collection/`.
///
/// One process has it open at a time; the collection may be read by any number. Every call that
/// changes something returns when the change survives a power cut, and makes all of it or nothing.
pub struct Indexer {
    disk: DiskRef,
    dir: PathBuf,
    options: Options,
    state: State,
    collection: Collection,
    /// The collection was missing, or another one, when the index was opened.
    remade: bool,
}

/// What is in an index: [`Indexer::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Names of the sources and the numbers of their documents.
    pub sources: Vec<(String, u64)>,
    /// Partitions that changed and were not published since, ascending.
    pub dirty: Vec<String>,
    /// Partitions, documents and bytes of the collection, and the number of its current set.
    pub partitions: u64,
    /// Documents that are published.
    pub documents: u64,
    /// Bytes of the partitions' files.
    pub bytes: u64,
    /// Number of the published set; it grows by 1 with each publish that changes something.
    pub version: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
}

impl Indexer {
    /// Opens the index in this directory, or creates one.
    ///
    /// The schema must say which fields there are (it is not dynamic). `InvalidArgument` if the
    /// index has another schema or partitioning; see [`Indexer::repartition`] for the latter.
    /// `Locked` if another process has it open.
    pub fn open(
        dir: impl AsRef<Path>,
        schema: Schema,
        partitioning: Partitioning,
        options: Options,
    ) -> Result<Indexer> {
        Self::open_on(disk::os(), dir.as_ref(), Some((schema, partitioning)), options)
    }

    /// Opens the index in this directory with the schema and the partitioning that it has;
    /// `NotFound` if there is none.
    pub fn open_existing(dir: impl AsRef<Path>, options: Options) -> Result<Indexer> {
        Self::open_on(disk::os(), dir.as_ref(), None, options)
    }

    pub(crate) fn open_on(
        disk: DiskRef,
        dir: &Path,
        wanted: Option<(Schema, Partitioning)>,
        options: Options,
    ) -> Result<Indexer> {
        if let Some((schema, partitioning)) = &wanted {
            partitioning.check(schema)?;
        }
        let log_options =
            log::Options { create: wanted.is_some(), read_only: false, ..options.log.clone() };
        let log = LogStore::open_on(disk.clone(), &dir.join(LOG), log_options)?;
        disk::remove_leftovers(&*disk, dir)?;
        let state = State::load(log, wanted).map_err(|e| e.in_file(dir))?;
        let path = dir.join(COLLECTION);
        let (collection, is_there) = match Collection::open_on(disk.clone(), &path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                (Collection::create_owned_on(disk.clone(), &path)?, state.is_new()?)
            }
            opened => (opened?, true),
        };
        collection.mark()?;
        let remade = !is_there || !state.knows(&collection)?;
        if remade {
            // What the log has must all be published again; also if this is cut off.
            state.begin_repartition(&state.partitioning)?;
        }
        let dir = dir.to_path_buf();
        let mut indexer = Indexer { disk, dir, options, state, collection, remade };
        indexer.settle()?;
        Ok(indexer)
    }

    /// Finishes what a crash or an error of the disk cut off.
    fn settle(&mut self) -> Result<()> {
        self.resume()?;
        self.resume_repartition()
    }

    /// The collection, as it was published last.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Whether the collection was missing when the index was opened, or was not, by its content,
    /// the one that the index published last: an older or newer copy, that of another index, or one
    /// that somebody changed. Then the next publish makes all of it again, and removes what else is
    /// in it.
    pub fn is_remade(&self) -> bool {
        self.remade
    }

    /// The directory of the index.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The schema of the documents.
    pub fn schema(&self) -> &Schema {
        &self.state.schema
    }

    /// How documents come to partitions.
    pub fn partitioning(&self) -> &Partitioning {
        &self.state.partitioning
    }

    /// What is in the index. Takes time in proportion to the number of keys: about 10 ms a million.
    pub fn status(&self) -> Result<Status> {
        let names = self.state.sources.iter();
        let count = |name: &String| Ok((name.clone(), self.state.source_ids(name)?.len() as u64));
        let sources = names.map(count).collect::<Result<Vec<_>>>()?;
        let partitions = self.collection.reader().partitions();
        Ok(Status {
            sources: sources.into_iter().filter(|(_, documents)| *documents > 0).collect(),
            dirty: self.state.dirty.iter().cloned().collect(),
            partitions: partitions.len() as u64,
            documents: partitions.iter().map(|part| u64::from(part.documents)).sum(),
            bytes: partitions.iter().map(|part| part.bytes).sum(),
            version: self.collection.version(),
            log_bytes: self.state.log.stats().disk_bytes,
        })
    }

    /// Closes the log, and says whether that worked. Dropping an index does the same without a
    /// word.
    pub fn close(self) -> Result<()> {
        self.state.log.close()
    }
}

/// Writes that are acknowledged return when they are durable.
fn durable() -> WriteOptions {
    WriteOptions::sync()
}

/// The log contradicts itself.
fn contradiction(message: &str) -> Error {
    Error::corrupt(format!("the log of the index contradicts itself: {message}"))
}
