//! The proof that a collection is right: against a naive model, damaged bytes, power cuts, faults.
//!
//! - `model.rs`: random questions about random collections, answered as `naive.rs` answers them
//!   (`world.rs` makes the collections, `ask.rs` the questions);
//! - `bundle.rs`: partitions merged in memory answer as they do one by one;
//! - `compact.rs`: small partitions are merged, and no answer changes;
//! - `change.rs`: merging, replacing, determinism, readers of old sets, threads;
//! - `points.rs`: windows over points of two fields;
//! - `scans.rs`: keys whose documents are in the column alone; `bitsets.rs`: other forms of
//!   postings;
//! - `keep.rs`: what changes carry over, and what they leave in the directory;
//! - `moved.rs`: another directory takes the place of the one that is open;
//! - `relations.rs`: continuations of partitions, and names that were merged;
//! - `pages.rs`: pages that are asked while partitions change;
//! - `files.rs`: partition files without a collection;
//! - `corrupt.rs`: every byte damaged; `hostile.rs`: damage with checksums that fit;
//! - `forged.rs`: forged sections that ask for a panic or for memory without end;
//! - `verify.rs`: files that contradict themselves with checksums that fit;
//! - `refuse.rs`: what must be refused, and the empty collection;
//! - `crash.rs`: power cuts and failing calls at every operation of every change.

mod ask;
mod bitsets;
mod bundle;
mod change;
mod compact;
mod corrupt;
mod crash;
mod files;
mod forged;
mod hostile;
mod keep;
mod model;
mod moved;
mod naive;
mod pages;
mod payloads;
mod places;
mod points;
mod refuse;
mod relations;
mod scans;
mod shelf;
mod verify;
mod world;

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

/// Where collections of tests are on their simulated disks.
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

/// Calls `each` once for every plan and instruction set, which queries must use then.
fn with_each_plan(mut each: impl FnMut(&str)) {
    for list in [None, Some(true), Some(false)] {
        with_each_version(|version| {
            FORCED.set(Forced { list, ..Forced::default() });
            each(&format!("{version}, list: {list:?}"));
            FORCED.set(Forced::default());
        });
    }
}

/// Readers of three partitions and of the one that they are merged into.
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

/// Damages every byte of a file three ways and asks each of some questions: they get the right
/// answers, or errors that say so. Both come often.
fn damage_every_byte<A: PartialEq + Debug>(
    whole: &[u8],
    open: impl Fn(&[u8]) -> crate::Result<Reader>,
    questions: usize,
    ask: impl Fn(&Reader, usize) -> crate::Result<A>,
) {
    let right = open(whole).unwrap();
    let answers: Vec<A> = (0..questions).map(|number| ask(&right, number).unwrap()).collect();
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
                match ask(&reader, number) {
                    Ok(answer) => {
                        assert_eq!(answer, *right, "byte {at}, question {number}");
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

/// The special forms of a field of the first partition: ordinals, and what stands for their forms.
fn special_forms(reader: &Reader, field: usize) -> Vec<(u32, u32)> {
    let file = &reader.set.partitions[0].file;
    let list = file.find(section(field, part::SPECIAL_FORMS)).map(|at| file.section(at).unwrap());
    let mut all: Vec<(u32, u32)> = list
        .unwrap_or(&[])
        .chunks_exact(SPECIAL_FORM)
        .map(|entry| (u32_at(entry, 0), u32_at(entry, 4)))
        .collect();
    all.pop(); // what ends them
    all
}

fn create(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::create_on(disk.clone() as DiskRef, Path::new(DIR))
}

fn open(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::open_on(disk.clone() as DiskRef, Path::new(DIR))
}

/// A number of the environment, decimal or `0x...`.
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
