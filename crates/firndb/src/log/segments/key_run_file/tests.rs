//! Key runs against a sorted list, damaged in all ways, and how long they take.

use super::*;
use crate::ErrorKind;
use crate::bytes::testing::{Forged, damage, print_nanoseconds};
use crate::disk::{DiskRef, SimDisk, stage};
use crate::log::segments::key_merge::KeyMerge;
use crate::testing::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const DIR: &str = "/runs";
const SEGMENTS: (u64, u64) = (5, 9);
const STORE: u64 = 77;

type Entries = Vec<(Vec<u8>, u64, u64)>;

fn write(entries: &Entries) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = KeyRunWriter::new(&mut bytes, STORE, SEGMENTS).unwrap();
    for (key, segment, offset) in entries {
        writer.push(KeyEntry { key, segment: *segment, offset: *offset }).unwrap();
    }
    assert_eq!(writer.finish().unwrap().entries, entries.len() as u64);
    bytes
}

/// Opens the bytes of a run.
fn open(bytes: &[u8], access: Access) -> Result<Arc<KeyRun>> {
    let disk: DiskRef = SimDisk::new();
    disk.create_dir_all(Path::new(DIR))?;
    let path = Path::new(DIR).join(key_run_file(SEGMENTS));
    disk.create(&path)?.append(bytes)?;
    KeyRun::open(&*disk, access, Path::new(DIR), STORE, SEGMENTS).map(Arc::new)
}

/// All entries from a bound on.
fn read(run: &Arc<KeyRun>, bound: Bound<&[u8]>, direction: Direction) -> Result<Entries> {
    let (mut iter, mut found) = (run.seek(bound, direction)?, Vec::new());
    while let Some(entry) = iter.current() {
        found.push((entry.key.to_vec(), entry.segment, entry.offset));
        iter.advance()?;
    }
    assert!(iter.advance().is_ok() && iter.current().is_none(), "the end stays the end");
    Ok(found)
}

/// Entries whose keys share long beginnings and often are the same.
fn random(rng: &mut Rng, n: usize, longest: usize) -> Entries {
    let letters = 1 + rng.below(3);
    let mut entries: Entries = (0..n)
        .map(|_| {
            let length = rng.below(longest + 1);
            let mut key = vec![b'k'; length];
            let last = length.min(8);
            key[length - last..].fill_with(|| rng.below(letters) as u8 * 85);
            if rng.below(20) == 0 {
                key.truncate(64); // The longest fence.
            }
            (key, SEGMENTS.0 + rng.below(5), rng.below(1 << 26))
        })
        .collect();
    entries.sort();
    entries.dedup();
    entries
}

fn check(entries: &Entries, access: Access, rng: &mut Rng) {
    let run = open(&write(entries), access).unwrap();
    run.verify().unwrap();
    let reversed: Entries = entries.iter().rev().cloned().collect();
    assert_eq!(read(&run, Bound::Unbounded, Direction::Forward).unwrap(), *entries);
    assert_eq!(read(&run, Bound::Unbounded, Direction::Reverse).unwrap(), reversed);
    for _ in 0..30 {
        let mut key = match entries.len() {
            0 => vec![],
            n => entries[rng.below(n)].0.clone(),
        };
        match rng.below(5) {
            0 => key.push(0),
            1 => _ = key.pop(),
            2 => key.truncate(64),
            3 => _ = key.last_mut().map(|last| *last = last.wrapping_add(1)),
            _ => {}
        }
        for bound in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
            let is_included = matches!(bound, Bound::Included(_));
            let above = entries.partition_point(|e| e.0 < key || !is_included && e.0 == key);
            let found = read(&run, bound, Direction::Forward).unwrap();
            assert!(found[..] == entries[above..], "{bound:?} forward");
            let below = entries.partition_point(|e| e.0 < key || is_included && e.0 == key);
            let found = read(&run, bound, Direction::Reverse).unwrap();
            assert!(found[..] == reversed[entries.len() - below..], "{bound:?} reverse");
        }
    }
}

#[test]
fn runs_are_like_sorted_lists() {
    let mut rng = Rng(1);
    for (n, longest) in [(0, 5), (1, 5), (16, 5), (17, 40), (1000, 6), (4000, 30), (1500, 200)] {
        for access in [Access::Map, Access::Buffered] {
            check(&random(&mut rng, n, longest), access, &mut rng);
        }
    }
}

#[test]
fn long_keys_are_found() {
    let mut rng = Rng(2);
    check(&random(&mut rng, 60, 65_536), Access::Map, &mut rng);
    // All fences are cut, and equal.
    let keys = (0..300_u64).map(|i| ([&[9; 400][..], &i.to_be_bytes()].concat(), 6, i));
    let all: Entries = keys.collect();
    check(&all, Access::Map, &mut rng);
    // The same, and a key is as long as the fences.
    let keys = (0..2000_u64).map(|i| ([&[9; 64][..], &i.to_be_bytes()].concat(), 6, i + 1));
    let all: Entries = [(vec![9; 64], 6, 0)].into_iter().chain(keys).collect();
    let whole = open(&write(&all), Access::Map).unwrap();
    assert!(whole.meta.blocks > 3);
    let count = |bound, direction| read(&whole, bound, direction).unwrap().len();
    let key = &[9; 64][..];
    assert_eq!(count(Bound::Included(key), Direction::Forward), 2001);
    assert_eq!(count(Bound::Excluded(key), Direction::Forward), 2000);
    assert_eq!(count(Bound::Included(key), Direction::Reverse), 1);
    assert_eq!(count(Bound::Excluded(key), Direction::Reverse), 0);
    check(&all, Access::Buffered, &mut rng);
    // One key fills many blocks.
    let same: Entries = (0..3000).map(|i| (vec![9; 100], 6, i)).collect();
    check(&same, Access::Buffered, &mut rng);
}

#[test]
fn a_run_of_other_segments_is_corrupt() {
    let bytes = write(&vec![(vec![1], 5, 1)]);
    let disk: DiskRef = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join(key_run_file((5, 8)));
    disk.create(&path).unwrap().append(&bytes).unwrap();
    let opened = KeyRun::open(&*disk, Access::Map, Path::new(DIR), STORE, (5, 8));
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corrupt);
}

#[test]
fn locations_that_do_not_fit_are_rejected() {
    let mut bytes = Vec::new();
    let mut writer = KeyRunWriter::new(&mut bytes, STORE, SEGMENTS).unwrap();
    for (segment, offset) in [(4, 1), (5 + (1 << 32), 1), (5, 1 << 32)] {
        let pushed = writer.push(KeyEntry { key: b"k", segment, offset });
        assert_eq!(pushed.err().unwrap().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn damaged_runs_are_corrupt_or_right() {
    let mut rng = Rng(3);
    let entries = random(&mut rng, 500, 20);
    let bytes = write(&entries);
    for length in (0..bytes.len()).step_by(7) {
        assert!(open(&bytes[..length], Access::Map).is_err(), "{length} bytes");
        assert!(open(&bytes[..length], Access::Buffered).is_err(), "{length} bytes");
    }
    for round in 0..1200 {
        let mut damaged = bytes.clone();
        damage(&mut rng, &mut damaged);
        let access = if round % 2 == 0 { Access::Map } else { Access::Buffered };
        let Ok(run) = open(&damaged, access) else { continue };
        if damaged != bytes {
            assert!(run.verify().is_err(), "round {round}");
        }
        let key = &entries[rng.below(entries.len())].0;
        for direction in [Direction::Forward, Direction::Reverse] {
            if let Ok(found) = read(&run, Bound::Included(key), direction) {
                let expected =
                    read(&open(&bytes, access).unwrap(), Bound::Included(key), direction);
                assert_eq!(found, expected.unwrap(), "round {round}");
            }
        }
    }
}

/// Writes a run of these entries and reads all of it.
fn write_and_read(disk: &SimDisk, entries: &Entries) -> Result<Entries> {
    let path = Path::new(DIR).join(key_run_file(SEGMENTS));
    stage(disk, &path, |out| out.append(&write(entries)), |()| path.clone())?;
    let run = KeyRun::open(disk, Access::Buffered, Path::new(DIR), STORE, SEGMENTS)?;
    read(&Arc::new(run), Bound::Unbounded, Direction::Forward)
}

#[test]
fn a_failing_disk_gives_errors() {
    let entries = random(&mut Rng(7), 900, 20);
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    assert_eq!(write_and_read(&disk, &entries).unwrap(), entries);
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let runs = disk.each_fault(
        |disk| write_and_read(&disk, &entries),
        |label, found, disk| {
            if let Ok(found) = found {
                assert!(*found == entries, "{label}");
            }
            assert_eq!(write_and_read(&disk, &entries).unwrap(), entries, "{label}");
        },
    );
    assert!(runs > 10);
    // After a power cut the run is whole, damaged or missing.
    disk.each_crash(
        8,
        20,
        |disk| write_and_read(&disk, &entries).map(|_| ()),
        |label, _, disk| {
            let opened = KeyRun::open(&*disk, Access::Map, Path::new(DIR), STORE, SEGMENTS);
            let all =
                opened.and_then(|run| read(&Arc::new(run), Bound::Unbounded, Direction::Forward));
            match all {
                Ok(found) => assert!(found == entries, "{label}"),
                Err(e) => assert!(
                    matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound),
                    "{label}: {e}"
                ),
            }
        },
    );
}

/// A directory may list the same bytes again and again. They are read a limited number of times.
#[test]
fn buffered_access_reads_no_more_than_the_file() {
    let mut rng = Rng(6);
    let bytes = write(&random(&mut rng, 3000, 20));
    let mut file = Forged(bytes);
    let (first, last) = (file.entry(0), file.entries() - 1);
    let long = file.section(file.entries() - 2); // The blocks.
    for entry in [first, file.entry(last - 1), file.entry(last)] {
        file.0[entry + 4..entry + 8].fill(0); // Not by blocks.
        file.0[entry + 8..entry + 16].copy_from_slice(&(long.start as u64).to_le_bytes());
        file.0[entry + 16..entry + 24].copy_from_slice(&(long.len() as u64).to_le_bytes());
    }
    file.seal();
    let opened = open(&file.0, Access::Buffered).err().unwrap();
    assert!(opened.to_string().contains("longer than the file"), "{opened}");
}

/// Runs with valid checksums and any content end, and do not panic.
#[test]
fn forged_runs_are_read_to_an_end() {
    let mut rng = Rng(4);
    let entries = random(&mut rng, 300, 20);
    let bytes = write(&entries);
    for _ in 0..1500 {
        let mut file = Forged(bytes.clone());
        let section = file.section(rng.below(file.entries()));
        damage(&mut rng, &mut file.0[section]);
        file.seal();
        let access = *rng.pick(&[Access::Map, Access::Buffered]);
        let Ok(run) = open(&file.0, access) else { continue };
        let key = &entries[rng.below(entries.len())].0;
        for direction in [Direction::Forward, Direction::Reverse] {
            for bound in [Bound::Unbounded, Bound::Excluded(&key[..])] {
                let Ok(mut iter) = run.seek(bound, direction) else { continue };
                let mut count = 0_u64;
                while iter.current().is_some() && iter.advance().is_ok() {
                    count += 1;
                }
                assert!(count <= u64::from(u16::MAX) * run.meta.blocks);
            }
        }
    }
}

#[test]
#[ignore = "prints times"]
fn times_of_key_runs() {
    let mut rng = Rng(9);
    let mut keys: Vec<Vec<u8>> = (0..500_000).map(|_| rng.fill(16)).collect();
    keys.sort();
    let entries: Entries =
        keys.into_iter().map(|key| (key, SEGMENTS.0 + rng.below(5), rng.below(3 << 20))).collect();
    print_nanoseconds("key run: write", || (entries.len(), write(&entries).len() as u64));
    let bytes = write(&entries);
    println!("{:.2} bytes per entry", bytes.len() as f64 / entries.len() as f64);
    let run = open(&bytes, Access::Map).unwrap();
    for direction in [Direction::Forward, Direction::Reverse] {
        print_nanoseconds(&format!("key run: {direction:?}"), || {
            let (mut iter, mut sum) = (run.seek(Bound::Unbounded, direction).unwrap(), 0);
            while let Some(entry) = iter.current() {
                sum += entry.offset + entry.key.len() as u64;
                iter.advance().unwrap();
            }
            (entries.len(), sum)
        });
        print_nanoseconds(&format!("key run: seek {direction:?}"), || {
            let found = entries.iter().step_by(501).map(|(key, ..)| {
                let iter = run.seek(Bound::Included(key), direction).unwrap();
                iter.current().map_or(0, |entry| entry.offset)
            });
            (entries.len().div_ceil(501), found.sum())
        });
    }
}

/// A merge of 10 runs, next to a heap of the standard library.
#[test]
#[ignore = "prints times"]
fn times_of_merges() {
    let mut rng = Rng(10);
    for common in [0, 20] {
        let mut run = || {
            let key = |rng: &mut Rng| [&[b'k'; 20][..common], &rng.fill(16)].concat();
            let mut keys: Vec<Vec<u8>> = (0..500_000).map(|_| key(&mut rng)).collect();
            keys.sort();
            let entries = keys.into_iter().map(|key| (key, 5, rng.below(3 << 20)));
            open(&write(&entries.collect()), Access::Map).unwrap()
        };
        let runs: Vec<_> = (0..10).map(|_| run()).collect();
        let open = |direction| {
            let seek = |run: &Arc<KeyRun>| run.seek(Bound::Unbounded, direction).unwrap();
            runs.iter().map(seek).collect::<Vec<_>>()
        };
        println!("keys with {common} common bytes");
        for direction in [Direction::Forward, Direction::Reverse] {
            print_nanoseconds(&format!("10 key runs: merge {direction:?}"), || {
                let mut merge = KeyMerge::new(open(direction), direction);
                let (mut count, mut sum) = (0, 0);
                while let Some(entry) = merge.current() {
                    count += 1;
                    sum += entry.offset;
                    merge.advance().unwrap();
                }
                (count, sum)
            });
        }
        print_nanoseconds("10 key runs: BinaryHeap", || {
            let mut sources = open(Direction::Forward);
            let next = |sources: &mut [KeyRunIter], i: usize| {
                let found = sources[i].current().map(|e| (e.key.to_vec(), e.segment, e.offset, i));
                sources[i].advance().unwrap();
                found.map(Reverse)
            };
            let mut heap: BinaryHeap<_> = (0..10).filter_map(|i| next(&mut sources, i)).collect();
            let (mut count, mut sum) = (0, 0);
            while let Some(Reverse((_, _, offset, i))) = heap.pop() {
                count += 1;
                sum += offset;
                heap.extend(next(&mut sources, i));
            }
            (count, sum)
        });
    }
}
