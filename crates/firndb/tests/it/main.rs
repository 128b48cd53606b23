//! Integration tests through the public API, on a real disk.
//!
//! - `examples.rs`: the programs in the folder `examples` of the repository;
//! - `golden.rs`, `golden_index.rs`, `tables.rs`: collections, an index and tables of every
//!   released format version can be read and used;
//! - `queries.rs`: queries of every kind, what is refused, cancellation;
//! - `multi_valued.rs`: a document with several of the wanted values is one match;
//! - `size_boundaries.rs`: numbers of documents at which structures or plans change;
//! - `changes.rs`: creating, changing, locking and refreshing collections; limits of a builder;
//! - `replaced_directory.rs`: a new collection replaces an open one;
//! - `memory.rs`: the peak memory of builders, as the kernel counts it;
//! - `catalog.rs`: readers of a catalog swap versions while threads query them;
//! - `background_compaction.rs`: readers of a catalog follow background compaction;
//! - `observe.rs`: metrics, spans, serialised statistics;
//! - `links.rs`: catalogs with symbolic links, pipes, and files of other file systems.

mod background_compaction;
mod catalog;
mod changes;
mod examples;
mod golden;
mod golden_index;
mod links;
mod memory;
mod multi_valued;
mod observe;
mod queries;
mod replaced_directory;
mod size_boundaries;
mod tables;

use firndb::search::{Collection, PartitionBuilder, Reader};
use firndb::{Error, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory of one test, removed at its end.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> TestDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("it-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        TestDir(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new collection with these partitions.
    fn collection<'a>(
        &self,
        parts: impl IntoIterator<Item = (&'a str, PartitionBuilder)>,
    ) -> (Collection, Reader) {
        let collection = Collection::create(self.path("collection")).unwrap();
        let mut change = collection.change().unwrap();
        for (name, builder) in parts {
            change.put(name, builder).unwrap();
        }
        let reader = change.commit().unwrap();
        (collection, reader)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// Asserts that the call fails with this kind of error, in a message with all these words. Returns
/// the error.
#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) -> Error {
    let Err(error) = result else { panic!("this call should have failed: {kind:?}, {words:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no `{word}` in: {error}");
    }
    error
}
