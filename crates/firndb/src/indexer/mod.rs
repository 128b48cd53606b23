//! Indexer: turns feeds of documents into a collection, and rebuilds only what changed.
//!
//! A *source* delivers documents by key. [`Indexer::feed`] takes a new version of everything that a
//! source has: new keys are added, changed documents updated, and absent keys removed.
//! [`Indexer::changes`], [`Indexer::upsert`] and [`Indexer::delete`] make single changes. The
//! documents are kept in a log, and the indexer tracks which partitions of the collection they
//! belong to. [`Indexer::publish`] rebuilds the partitions with changes and publishes them as one
//! change of the collection.
//!
//! ```
//! use firndb::indexer::{Indexer, Options, Partitioning};
//! use firndb::search::{Document, Field, Roles, Schema, Type, query::eq};
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-doc-indexer-{}", std::process::id()));
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//!
//! fn example(dir: &std::path::Path) -> firndb::Result<()> {
//!     let schema = Schema::new([Field::new("city", Type::String, Roles::FULL)])?;
//!     let by_city = Partitioning::by_field("city"); // or by_hash(64), by_field_and_hash(..)
//!     let mut index = Indexer::open(dir, schema, by_city, Options::default())?;
//!
//!     // A feed: all documents of the source `rooms`, by key.
//!     let room = |city: &str| Document::new().set("city", city);
//!     let mut feed = index.feed("rooms")?;
//!     feed.add("room 1", &room("Oslo"))?;
//!     feed.add("room 2", &room("Bergen"))?;
//!     let applied = feed.finish()?; // all or nothing; survives power loss from here on
//!     assert_eq!((applied.added, applied.removed), (2, 0));
//!     assert_eq!(applied.dirty, ["Bergen", "Oslo"]); // the partitions with changes
//!
//!     index.publish()?; // now readers of the collection see it
//!     assert_eq!(index.collection().reader().count(&eq("city", "Oslo"))?, 1);
//!
//!     // One more document. Only the partition `Oslo` is rebuilt.
//!     index.upsert("rooms", "room 3", &room("Oslo"))?;
//!     assert_eq!(index.publish()?.rebuilt, ["Oslo"]);
//!     index.close()?;
//!     Ok(())
//! }
//! ```
//!
//! Several sources may have a document for the same key. The document of the source with the
//! smallest name is published, and the others wait until it is removed. So the collection depends
//! on the contents of the sources, never on the order in which they arrived.
//!
//! # Durability
//!
//! [`Feed::finish`], [`Indexer::upsert`] and [`Indexer::delete`] are atomic, and survive power loss
//! once they return. After a crash, [`Indexer::open`] completes a feed that was fully received, and
//! drops one that was not. A partition keeps its changes on record until the collection with them
//! is durable, so an interrupted publication is repeated and gives the same bytes. If the
//! collection was replaced or changed by another program, the next publication rebuilds all of it
//! ([`Indexer::is_remade`]).
//!
//! # Concurrency
//!
//! One process at a time opens an index. Any number of processes read its collection meanwhile:
//! `Collection::open(dir.join("collection"))`. Only the index changes it; other changes are
//! refused. [`Indexer::publish_to`] also publishes to a [`Catalog`].
//!
//! # Errors
//!
//! | [`ErrorKind`] | cause |
//! |---|---|
//! | `InvalidArgument` | a document does not fit the schema; the index has another schema |
//! | `InvalidArgument` | a feed would remove too many documents ([`Removals`]) |
//! | `InvalidArgument` | a partition does not fit into the memory of its thread |
//! | `NotFound` | [`Indexer::open_existing`] of a directory without an index |
//! | `AlreadyExists` | the directory of a backup has other contents; a publisher was faster |
//! | `Locked` | another process has the index open |
//! | `Corrupt` | a damaged file |
//! | `Failed` | the collection was replaced while the index was open |
//!
//! `Io`, `UnsupportedVersion` and `Failed` after a failed write mean the same as in
//! [`log`] and [`search`](crate::search).
//!
//! # Cost
//!
//! | what | cost |
//! |---|---|
//! | an unchanged document of a feed | one lookup in the log |
//! | a changed document | one record in the log, or two in feeds with over 4 MiB of changes |
//! | a publication | reads and rebuilds the partitions with changes, and no others |
//! | memory | about 10 bytes per key, as in [`log`](crate::log#cost) |
//! | a feed | 32 bytes of memory per document, and a few MiB |
//! | a publication | [`Options::memory_limit`], 1 GiB by default, shared by its threads |
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | a key; the name of a source | 1 to 65,535 bytes ([`MAX_KEY`]); 1 to 255 ([`MAX_SOURCE`]) |
//! | partitions by hash, per value of the field | [`MAX_PARTITIONS`] |
//! | all partitions | 32,000 ([`search::MAX_PARTITIONS`](crate::search::MAX_PARTITIONS)) |
//! | fields to partition by | single-valued, of type bool, i64, u64 or string |
//! | a feed | removes at most half of the documents of its source, or 100, unless allowed |

mod partitioning;
mod format;
mod assign;
mod lists;
mod state;
mod edit;
mod repartition;
mod apply;
mod owned_feed;
mod publish;
mod backup;
#[cfg(test)]
mod tests;

pub use apply::{Applied, Feed, Removals};
pub use backup::Backup;
pub use format::{MAX_KEY, MAX_SOURCE};
pub use owned_feed::{NotBegun, OwnedFeed};
pub use partitioning::{MAX_PARTITIONS, Partitioning, partition_name};
pub use publish::Publication;

use crate::catalog::{self, Catalog, PublishOptions};
use crate::disk::{self, DiskRef};
use crate::log::{self, LogStore};
use crate::search::{Collection, Document, Schema};
use crate::{ErrorKind, Result};
use state::State;
use std::path::{Path, PathBuf};

/// The directory of the collection in that of an index.
pub(crate) const COLLECTION: &str = "collection";
/// The directory of the log in that of an index.
pub(crate) const LOG: &str = "log";

/// How an index is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    pub(crate) memory: usize,
    pub(crate) threads: usize,
    pub(crate) removals: Removals,
    pub(crate) log: log::Options,
}

impl Options {
    /// The default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Bytes of memory for rebuilding partitions, shared by all threads. Default: 1 GiB.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Threads that rebuild partitions; 0 is the number of processors. Default: 0.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many documents a feed may remove, unless [`Feed::removals`] sets another limit.
    pub fn removals(mut self, removals: Removals) -> Self {
        self.removals = removals;
        self
    }

    /// How the log is opened. `create` and `read_only` are ignored.
    pub fn log(mut self, options: log::Options) -> Self {
        self.log = options;
        self
    }
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

/// An index in a directory: the documents of all sources in `log/`, and the published collection in
/// `collection/`.
///
/// One process at a time can open an index; any number of processes can read its collection. Every
/// call that changes something is atomic. Once it returns, the change survives power loss.
pub struct Indexer {
    disk: DiskRef,
    dir: PathBuf,
    options: Options,
    state: State,
    collection: Collection,
    /// The collection was missing or not the published one when the index was opened.
    remade: bool,
}

/// The contents of an index: [`Indexer::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Names of the sources, and the number of documents of each.
    pub sources: Vec<(String, u64)>,
    /// Partitions with changes that are not published, ascending.
    pub dirty: Vec<String>,
    /// Partitions of the collection.
    pub partitions: u64,
    /// Published documents.
    pub documents: u64,
    /// Bytes of the files of the partitions.
    pub bytes: u64,
    /// Number of the published set. Grows by 1 with each publication that changes something.
    pub version: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
}

impl Indexer {
    /// Opens the index in this directory, or creates it.
    ///
    /// The schema must name its fields (it cannot be dynamic). `InvalidArgument` if the index has
    /// another schema or partitioning; [`Indexer::repartition`] changes the latter. `Locked` if
    /// another process has the index open.
    pub fn open(
        dir: impl AsRef<Path>,
        schema: Schema,
        partitioning: Partitioning,
        options: Options,
    ) -> Result<Indexer> {
        Self::open_on(disk::os(), dir.as_ref(), Some((schema, partitioning)), options)
    }

    /// Opens the index in this directory with the schema and partitioning that it has. `NotFound`
    /// if there is none.
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
        let (collection, is_known) = match Collection::open_on(disk.clone(), &path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                (Collection::create_owned_on(disk.clone(), &path)?, state.is_new()?)
            }
            opened => (opened?, true),
        };
        collection.mark()?;
        let remade = !is_known || !state.has_published(&collection)?;
        if remade {
            // Recorded in the log, so that a crash does not lose the need to publish everything.
            state.begin_repartition(&state.partitioning)?;
        }
        let dir = dir.to_path_buf();
        let mut indexer = Indexer { disk, dir, options, state, collection, remade };
        indexer.finish_interrupted()?;
        Ok(indexer)
    }

    /// Completes what a crash or an I/O error has interrupted.
    fn finish_interrupted(&mut self) -> Result<()> {
        apply::resume(&mut self.state)?;
        repartition::resume(&mut self.state, &self.collection)
    }

    /// Begins a new version of a source. Keys that are new are added, changed documents updated,
    /// and keys absent from the feed removed, within the limit of [`Feed::removals`]. The name of a
    /// source has 1 to [`MAX_SOURCE`] bytes. Nothing changes before [`Feed::finish`].
    pub fn feed(&mut self, source: &str) -> Result<Feed<'_>> {
        self.finish_interrupted()?;
        Feed::new(&mut self.state, source, true, self.options.removals)
    }

    /// Begins single changes of a source. Keys that they do not name stay as they are. Nothing
    /// changes before [`Feed::finish`].
    pub fn changes(&mut self, source: &str) -> Result<Feed<'_>> {
        self.finish_interrupted()?;
        Feed::new(&mut self.state, source, false, self.options.removals)
    }

    /// Applies a new version of a source: [`Indexer::feed`] with these documents by key. If an item
    /// is an error or breaks the schema, or if the feed would remove more documents than
    /// [`Options`] allow, the source stays as it was.
    ///
    /// Does not publish; see [`Indexer::publish`].
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

    /// Sets the document of a key. Returns `false` if the source already has this document.
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

    /// Removes the document of a key. Returns `false` if the source has none.
    pub fn delete(&mut self, source: &str, key: impl AsRef<[u8]>) -> Result<bool> {
        let mut changes = self.changes(source)?;
        changes.remove(key)?;
        Ok(changes.finish()?.unchanged == 0)
    }

    /// Rebuilds the dirty partitions and publishes them as one set of the collection. Once this
    /// returns, the set is durable and new readers get it.
    ///
    /// `Failed`, and nothing is published, if the collection was changed or replaced since the
    /// index was opened. A partition must fit into the memory of one thread
    /// ([`Options::memory_limit`]); if one does not, nothing is published.
    pub fn publish(&mut self) -> Result<Publication> {
        self.finish_interrupted()?;
        publish::publish(self)
    }

    /// Publishes with [`Indexer::publish`], and then publishes the collection as the next version
    /// of `name` in a catalog. The second result is `None` if the newest version already is this
    /// collection. After a crash between the two steps, the next call repeats the second.
    ///
    /// `AlreadyExists` if another publisher was faster. The collection has the changes even then,
    /// and the call can be repeated.
    ///
    /// ```
    /// use firndb::catalog::Catalog;
    /// use firndb::indexer::Indexer;
    ///
    /// /// Publishes all changes. Returns the number of the catalog's new version, if there is one.
    /// fn publish(index: &mut Indexer, catalog: &Catalog) -> firndb::Result<Option<u64>> {
    ///     let (published, version) = index.publish_to(catalog, "offers")?;
    ///     println!("{} partitions rebuilt", published.rebuilt.len());
    ///     Ok(version.map(|published| published.version.number))
    /// }
    /// ```
    pub fn publish_to(
        &mut self,
        catalog: &Catalog,
        name: &str,
    ) -> Result<(Publication, Option<catalog::Published>)> {
        let published = self.publish()?;
        let collection = self.dir.join(COLLECTION);
        let version = catalog.publish_if_changed(name, &collection, &PublishOptions::default())?;
        Ok((published, version))
    }

    /// Assigns all documents to partitions anew, by the same or another partitioning. Reads every
    /// document. Afterwards every partition is dirty; the published ones serve readers until
    /// [`Indexer::publish`].
    pub fn repartition(&mut self, partitioning: Partitioning) -> Result<()> {
        partitioning.check(&self.state.schema)?;
        self.finish_interrupted()?;
        self.state.begin_repartition(&partitioning)?;
        repartition::resume(&mut self.state, &self.collection)
    }

    /// Makes a backup in a directory that is new or empty, or that has an earlier backup of this
    /// index, which is updated. The backup contains all changes that were applied before the call,
    /// published or not, and the published collection. It is durable when this returns, and opens
    /// like any index. Files are hard-linked where possible, otherwise copied.
    ///
    /// `AlreadyExists`, and nothing is changed, if the directory has other contents, contains the
    /// index or is inside it, or has a backup that was opened and changed since. After any other
    /// error, and after a crash, the backup is either the earlier or the new one. Its collection
    /// may be missing or older; it is rebuilt when the backup is opened and published.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        backup::backup(self, to.as_ref())
    }

    /// The collection, as published last.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Whether the collection was missing when the index was opened, or its content was not what
    /// the index had published last: an older or newer copy, one of another index, or one that was
    /// changed from outside. Then the next publication rebuilds all of it, and removes partitions
    /// that the index does not have.
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

    /// How documents are assigned to partitions.
    pub fn partitioning(&self) -> &Partitioning {
        &self.state.partitioning
    }

    /// Counts what is in the index. Takes time proportional to the number of keys: about 10 ms per
    /// million.
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

    /// Closes the log and reports errors. Dropping an index closes the log and ignores errors.
    pub fn close(self) -> Result<()> {
        self.state.log.close()
    }
}
