//! Tests of whole collections: against a reference model, with damaged bytes, power cuts and
//! failing calls.
//!
//! Answers:
//!
//! - `model.rs`: random queries of random collections give the answers of `reference.rs`
//!   (`random_collection.rs` generates the collections, `random_queries.rs` the queries);
//! - `bundle.rs`: partitions merged in memory give the answers of the separate partitions;
//! - `warm.rs`: what is made before a set becomes current, and that queries then make nothing;
//! - `bitsets.rs`, `scans.rs`: the forms of postings, and keys that are found in the column only;
//! - `points.rs`, `points_by_value.rs`: windows over the points of two fields, without and with
//!   values in the points;
//! - `pages.rs`: paging while partitions change; `payloads.rs`: offsets of payloads;
//! - `files.rs`: partition files without a collection;
//! - `refuse.rs`: invalid arguments, cancellation, and the empty collection.
//!
//! Changes:
//!
//! - `change.rs`: merging, replacing, determinism, readers of old sets, threads;
//! - `commit.rs`: what a commit carries over, and what it leaves in the directory;
//! - `compact.rs`: merging small partitions changes no answer;
//! - `relations.rs`: continuations of partitions, and names of merged partitions;
//! - `replaced_directory.rs`: the directory of an open collection is replaced.
//!
//! Failures (`sample_files.rs` has their files and queries):
//!
//! - `crash.rs`: power cuts and failing calls at every operation of every change;
//! - `corrupt.rs`: every byte damaged;
//! - `hostile.rs`, `forged.rs`: random and selected damage with valid checksums;
//! - `verify.rs`: inconsistent files with valid checksums.

mod bitsets;
mod bundle;
mod change;
mod commit;
mod compact;
mod corrupt;
mod crash;
mod files;
mod forged;
mod hostile;
mod model;
mod pages;
mod payloads;
mod points;
mod points_by_value;
mod random_collection;
mod random_queries;
mod reference;
mod refuse;
mod relations;
mod replaced_directory;
mod sample_files;
mod scans;
mod verify;
mod warm;

use crate::ErrorKind;
use crate::bytes::int::u32_at;
use crate::disk::{DiskRef, SimDisk};
use crate::search::codec::postings::build::SPECIAL_FORM;
use crate::search::format::{part, section};
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::{FORCED, Forced};
use crate::search::{Collection, PartitionBuilder, Reader};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// The directory of a test's collection on its simulated disk.
const DIR: &str = "/collection";

/// A collection on a simulated disk.
struct Store {
    disk: Arc<SimDisk>,
    collection: Collection,
}

/// A new, empty collection.
fn store() -> Store {
    let disk = SimDisk::new();
    let collection = create(&disk).unwrap();
    Store { disk, collection }
}

/// Calls `each` once for every combination of plan and instruction set, and forces queries to use
/// it.
fn with_each_plan(mut each: impl FnMut(&str)) {
    for list in [None, Some(true), Some(false)] {
        with_each_version(|version| {
            FORCED.set(Forced { list, ..Forced::default() });
            each(&format!("{version}, list: {list:?}"));
            FORCED.set(Forced::default());
        });
    }
}

/// Commits three partitions, then merges them. Returns a reader of either set.
fn merge_all(store: &Store, builders: [PartitionBuilder; 3]) -> [Reader; 2] {
    let mut change = store.collection.change().unwrap();
    for (name, builder) in ["a", "b", "c"].iter().zip(builders) {
        change.put(name, builder).unwrap();
    }
    let parts = change.commit().unwrap();
    let mut change = store.collection.change().unwrap();
    change.merge(&["a", "b", "c"], "a").unwrap();
    [parts, change.commit().unwrap()]
}

/// Damages every byte of a file in three ways and runs the queries on each result. Every answer
/// must be correct or a `Corrupt` error, and both must be frequent.
fn damage_every_byte<A: PartialEq + Debug>(
    whole: &[u8],
    open: impl Fn(&[u8]) -> crate::Result<Reader>,
    queries: usize,
    query: impl Fn(&Reader, usize) -> crate::Result<A>,
) {
    let right = open(whole).unwrap();
    let answers: Vec<A> = (0..queries).map(|number| query(&right, number).unwrap()).collect();
    let (mut found, mut same) = (0, 0);
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xFF] {
            let mut damaged = whole.to_vec();
            damaged[at] ^= flip;
            let Ok(reader) = open(&damaged) else {
                found += 1;
                continue;
            };
            for (number, right) in answers.iter().enumerate() {
                match query(&reader, number) {
                    Ok(answer) => {
                        assert_eq!(answer, *right, "byte {at}, query {number}");
                        same += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > 10_000 && same > 10_000, "{found} found, {same} answered");
}

/// The special forms of a field of the first partition: ordinals, and the codes of their forms.
fn special_forms(reader: &Reader, field: usize) -> Vec<(u32, u32)> {
    let file = &reader.set.partitions[0].file;
    let list = file.find(section(field, part::SPECIAL_FORMS)).map(|at| file.section(at).unwrap());
    let mut all: Vec<(u32, u32)> = list
        .unwrap_or(&[])
        .chunks_exact(SPECIAL_FORM)
        .map(|entry| (u32_at(entry, 0), u32_at(entry, 4)))
        .collect();
    all.pop(); // the end marker
    all
}

fn create(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::create_on(disk.clone() as DiskRef, Path::new(DIR))
}

fn open(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::open_on(disk.clone() as DiskRef, Path::new(DIR))
}

/// The number in an environment variable, decimal or `0x...`.
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
