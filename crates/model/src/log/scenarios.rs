//! Scenarios: one thread writes, others read, and what the readers must never see.

use super::failpoints::{Failpoint, active};
use super::index::hash_index::{Index, Matches};
use super::index::insert_buffer::BufferedInsert;
use super::index::pages::Shape;
use super::index::slot::RecordLocation;
use super::index::sorted_entries::SortedEntries;
use super::index::writer::{IndexWriter, create};
use super::segment_table::{self as table, SegmentTable, Slots};
use crate::sync::{LOADS, Loads, Swap};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A name, and the function to run.
pub type Scenario = (&'static str, fn());

/// All scenarios.
pub const SCENARIOS: [Scenario; 15] = [
    ("a shard is rebuilt and its pages are reused", rebuild),
    ("a shard is rebuilt twice during a search", rebuild_twice),
    ("entries are inserted before others", insert),
    ("entries are replaced and removed", replace_and_remove),
    ("an entry is displaced and restored", displaced),
    ("an insert is buffered and then another", buffered),
    ("the shard of a displaced entry is rebuilt twice", displaced_and_rebuilt),
    ("pages are read while entries are inserted", insert_during_pages),
    ("pages are read while an entry is displaced and restored", displaced_during_pages),
    ("pages are read while an insert is flushed", buffered_during_pages),
    ("a shard is split and its pages are reused", split),
    ("a shard is split while an entry is displaced", split_displaced),
    ("pages are read while a shard is split", split_during_pages),
    ("a record moves to another segment", swap),
    ("the slot of a removed segment is reused", reclaim),
];

/// Failpoints, each with the scenario that detects it.
pub const FAILPOINTS: [(&str, &str); 17] = [
    ("CountNoRebuilds", "a shard is rebuilt twice during a search"),
    ("ForgetRebuilds", "a shard is rebuilt and its pages are reused"),
    ("PublishShardRelaxed", "a shard is rebuilt and its pages are reused"),
    ("ShiftRelaxed", "entries are inserted before others"),
    ("DisplaceTooLate", "an entry is displaced and restored"),
    ("RestoreWithoutVersion", "an entry is displaced and restored"),
    ("TrustDisplaced", "the shard of a displaced entry is rebuilt twice"),
    ("DropBufferedEarly", "an insert is buffered and then another"),
    ("BufferRelaxed", "an insert is buffered and then another"),
    ("ShiftRelaxed", "pages are read while entries are inserted"),
    ("RestoreWithoutVersion", "pages are read while an entry is displaced and restored"),
    ("DropBufferedEarly", "pages are read while an insert is flushed"),
    ("SplitTooEarly", "a shard is split and its pages are reused"),
    ("ForgetRebuilds", "a shard is split and its pages are reused"),
    ("SplitTooEarly", "pages are read while a shard is split"),
    ("TrustOldTable", "a record moves to another segment"),
    ("ReuseSlotAtOnce", "the slot of a removed segment is reused"),
];

/// Maximum number of preemptions of a thread that could continue.
const PREEMPTIONS: usize = 3;

/// Runs a scenario in all interleavings, with a failpoint if one is named. Returns the number of
/// interleavings, or the violation.
pub fn explore(name: &str, failpoint: Option<&str>) -> Result<usize, String> {
    let named = SCENARIOS.iter().find(|(known, _)| *known == name);
    let (_, work) = *named.ok_or_else(|| format!("there is no scenario `{name}`"))?;
    let failpoints = [
        Failpoint::CountNoRebuilds,
        Failpoint::ForgetRebuilds,
        Failpoint::PublishShardRelaxed,
        Failpoint::SplitTooEarly,
        Failpoint::ShiftRelaxed,
        Failpoint::DisplaceTooLate,
        Failpoint::RestoreWithoutVersion,
        Failpoint::TrustDisplaced,
        Failpoint::DropBufferedEarly,
        Failpoint::BufferRelaxed,
        Failpoint::TrustOldTable,
        Failpoint::ReuseSlotAtOnce,
    ];
    let find = |name: &str| failpoints.into_iter().find(|known| format!("{known:?}") == name);
    active::FAILPOINT.set(failpoint.map(|name| find(name).expect("a failpoint of this name")));
    let mut orders = 0;
    for loads in [Loads::InTurn, Loads::AsOrdered] {
        LOADS.set(loads);
        let (found, more) = explore_with(work);
        orders += more;
        if let Err(what) = found {
            active::FAILPOINT.set(None);
            return Err(format!("in order {orders}: {what}"));
        }
    }
    active::FAILPOINT.set(None);
    Ok(orders)
}

/// The violation, if any, and the number of interleavings.
fn explore_with(work: fn()) -> (Result<(), String>, usize) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.max_branches = 10_000;
    let explored = catch_unwind(AssertUnwindSafe(|| {
        model.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            work();
        });
    }));
    let explored = explored.map_err(|what| {
        let what = what.downcast_ref::<String>().cloned();
        what.unwrap_or_else(|| "a panic".into())
    });
    (explored, orders.load(Ordering::Relaxed))
}

/// A shared index with these entries.
fn index(bits: u32, entries: &[(u64, RecordLocation)]) -> (Arc<Index>, IndexWriter) {
    let (index, mut writer) = create(Shape::new(bits, 12)).expect("a small index");
    for &(hash, location) in entries {
        writer.insert(&index, hash, location).expect("a small index");
    }
    (Arc::new(index), writer)
}

/// A hash whose kept bits are `n` sixteenths of the range; 0 for 16.
fn hash(n: u64) -> u64 {
    n << 60
}

fn location(n: u64) -> RecordLocation {
    RecordLocation::new(1, n)
}

/// Lays out the shard of an entry again, with the entry.
fn fill(writer: &mut IndexWriter, index: &Index, n: u64) {
    let entry = SortedEntries::new(index, &[(hash(n), location(n))]);
    writer.fill(index, &entry).expect("a small index");
}

/// Whether there is an entry with this location.
fn holds(index: &Index, n: u64) -> bool {
    index.find(hash(n), |found| (found == location(n)).then_some(())).is_some()
}

/// Starts a thread that searches for an entry which is present all the time.
fn looks_for(index: &Arc<Index>, n: u64) -> thread::JoinHandle<()> {
    let index = Arc::clone(index);
    thread::spawn(move || assert!(holds(&index, n), "entry {n} is lost"))
}

/// Starts a thread that goes through the index in pages, as a scan does. It must meet these
/// entries, which are present all the time, and no other bits than those of the hashes `known`.
fn scans<const N: usize>(
    index: &Arc<Index>,
    present: [u64; N],
    known: &'static [u64],
) -> thread::JoinHandle<()> {
    let index = Arc::clone(index);
    thread::spawn(move || {
        let (mut met, mut page) = (index.buffered(), Vec::new());
        let mut from = 0;
        while from < index.end() {
            from = index.entries_from(from, 1, &mut page);
            assert!(page.is_sorted(), "a page is sorted");
            met.append(&mut page);
        }
        for n in present {
            let entry = (index.kept_bits(hash(n)), location(n));
            assert!(met.contains(&entry), "entry {n} is lost: {met:?}");
        }
        let is_known = |bits: u64| known.iter().any(|&n| index.kept_bits(hash(n)) == bits);
        assert!(met.iter().all(|&(bits, _)| is_known(bits)), "{met:?}");
    })
}

/// As many entries as fit into a page of the first shard.
const FULL: [u64; 7] = [1, 2, 3, 4, 5, 6, 7];

/// Two shards: the second one reuses the pages that the first one frees.
fn rebuild() {
    let (index, mut writer) = index(1, &FULL.map(|n| (hash(n), location(n))));
    let reader = looks_for(&index, 6);
    for n in [16, 10] {
        writer.insert(&index, hash(n), location(n)).expect("a small index");
    }
    reader.join().expect("the reader");
    assert!(FULL.into_iter().chain([16, 10]).all(|n| holds(&index, n)));
}

/// The second rebuild reuses the half of the directory that the search may be reading.
fn rebuild_twice() {
    let (index, mut writer) = index(1, &[1, 5].map(|n| (hash(n), location(n))));
    let reader = looks_for(&index, 5);
    for n in [2, 6] {
        fill(&mut writer, &index, n);
    }
    reader.join().expect("the reader");
    assert!([1, 5, 2, 6].into_iter().all(|n| holds(&index, n)));
}

/// Splits the only shard, which has the entries 5 and 12.
fn split_first(index: &Index, writer: &mut IndexWriter) {
    // Nine more keys fit into each half, but not into the whole.
    let mut hashes: [u64; 9] = std::array::from_fn(|n| hash(5) + n as u64);
    assert!(writer.make_room_for_all(index, &mut hashes));
    assert_eq!(index.pages.leaf(hash(5)).depth, 1, "it was split");
}

/// Each half gets one of the entries. Then one half is rebuilt in the page of the whole shard. An
/// entry that is absent all the time is not found.
fn split() {
    let (index, mut writer) = index(0, &[5, 12].map(|n| (hash(n), location(n))));
    let reader = looks_for(&index, 5);
    let shared = Arc::clone(&index);
    let other = thread::spawn(move || assert_eq!(shared.matches(hash(2)), Matches::Nothing));
    split_first(&index, &mut writer);
    fill(&mut writer, &index, 14);
    reader.join().expect("the reader");
    other.join().expect("the other reader");
    assert!([5, 12, 14].into_iter().all(|n| holds(&index, n)));
}

/// An entry was displaced before its shard is split, and is restored to one half.
fn split_displaced() {
    let (index, mut writer) = index(0, &[5, 12].map(|n| (hash(n), location(n))));
    writer.displace(&index, hash(5), location(5), location(9));
    let reader = looks_for(&index, 5);
    split_first(&index, &mut writer);
    let slot = index.displaced.occupied().next().expect("one is displaced");
    writer.restore(&index, slot).expect("a small index");
    reader.join().expect("the reader");
    assert!(holds(&index, 5) && holds(&index, 12));
}

/// The entries of both halves are met, once the shard is split or before.
fn split_during_pages() {
    let (index, mut writer) = index(0, &[5, 12].map(|n| (hash(n), location(n))));
    let reader = scans(&index, [5, 12], &[5, 12]);
    split_first(&index, &mut writer);
    reader.join().expect("the reader");
}

/// Other entries are shifted to the right, one by one.
fn insert() {
    let (index, mut writer) = index(0, &[(hash(2), location(2)), (hash(3), location(3))]);
    let readers = [2, 3].map(|n| looks_for(&index, n));
    writer.insert(&index, hash(1), location(1)).expect("a small index");
    for reader in readers {
        reader.join().expect("a reader");
    }
    assert!([1, 2, 3].into_iter().all(|n| holds(&index, n)));
}

/// Entries are shifted while a scan goes through them, one per page.
fn insert_during_pages() {
    let (index, mut writer) = index(0, &[(hash(2), location(2)), (hash(3), location(3))]);
    let reader = scans(&index, [2, 3], &[1, 2, 3]);
    writer.insert(&index, hash(1), location(1)).expect("a small index");
    reader.join().expect("the reader");
}

/// Two keys have the same bits. The one that is present all the time is displaced and restored.
fn displaced_during_pages() {
    let (index, mut writer) = index(0, &[(hash(1), location(1)), (hash(2), location(2))]);
    let reader = scans(&index, [1, 2], &[1, 2]);
    writer.displace(&index, hash(1), location(1), location(9));
    let slot = index.displaced.occupied().next().expect("one is displaced");
    writer.restore(&index, slot).expect("a small index");
    reader.join().expect("the reader");
}

/// An insert is buffered before the scan begins, and moves into its shard.
fn buffered_during_pages() {
    let (index, mut writer) = index(0, &[(hash(2), location(2))]);
    writer.buffer_insert(&index, BufferedInsert { hash: hash(1), location: location(1) });
    let slot = index.buffer_slot(hash(1));
    let reader = scans(&index, [1, 2], &[1, 2]);
    writer.flush_insert(&index, slot, None).expect("a small index");
    reader.join().expect("the reader");
}

/// One key has an entry at every moment; the other is removed; a third follows them.
fn replace_and_remove() {
    let (index, mut writer) = index(0, &[1, 2, 3].map(|n| (hash(n), location(n))));
    let shared = Arc::clone(&index);
    let reader = thread::spawn(move || {
        let found = shared.find(hash(1), Some);
        assert!(found == Some(location(1)) || found == Some(location(9)), "found {found:?}");
        let found = shared.find(hash(2), Some);
        let known = [location(2), location(5)];
        assert!(found.is_none_or(|found| known.contains(&found)), "found {found:?}");
    });
    let other = looks_for(&index, 3);
    assert!(writer.remove(&index, hash(2), location(2)));
    assert!(writer.replace(&index, hash(1), location(1), location(9)));
    // Reuses the slot of the removed entry.
    writer.insert(&index, hash(2), location(5)).expect("a small index");
    assert!(writer.remove(&index, hash(2), location(5)));
    reader.join().expect("the reader");
    other.join().expect("the other reader");
}

/// Two keys have the same bits: one is present all the time, displaced for a while; the other is
/// inserted, and is seen first. Then another entry takes the slot in the displaced set.
fn displaced() {
    let (index, mut writer) = index(0, &[(hash(1), location(1)), (hash(2), location(2))]);
    let readers = [1, 2].map(|n| looks_for(&index, n));
    writer.displace(&index, hash(1), location(1), location(9));
    assert_eq!(index.find(hash(1), Some), Some(location(9)));
    assert_eq!(index.matches(hash(1)), Matches::Several);
    let slot = index.displaced.occupied().next().expect("one is displaced");
    writer.restore(&index, slot).expect("a small index");
    writer.displace(&index, hash(2), location(2), location(5));
    for reader in readers {
        reader.join().expect("a reader");
    }
    writer.drop_displaced(&index, slot);
    assert!(holds(&index, 1) && !holds(&index, 2));
}

/// An entry was displaced before the search begins, and an insert with its bits is buffered: a
/// search that loses its pages must not return the displaced entry.
fn displaced_and_rebuilt() {
    let (index, mut writer) = index(1, &[1, 5].map(|n| (hash(n), location(n))));
    writer.displace(&index, hash(5), location(5), location(9));
    writer.buffer_insert(&index, BufferedInsert { hash: hash(5), location: location(7) });
    let shared = Arc::clone(&index);
    let reader = thread::spawn(move || {
        let found = shared.find(hash(5), |found| (found != location(7)).then_some(found));
        assert_eq!(found, Some(location(9)), "an old entry is found");
    });
    for n in [2, 6] {
        fill(&mut writer, &index, n);
    }
    reader.join().expect("the reader");
}

/// One insert is buffered when the search begins. It is flushed, and its slot gets another insert,
/// of a key that already has an entry, which is present all the time too, finally displaced.
fn buffered() {
    let (index, mut writer) = index(0, &[(hash(2), location(2))]);
    writer.buffer_insert(&index, BufferedInsert { hash: hash(1), location: location(1) });
    let slot = index.buffer_slot(hash(1));
    assert_eq!(index.buffer_slot(hash(2)), slot);
    assert!(holds(&index, 1));
    let readers = [1, 2].map(|n| looks_for(&index, n));
    writer.flush_insert(&index, slot, None).expect("a small index");
    writer.buffer_insert(&index, BufferedInsert { hash: hash(2), location: location(9) });
    assert_eq!(index.find(hash(2), Some), Some(location(9)));
    assert_eq!(index.matches(hash(2)), Matches::One(location(2)));
    writer.flush_insert(&index, slot, Some(location(2))).expect("a small index");
    assert_eq!(index.find(hash(2), Some), Some(location(9)));
    for reader in readers {
        reader.join().expect("a reader");
    }
    writer.drop_displaced(&index, slot);
    assert!(holds(&index, 1) && !holds(&index, 2));
}

/// Key and version of the records of a segment, by offset.
type Segment = [(u64, u64); 3];

const KEY: u64 = 7;

struct Store {
    index: Arc<Index>,
    writer: IndexWriter,
    table: Arc<Swap<SegmentTable<Segment>>>,
    slots: Slots<Segment>,
}

impl Store {
    /// Version 1 of the key is in slot 0; there are two slots.
    fn new() -> Store {
        let first = RecordLocation::new(0, 1);
        let (index, writer) = index(0, &[(hash(KEY), first)]);
        let table = Arc::new(Swap::from_pointee(SegmentTable::default()));
        let mut store = Store { index, writer, table, slots: Slots::new(0, 2) };
        assert_eq!(store.begin([(0, 0), (KEY, 1), (0, 0)]), Some(0));
        store
    }

    /// Starts a new segment, if a slot is free.
    fn begin(&mut self, segment: Segment) -> Option<usize> {
        let table = self.table.load();
        let slot = self.slots.take(&table)?;
        let mut table = (*table).clone();
        table.put(slot, Arc::new(segment));
        self.table.store(Arc::new(table));
        Some(slot)
    }

    fn moved(&mut self, from: (usize, u64), to: (usize, u64)) {
        let [from, to] = [from, to].map(|(slot, offset)| RecordLocation::new(slot, offset));
        assert!(self.writer.replace(&self.index, hash(KEY), from, to));
    }

    /// Starts a thread that reads the key twice: it is present, and not older the second time.
    fn read(&self) -> thread::JoinHandle<()> {
        let (index, table) = (Arc::clone(&self.index), Arc::clone(&self.table));
        thread::spawn(move || {
            let mut newest = 1;
            for _ in 0..2 {
                let version = table::find(&table, &index, hash(KEY), |segment, location| {
                    let (key, version) = segment[location.offset() as usize];
                    (key == KEY).then_some(version)
                });
                let version = version.expect("the key is there");
                assert!(version >= newest, "version {version} after {newest}");
                newest = version;
            }
        })
    }
}

fn swap() {
    let mut store = Store::new();
    let reader = store.read();
    assert_eq!(store.begin([(0, 0), (KEY, 2), (0, 0)]), Some(1));
    store.moved((0, 1), (1, 1));
    reader.join().expect("the reader");
}

fn reclaim() {
    let mut store = Store::new();
    let reader = store.read();
    assert_eq!(store.begin([(0, 0), (KEY, 2), (0, 0)]), Some(1));
    store.moved((0, 1), (1, 1));
    store.slots.retire(&store.table, 0);
    // As long as the reader may hold the first segment, its slot is not free.
    if let Some(slot) = store.begin([(0, 0), (0, 0), (KEY, 3)]) {
        assert_eq!(slot, 0);
        store.moved((1, 1), (0, 2));
    }
    reader.join().expect("the reader");
    let last = store.begin([(0, 0); 3]);
    assert!(last.is_none_or(|slot| slot == 0), "two slots, one of them in use");
}
