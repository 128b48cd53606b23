//! Dirty partitions -> the collection.
//!
//! Threads read the documents of partitions and sort them; the calling thread writes the files, so
//! that one more partition is in memory than there are threads.

use super::format::{
    DIRTY, Id, PUBLISHED, PublishedSet, decode_document, encode_names, encode_published, entry_key,
    partition_list, read_entry,
};
use super::state::State;
use super::{COLLECTION, Indexer, contradiction, durable, lists};
use crate::catalog::{self, Catalog, PublishOptions};
use crate::log::Batch;
use crate::search::{self, Built, Change, PartitionBuilder};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// What a publish did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Number of the set of the collection that has the changes.
    pub version: u64,
    /// Partitions that were rebuilt, ascending.
    pub rebuilt: Vec<String>,
    /// Partitions that have no documents any more and are gone.
    pub removed: Vec<String>,
    /// Documents in the rebuilt partitions.
    pub documents: u64,
    /// Bytes of the files of the rebuilt partitions.
    pub bytes: u64,
}

/// A partition that was rebuilt.
struct Rebuilt {
    name: String,
    ids: Vec<Id>,
    /// `None` if it is empty.
    built: Option<Built>,
}

impl Indexer {
    /// Rebuilds the dirty partitions and publishes them as one set of the collection. When it
    /// returns the set is durable, and new readers have it. `Failed`, and nothing is published, if
    /// the collection was changed or replaced since the index was opened.
    ///
    /// A partition must fit into the memory that [`Options`](super::Options) gives a thread; if one
    /// does not, the error says so and nothing is published.
    pub fn publish(&mut self) -> Result<Published> {
        self.settle()?;
        let names: Vec<String> = self.state.dirty.iter().cloned().collect();
        if names.is_empty() {
            return Ok(Published { version: self.collection.version(), ..Published::default() });
        }
        let mut published = Published::default();
        let mut batch = Batch::new();
        let mut change = self.collection.change_as_owner()?;
        if !self.state.knows(&self.collection)? {
            let message = "the collection of the index is another one than when the index was \
                           opened: it was changed or replaced; nothing is published, open the \
                           index anew";
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.dir.join(COLLECTION)));
        }
        let (content, number) = (Some(self.collection.content()), self.collection.version());
        let old: BTreeSet<String> =
            self.collection.reader().partitions().into_iter().map(|part| part.name).collect();
        self.check_number(&old, &names)?;
        let (state, generation) = (&self.state, self.state.generation);
        self.rebuild(&names, |rebuilt| {
            let list = partition_list(generation, &rebuilt.name);
            lists::fold(&state.log, &mut batch, &list, &rebuilt.ids)?;
            put(&mut change, rebuilt, &old, &mut published)
        })?;
        let log = &self.state.log;
        let reader = change.commit_with(|next| {
            // Durable, and the changes with it: what is published must not be newer than the log.
            let set = PublishedSet { number: number + 1, content, next: Some(next) };
            log.put_with(PUBLISHED, &encode_published(set), durable())
        })?;
        for part in reader.partitions() {
            if published.rebuilt.binary_search(&part.name).is_ok() {
                published.documents += u64::from(part.documents);
                published.bytes += part.bytes;
            }
        }
        published.version = self.collection.version();
        batch.put(PUBLISHED, &encode_published(self.published_set()));
        batch.put(DIRTY, &encode_names(&[]));
        self.state.log.write(&batch)?;
        self.state.dirty.clear();
        Ok(published)
    }

    /// `InvalidArgument` if the collection would have too many partitions. Said before any of them
    /// is written.
    fn check_number(&self, old: &BTreeSet<String>, dirty: &[String]) -> Result<()> {
        let dirty: BTreeSet<String> = dirty.iter().cloned().collect();
        if old.union(&dirty).count() <= search::MAX_PARTITIONS {
            return Ok(());
        }
        let mut number = old.difference(&dirty).count();
        for name in &dirty {
            let list = partition_list(self.state.generation, name);
            number += usize::from(!lists::read(&self.state.log, &list)?.is_empty());
        }
        if number <= search::MAX_PARTITIONS {
            return Ok(());
        }
        let message = format!(
            "the documents are in {number} partitions, and a collection has at most {}: divide \
             them into fewer (`firn index rebuild --partitions N`); nothing was published, and no \
             change is lost",
            search::MAX_PARTITIONS
        );
        Err(Error::invalid(message).in_file(&self.dir.join(COLLECTION)))
    }

    /// The record of the set that the collection has.
    pub(super) fn published_set(&self) -> PublishedSet {
        let (number, content) = (self.collection.version(), Some(self.collection.content()));
        PublishedSet { number, content, next: None }
    }

    /// [`Indexer::publish`], and then the collection as the next version of `name` in a catalog;
    /// `None` if the newest version is that very collection. What a crash left between the two is
    /// made up for by the next call. `AlreadyExists` if somebody else published meanwhile: the
    /// collection has the changes all the same, and the call can be made again.
    pub fn publish_to(
        &mut self,
        catalog: &Catalog,
        name: &str,
    ) -> Result<(Published, Option<catalog::Published>)> {
        let published = self.publish()?;
        let collection = self.dir.join(COLLECTION);
        let version = catalog.publish_if_changed(name, &collection, &PublishOptions::default())?;
        Ok((published, version))
    }

    /// Gives the partitions of these names to `take`, in their order, as they get ready.
    fn rebuild(&self, names: &[String], mut take: impl FnMut(Rebuilt) -> Result<()>) -> Result<()> {
        let threads = match self.options.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = threads.min(names.len());
        let memory = self.options.memory / (threads + 1);
        let (state, dir) = (&self.state, &*self.dir);
        if threads <= 1 {
            return names
                .iter()
                .try_for_each(|name| take(build_partition(state, dir, name, memory)?));
        }
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(0);
            for _ in 0..threads {
                let (sender, next): (SyncSender<Result<Rebuilt>>, _) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Nobody listens any more after an error.
                        if sender.send(build_partition(state, dir, name, memory)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            receiver.into_iter().try_for_each(|rebuilt| take(rebuilt?))
        })
    }
}

/// Puts a partition into the change, or takes it away if it is empty.
fn put(
    change: &mut Change,
    rebuilt: Rebuilt,
    old: &BTreeSet<String>,
    published: &mut Published,
) -> Result<()> {
    let Rebuilt { name, built, .. } = rebuilt;
    let (names, name) = match built {
        Some(built) => {
            change.put_built(&name, built)?;
            (&mut published.rebuilt, name)
        }
        None if old.contains(&name) => {
            change.remove(&name)?;
            (&mut published.removed, name)
        }
        None => return Ok(()),
    };
    let at = names.partition_point(|other| *other < name);
    names.insert(at, name);
    Ok(())
}

/// Reads the documents of a partition from the log, in the order of their IDs, and sorts them.
fn build_partition(state: &State, dir: &Path, name: &str, memory: usize) -> Result<Rebuilt> {
    let ids = lists::read(&state.log, &partition_list(state.generation, name))?;
    if ids.is_empty() {
        return Ok(Rebuilt { name: name.to_string(), ids, built: None });
    }
    let builder = PartitionBuilder::new(state.schema.clone());
    let mut builder = builder.memory_limit(memory).spill_to(dir);
    for id in &ids {
        let document = state.log.get_with(&entry_key(*id), |bytes| {
            let mut published = None;
            read_entry(bytes, |_, document| published = published.or(Some(document)))?;
            published.map(|document| decode_document(&state.schema, document)).transpose()
        })?;
        let document = document.transpose()?.flatten();
        let document =
            document.ok_or_else(|| contradiction("a document of a partition's list is missing"))?;
        builder
            .add(&document)
            .map_err(|e| Error::new(e.kind(), format!("partition `{name}`: {}", e.message())))?;
    }
    Ok(Rebuilt { name: name.to_string(), ids, built: Some(builder.finish()?) })
}
