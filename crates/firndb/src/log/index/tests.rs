//! The index compared with a plain map, with many equal hashes, and under concurrent readers.

use crate::log::index::hash_index::{Index, Matches};
use crate::log::index::insert_buffer::BufferedInsert;
use crate::log::index::pages::{CHUNK, PAGE, PAGES, Shape};
use crate::log::index::slot::{OFFSETS, RecordLocation};
use crate::log::index::sorted_entries::SortedEntries;
use crate::log::index::writer::{self, IndexWriter};
use crate::testing::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// An empty index of 2^first shards, and its writer.
fn create(first: u32) -> (Index, IndexWriter) {
    writer::create(Shape::new(first, 12)).unwrap()
}

/// All entries but buffered ones, as kept bits and location, in order.
fn all(index: &Index) -> Vec<(u64, RecordLocation)> {
    let (mut all, mut page, mut next) = (Vec::new(), Vec::new(), 0);
    while next < index.end() {
        next = index.entries_from(next, usize::MAX, &mut page);
        all.append(&mut page);
    }
    all
}

fn locations(index: &Index, hash: u64) -> Vec<RecordLocation> {
    let mut found = Vec::new();
    index.find(hash, |location| {
        found.push(location);
        None::<()>
    });
    found.sort_unstable();
    found
}

#[test]
fn behaves_as_a_map_of_kept_bits() {
    for seed in 0..20 {
        let (index, mut writer) = create(2);
        let mut rng = Rng(seed);
        let mut model: BTreeMap<u64, Vec<RecordLocation>> = BTreeMap::new();
        for n in 1..20_000u64 {
            // Few different hashes, so that many are equal, spread over the range.
            let hash = (rng.next() % 8000).wrapping_mul(0x0008_3126_E978_D4FE);
            let list = model.entry(index.kept_bits(hash)).or_default();
            let new = RecordLocation::new((n % 16_384) as usize, n);
            match (rng.next() % 4, list.len()) {
                (0 | 1, _) | (_, 0) => {
                    writer.insert(&index, hash, new).unwrap();
                    list.push(new);
                }
                (2, length) => {
                    let at = rng.next() as usize % length;
                    assert!(writer.replace(&index, hash, list[at], new));
                    list[at] = new;
                }
                (_, length) => {
                    let old = list.swap_remove(rng.next() as usize % length);
                    assert!(writer.remove(&index, hash, old));
                    assert!(!writer.remove(&index, hash, old));
                }
            }
            list.sort_unstable();
            assert_eq!(locations(&index, hash), *list, "seed {seed}, step {n}");
        }
        let total: usize = model.values().map(Vec::len).sum();
        assert_eq!(writer.entries(), total as u64);
        let mut all = all(&index);
        assert!(all.is_sorted_by_key(|entry| entry.0), "entries come in the order of hashes");
        all.sort_unstable();
        let expected = model.iter().flat_map(|(bits, list)| list.iter().map(|&p| (*bits, p)));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }
}

#[test]
fn filling_equals_inserting() {
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let (mut filled, mut inserted) = (create(3), create(3));
        let entries: Vec<(u64, RecordLocation)> = (1..rng.below(30_000) as u64 + 2)
            .map(|n| {
                ((rng.next() % 8000).wrapping_mul(0x0008_3126_E978_D4FE), RecordLocation::new(7, n))
            })
            .collect();
        for part in entries.chunks(1 + rng.below(9000)) {
            filled.1.fill(&filled.0, &SortedEntries::new(&filled.0, part)).unwrap();
            for &(hash, location) in part {
                inserted.1.insert(&inserted.0, hash, location).unwrap();
            }
            // Neither the marks of removed entries nor the entries may come back.
            let (hash, gone) = part[rng.below(part.len())];
            for (index, writer) in [&mut filled, &mut inserted] {
                assert!(writer.remove(index, hash, gone));
            }
        }
        assert_eq!(filled.1.entries(), inserted.1.entries(), "seed {seed}");
        for (hash, _) in entries {
            assert_eq!(locations(&filled.0, hash), locations(&inserted.0, hash), "seed {seed}");
            writer_goes_on(&mut filled, hash);
        }
    }
}

#[test]
fn memory_is_prepared_for_entries_and_not_more_than_they_take() {
    let n = 3 * (CHUNK * PAGE) as u64 / 2;
    let mut rng = Rng(3);
    let entries: Vec<_> =
        (1..=n).map(|i| (rng.next(), RecordLocation::new(7, i % OFFSETS))).collect();
    let memory = |is_prepared: bool| {
        let (index, mut writer) = writer::create(Shape::new(0, 12).with_entries(n)).unwrap();
        if is_prepared {
            let empty = index.memory();
            index.pages.prepare_for(n);
            assert!(index.memory() > empty);
        }
        writer.fill(&index, &SortedEntries::new(&index, &entries)).unwrap();
        // What the writer has allocated ends it.
        index.pages.prepare_for(n);
        index.memory()
    };
    assert_eq!(memory(true), memory(false));
}

/// Entries can be inserted and removed after a fill.
fn writer_goes_on((index, writer): &mut (Index, IndexWriter), hash: u64) {
    let (before, new) = (locations(index, hash), RecordLocation::new(8, 1));
    writer.insert(index, hash, new).unwrap();
    assert!(locations(index, hash).contains(&new));
    assert!(writer.remove(index, hash, new));
    assert_eq!(locations(index, hash), before);
}

#[test]
fn takes_at_most_twelve_bytes_per_key_and_grows_in_steps() {
    let (index, mut writer) = create(9);
    let mut rng = Rng(1);
    let mut longest = 0;
    for n in 0..1_250_000u64 {
        let before = index.memory();
        writer.insert(&index, rng.next(), RecordLocation::new(1, 1 + n % (OFFSETS - 1))).unwrap();
        longest = longest.max(index.memory() - before);
    }
    // As full as the default index of 2^13 shards with 20 million keys.
    let bytes = index.memory() as f64 / writer.entries() as f64;
    assert!(bytes <= 10.5, "{bytes} bytes a key");
    // A chunk of pages, the first time with a list for a thousand chunks, and directory rows.
    assert!(longest <= (2 << 20) + (64 << 10), "grew by {longest} bytes at once");
}

#[test]
fn readers_find_unchanged_entries_during_writes() {
    let (index, mut writer) = create(4);
    let stays: Vec<u64> = (0..2000u64).map(|n| n << 53 | n << 40).collect();
    for (n, &hash) in stays.iter().enumerate() {
        writer.insert(&index, hash, RecordLocation::new(1, 1 + n as u64)).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (n, &hash) in stays.iter().enumerate() {
                        let location = RecordLocation::new(1, 1 + n as u64);
                        let found = index.find(hash, |p| (p == location).then_some(()));
                        assert!(found.is_some(), "entry {n} is lost");
                    }
                }
            });
        }
        let mut rng = Rng(7);
        let mut others = Vec::new();
        for n in 0..300_000u64 {
            if n % 3 == 2 {
                let (hash, location) = others.swap_remove(rng.next() as usize % others.len());
                assert!(writer.remove(&index, hash, location));
            } else {
                let (hash, location) = (rng.next(), RecordLocation::new(2, 1 + n));
                writer.insert(&index, hash, location).unwrap();
                others.push((hash, location));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn memory_is_reserved_before_the_writer_needs_it() {
    let (index, mut writer) = create(6);
    let mut rng = Rng(1);
    let (mut inline, mut chunks) = (0, 0);
    let made = || index.pages.made.load(Ordering::Relaxed);
    while chunks < 6 {
        index.pages.reserve();
        let before = made();
        for _ in 0..1000 {
            let location = RecordLocation::new(0, 1 + writer.entries());
            writer.insert(&index, rng.next(), location).unwrap();
        }
        inline += made() - before;
        chunks = index.pages.taken.load(Ordering::Relaxed) as usize / CHUNK;
    }
    assert_eq!(inline, 1, "only the first chunk is made by an insertion");
    assert_eq!(writer.entries(), all(&index).len() as u64);
}

#[test]
fn displaced_entries_are_found_until_dropped() {
    let (index, mut writer) = create(2);
    let [old, new, other] = [3, 4, 5].map(|n| RecordLocation::new(1, n));
    let (hash, same_slot) = (7 << 50, 7 << 50 | 1 << 63);
    assert_eq!(index.matches(hash), Matches::Nothing);
    for is_given_back in [true, false] {
        writer.insert(&index, hash, old).unwrap();
        assert_eq!(index.matches(hash), Matches::One(old));
        writer.displace(&index, hash, old, new);
        assert_eq!((index.matches(hash), writer.entries()), (Matches::Several, 1));
        assert_eq!(index.find(hash, Some), Some(new), "the new one comes first");
        assert_eq!(index.buffer_slot(same_slot), index.buffer_slot(hash));
        writer.insert(&index, same_slot, other).unwrap();
        assert_eq!(locations(&index, same_slot), [other], "others do not see it");
        assert_eq!(all(&index).len(), 3);
        let slot = index.displaced.occupied().next().unwrap();
        if is_given_back {
            writer.restore(&index, slot).unwrap();
            assert_eq!((index.find(hash, Some), writer.entries()), (Some(new), 3));
            assert!(writer.remove(&index, hash, old));
        } else {
            writer.drop_displaced(&index, slot);
        }
        assert_eq!((index.displaced.occupied().count(), locations(&index, hash)), (0, vec![new]));
        assert!(writer.remove(&index, hash, new) && writer.remove(&index, same_slot, other));
    }
}

/// Entries are inserted, replaced, removed, displaced and buffered while shards split, with hashes
/// that differ only in bits that older entries no longer know.
#[test]
fn behaves_as_a_map_while_shards_split() {
    for seed in 0..6 {
        let (index, mut writer) = writer::create(Shape::new(seed as u32 % 3, 5)).unwrap();
        let mut rng = Rng(seed);
        let mut model: BTreeMap<u64, Vec<RecordLocation>> = BTreeMap::new();
        for n in 1..45_000u64 {
            let class = (rng.next() % 8000).wrapping_mul(0x0008_3126_E978_D4FE) >> 40 << 40;
            let hash = class | (rng.next() % 4) << 36 | 7;
            let list = model.entry(hash).or_default();
            let (new, slot) =
                (RecordLocation::new((n % 16_384) as usize, n), index.buffer_slot(hash));
            match (rng.next() % 8, list.len()) {
                (0..4, _) | (_, 0) => {
                    writer.buffer_insert(&index, BufferedInsert { hash, location: new });
                    list.push(new);
                    list.sort_unstable();
                    assert_shows(&index, hash, list);
                    writer.flush_insert(&index, slot, None).unwrap();
                }
                (4, length) => {
                    let at = rng.next() as usize % length;
                    assert!(writer.replace(&index, hash, list[at], new));
                    list[at] = new;
                }
                (5, length) => {
                    let old = list.swap_remove(rng.next() as usize % length);
                    assert!(writer.remove(&index, hash, old));
                    assert!(!writer.remove(&index, hash, old));
                }
                (what, _) => {
                    // The first entry that a search finds, which may be of another hash.
                    let old = index.find_in_shard(hash, Some).unwrap();
                    writer.displace(&index, hash, old, new);
                    list.push(new);
                    // Its shard may split while it is displaced.
                    for i in 0..if what == 6 && n % 30 == 0 { 100 } else { 0 } {
                        let hash = hash ^ rng.next() >> index.pages.base();
                        let more = RecordLocation::new(i, 100_000 + n);
                        writer.insert(&index, hash, more).unwrap();
                        model.entry(hash).or_default().push(more);
                    }
                    assert_eq!(index.find(hash, Some), Some(new), "the new one comes first");
                    writer.restore(&index, slot).unwrap();
                }
            }
            let list = model.entry(hash).or_default();
            list.sort_unstable();
            assert_shows(&index, hash, list);
            if n % 3 == 0 && !list.is_empty() {
                writer.learn(&index, hash, 48, *rng.pick(list));
                assert_shows(&index, hash, list);
            }
        }
        let total: usize = model.values().map(Vec::len).sum();
        assert_eq!(writer.entries(), total as u64);
        assert!(index.pages.leaf(0).depth > index.pages.shape().first, "shards were split");
        model.iter().for_each(|(&hash, list)| assert_shows(&index, hash, list));
        let mut expected: Vec<_> = (model.iter())
            .flat_map(|(&hash, list)| list.iter().map(move |&p| (hash, p)))
            .map(|(hash, location)| (index.kept_bits(hash), location))
            .collect();
        expected.sort_unstable();
        assert_eq!(all(&index), expected, "seed {seed}");
    }
}

/// A search shows all these entries.
#[track_caller]
fn assert_shows(index: &Index, hash: u64, list: &[RecordLocation]) {
    let found = locations(index, hash);
    assert!(list.iter().all(|location| found.binary_search(location).is_ok()), "{hash:x}");
}

/// Inserts random entries until searches begin at this level, then fills its shards.
fn fill_to(pair: &mut (Index, IndexWriter), rng: &mut Rng, level: u32, hashes: &mut Vec<u64>) {
    let (index, writer) = pair;
    while index.pages.base() < level || writer.entries() < 2100 << level {
        hashes.push(rng.next());
        let location = RecordLocation::new(0, hashes.len() as u64);
        writer.insert(index, hashes[hashes.len() - 1], location).unwrap();
    }
}

/// How many of a million searches for absent keys show an entry.
fn false_reads(index: &Index, rng: &mut Rng) -> f64 {
    (0..1_000_000).filter(|_| index.matches(rng.next()) != Matches::Nothing).count() as f64
}

/// The formula in the head of `index/mod.rs`.
#[test]
fn false_reads_grow_by_half_a_shard_per_doubling() {
    let (mut pair, mut rng, mut hashes) = (create(0), Rng(3), Vec::new());
    for doublings in 0..8 {
        fill_to(&mut pair, &mut rng, doublings, &mut hashes);
        let per_shard = f64::from(u32::try_from(hashes.len()).unwrap() >> doublings);
        let expected = (1.0 + f64::from(doublings) / 2.0) * per_shard / 8.388_608;
        let found = false_reads(&pair.0, &mut rng);
        let deviation = (found - expected).abs() / expected.sqrt();
        assert!(deviation < 5.0, "{found} after {doublings} doublings, expected {expected}");
    }
}

/// Entries learn bits from hints after two doublings, or a few more if hints come late.
#[test]
fn few_searches_find_entries_of_other_keys_however_often_shards_double() {
    let (mut pair, mut rng, mut hashes) = (create(0), Rng(4), Vec::new());
    for doublings in 1..9 {
        fill_to(&mut pair, &mut rng, doublings, &mut hashes);
        let found = false_reads(&pair.0, &mut rng);
        assert!(found <= 1000.0, "{found} of a million searches after {doublings} doublings");
        let (index, writer) = &mut pair;
        assert_eq!(index.pages.is_vague(), doublings % 2 == 0);
        if index.pages.is_vague() {
            for (n, &hash) in hashes.iter().enumerate() {
                writer.learn(index, hash, 48, RecordLocation::new(0, 1 + n as u64));
            }
            index.pages.set_learned(doublings);
            let (found, all_known) = (false_reads(index, &mut rng), 2176.0 / 8.388_608);
            assert!(found < all_known + 80.0, "{found} with all bits known");
        }
    }
    let (index, _) = &pair;
    for (n, &hash) in hashes.iter().enumerate() {
        assert!(locations(index, hash).contains(&RecordLocation::new(0, 1 + n as u64)));
    }
}

#[test]
fn an_index_of_its_last_level_is_full_and_goes_on() {
    let (index, mut writer) = writer::create(Shape::new(1, 2)).unwrap();
    let mut rng = Rng(5);
    let mut hashes = Vec::new();
    let full = loop {
        let hash = rng.next();
        if !writer.make_room_for(&index, hash) {
            break hash;
        }
        let location = RecordLocation::new(2, 1 + hashes.len() as u64);
        writer.insert(&index, hash, location).unwrap();
        hashes.push(hash);
    };
    assert!((27_000..29_000).contains(&hashes.len()), "{} entries", hashes.len());
    assert!(!writer.make_room_for_all(&index, &mut [full, full + 1]));
    for (n, &hash) in hashes.iter().enumerate() {
        assert!(locations(&index, hash).contains(&RecordLocation::new(2, 1 + n as u64)));
    }
    // Room in its shard, which has the same highest bits, is room for it.
    let n = hashes.iter().position(|hash| hash >> 61 == full >> 61).unwrap();
    assert!(writer.remove(&index, hashes[n], RecordLocation::new(2, 1 + n as u64)));
    assert!(writer.make_room_for(&index, full));
    writer.insert(&index, full, RecordLocation::new(3, 1)).unwrap();
    assert!(locations(&index, full).contains(&RecordLocation::new(3, 1)));
}

/// No shard of 2^25 levels is made here: the arithmetic says that the shape has room.
#[test]
fn the_largest_shape_has_room_for_2_to_the_36_keys() {
    let shape = Shape::new(13, 12).with_entries(1 << 36);
    assert_eq!((shape.first, shape.last), (25, 25));
    let default = Shape::new(13, 12);
    assert_eq!((default.first, default.last), (13, 25));
    assert_eq!(default.with_entries(1_000_000_000).first, 20);
    assert_eq!(default.with_entries(1000).first, 13);
    // 2,048 entries on average, and eight standard deviations more.
    const { assert!(2048 + 8 * 46 < writer::ENTRIES_LAST - 64) };
    // A page is named by 32 bits.
    const { assert!((PAGES as u64) << 25 < 1 << 32) };
}
