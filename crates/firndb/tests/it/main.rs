//! Integration tests: the library as its users see it, through the public API and on a real disk.
//!
//! - `readme.rs`: the example of README.md;
//! - `golden.rs`: files of every format version that was released open, and answer as they did;
//! - `golden_index.rs`: so does a whole index, and goes on;
//! - `queries.rs`: what can be asked, what is refused and how, when a query stops;
//! - `changes.rs`: creating, changing, locking and refreshing collections; limits of a builder;
//! - `catalog.rs`: readers of a catalog swap versions while they are asked;
//! - `links.rs`: catalogs are given symbolic links, pipes, and files of other file systems;
//! - `merging.rs`: and follow what is merged in the background;
//! - `moved.rs`: a new collection takes the place of one that is open;
//! - `memory.rs`: the peak memory of builders, as the kernel counts it;
//! - `tables.rs`: tables of every format version that was released;
//! - `borders.rs`: numbers of documents at which structures or ways of execution change.

mod background_compaction;
mod catalog;
mod changes;
mod golden;
mod golden_index;
mod links;
mod memory;
mod multi_valued;
mod queries;
mod readme;
mod replaced_directory;
mod size_boundaries;
mod tables;

use firndb::search::{Collection, PartitionBuilder, Reader};
use firndb::{Error, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for a test, removed at the end.
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

/// The error, if it is of this kind and its sentence has all these words.
#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) -> Error {
    let Err(error) = result else { panic!("this call should have failed: {kind:?}, {words:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no `{word}` in: {error}");
    }
    error
}
