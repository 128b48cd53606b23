//! Rebuilds dirty partitions and publishes them in the collection.
//!
//! Worker threads read and sort the documents of partitions; the calling thread writes the files.
//! So the number of partitions in memory is the number of threads plus one.

use super::format::{
    DIRTY, Id, PUBLISHED, PublishedSet, decode_document, encode_names, encode_published, entry_key,
    inconsistent, partition_list, read_published,
};
use super::state::{State, published_set};
use super::{COLLECTION, Indexer, lists};
use crate::log::{Batch, WriteOptions};
use crate::search::{self, Built, Change, PartitionBuilder};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The result of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Publication {
    /// Number of the published set of the collection.
    pub version: u64,
    /// Partitions that were rebuilt, ascending.
    pub rebuilt: Vec<String>,
    /// Partitions that were removed, because they have no documents any more.
    pub removed: Vec<String>,
    /// Documents in the rebuilt partitions.
    pub documents: u64,
    /// Bytes of the files of the rebuilt partitions.
    pub bytes: u64,
}

/// A rebuilt partition.
struct Rebuilt {
    name: String,
    ids: Vec<Id>,
    /// `None` if the partition is empty.
    built: Option<Built>,
}

/// See [`Indexer::publish`].
pub(super) fn publish(indexer: &mut Indexer) -> Result<Publication> {
    span!(INFO, "firndb.index.publish");
    let Indexer { dir, options, state, collection, .. } = indexer;
    let names: Vec<String> = state.dirty.iter().cloned().collect();
    if names.is_empty() {
        return Ok(Publication { version: collection.version(), ..Publication::default() });
    }
    let mut published = Publication::default();
    let mut batch = Batch::new();
    let mut change = collection.change_as_owner()?;
    if !state.has_published(collection)? {
        let message = "the collection of the index is another one than when the index was opened: \
                       it was changed or replaced; nothing is published, open the index anew";
        return Err(Error::new(ErrorKind::Failed, message).in_file(&dir.join(COLLECTION)));
    }
    let (content, number) = (Some(collection.content()), collection.version());
    let old: BTreeSet<String> =
        collection.reader().partitions().into_iter().map(|part| part.name).collect();
    check_partition_count(state, dir, &old, &names)?;
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    rebuild(state, dir, &names, threads, options.memory, |rebuilt| {
        let list = partition_list(state.generation, &rebuilt.name);
        lists::compact(&state.log, &mut batch, &list, &rebuilt.ids)?;
        put(&mut change, rebuilt, &old, &mut published)
    })?;
    let reader = change.commit_with(|next| {
        // Synced before the set becomes visible: the collection must not be newer than the log.
        let set = PublishedSet { number: number + 1, content, next: Some(next) };
        state.log.put_with(PUBLISHED, encode_published(set), WriteOptions::sync())
    })?;
    for part in reader.partitions() {
        if published.rebuilt.binary_search(&part.name).is_ok() {
            published.documents += u64::from(part.documents);
            published.bytes += part.bytes;
        }
    }
    published.version = collection.version();
    batch.push_put(PUBLISHED, encode_published(published_set(collection)));
    batch.push_put(DIRTY, encode_names(&[]));
    state.log.write(&batch)?;
    state.dirty.clear();
    Ok(published)
}

/// `InvalidArgument` if the collection would have too many partitions. Checked before any partition
/// is written.
fn check_partition_count(
    state: &State,
    dir: &Path,
    old: &BTreeSet<String>,
    dirty: &[String],
) -> Result<()> {
    let dirty: BTreeSet<String> = dirty.iter().cloned().collect();
    if old.union(&dirty).count() <= search::MAX_PARTITIONS {
        return Ok(());
    }
    let mut number = old.difference(&dirty).count();
    for name in &dirty {
        let list = partition_list(state.generation, name);
        number += usize::from(!lists::read(&state.log, &list)?.is_empty());
    }
    if number <= search::MAX_PARTITIONS {
        return Ok(());
    }
    let message = format!(
        "the documents are in {number} partitions, and a collection has at most {}: divide them \
         into fewer (`firn index rebuild --partitions N`); nothing was published, and no change is \
         lost",
        search::MAX_PARTITIONS
    );
    Err(Error::invalid(message).in_file(&dir.join(COLLECTION)))
}

/// Rebuilds partitions in threads, and calls `take` with each as soon as it is ready, in any order.
fn rebuild(
    state: &State,
    dir: &Path,
    names: &[String],
    threads: usize,
    memory: usize,
    mut take: impl FnMut(Rebuilt) -> Result<()>,
) -> Result<()> {
    let threads = threads.min(names.len());
    let memory = memory / (threads + 1);
    if threads <= 1 {
        return names.iter().try_for_each(|name| take(build_partition(state, dir, name, memory)?));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        for _ in 0..threads {
            let (sender, next): (SyncSender<Result<Rebuilt>>, _) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver is gone after an error.
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

/// Puts a partition into the change, or removes it if it is empty.
fn put(
    change: &mut Change,
    rebuilt: Rebuilt,
    old: &BTreeSet<String>,
    published: &mut Publication,
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

/// Reads the documents of a partition from the log, ordered by ID, and builds the partition.
fn build_partition(state: &State, dir: &Path, name: &str, memory: usize) -> Result<Rebuilt> {
    let ids = lists::read(&state.log, &partition_list(state.generation, name))?;
    if ids.is_empty() {
        return Ok(Rebuilt { name: name.to_string(), ids, built: None });
    }
    let builder = PartitionBuilder::new(state.schema.clone());
    let mut builder = builder.memory_limit(memory).temp_dir(dir);
    for id in &ids {
        let document = state.log.get_with(entry_key(*id), |bytes| {
            let published = read_published(bytes)?;
            published.map(|document| decode_document(&state.schema, document)).transpose()
        })?;
        let document = document.transpose()?.flatten();
        let document =
            document.ok_or_else(|| inconsistent("a document of a partition's list is missing"))?;
        builder
            .add(&document)
            .map_err(|e| Error::new(e.kind(), format!("partition `{name}`: {}", e.message())))?;
    }
    Ok(Rebuilt { name: name.to_string(), ids, built: Some(builder.finish()?) })
}
