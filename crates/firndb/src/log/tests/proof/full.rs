//! A full disk: puts return an error, everything else works, and deletes and compaction make room
//! again.

use super::kill::Mount;
use super::oracle::{check, content, kill, open_at};
use super::work::Run;
use super::{DIR, NOW, Rng, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::failpoints::{Failpoint, active};
use crate::log::format::names::is_reserve;
use crate::log::tests::Steps;
use crate::log::write::active_segment::drop_spare;
use crate::log::{LogStore, Options};
use crate::{ErrorKind, Result};
use firndb_testing::skipped;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The maintenance between writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Maintenance {
    Nothing,
    /// One step after every seventh write.
    Some,
    /// All steps after each write.
    All,
}

impl Maintenance {
    fn step(self, store: &LogStore, n: usize) {
        let steps = match self {
            Maintenance::Nothing => 0,
            Maintenance::Some => usize::from(n.is_multiple_of(7)),
            Maintenance::All => usize::MAX,
        };
        for _ in 0..steps {
            match store.maintain() {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => return assert!(e.is_disk_full(), "{e}"),
            }
        }
    }
}

fn open(disk: &Arc<SimDisk>) -> LogStore {
    // The disk may become full during a checkpoint.
    let options = Options { checkpoint_bytes: 8 << 10, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

#[track_caller]
fn compare(store: &LogStore, model: &Map, label: &str) {
    assert_eq!(store.len(), model.len() as u64, "{label}");
    for (key, value) in model {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value), "{label}");
    }
}

/// Writes records over `keys` keys until the disk is full. Returns their number.
fn fill(
    store: &LogStore,
    model: &mut Map,
    keys: usize,
    maintenance: Maintenance,
    label: &str,
) -> usize {
    for n in 0..10_000 {
        let (key, value) = (format!("key {}", n % keys).into_bytes(), vec![n as u8; n * 53 % 600]);
        match store.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(e) => {
                assert!(e.kind() == ErrorKind::Io && e.is_disk_full(), "{label}: {e}");
                assert!(e.to_string().contains("free"), "{label}: says what to do: {e}");
                return n;
            }
        }
        maintenance.step(store, n);
    }
    panic!("{label}: the disk is never full");
}

/// One store on one disk: filled, reopened, reduced, written again.
fn live_through(free: usize, keys: usize, maintenance: Maintenance) {
    let label = format!("{free} bytes, {keys} keys, {maintenance:?}");
    let disk = SimDisk::new();
    let (mut store, mut model) = (open(&disk), Map::new());
    disk.limit(free);
    let written = fill(&store, &mut model, keys, maintenance, &label);
    compare(&store, &model, &label);
    if free / 512 % 3 < 2 {
        match free / 512 % 3 {
            0 => kill(store),
            _ => store.close().unwrap_or_else(|e| panic!("{label}: {e}")),
        }
        store = open(&disk);
    }
    compare(&store, &model, &label);
    let names: Vec<Vec<u8>> = model.keys().cloned().collect();
    for (n, key) in names.iter().enumerate().filter(|(n, _)| n % 3 > 0) {
        assert!(store.delete(key).unwrap_or_else(|e| panic!("{label}: {e}")));
        model.remove(key);
        maintenance.step(&store, n);
    }
    compare(&store, &model, &label);
    store.compact(0.2).unwrap_or_else(|e| panic!("{label}: {e}"));
    store.compact(0.2).unwrap_or_else(|e| panic!("{label}: {e}"));
    // Two thirds were deleted. On a disk of ten segments the reserve and the begun segments take
    // most.
    for n in 0..names.len() / 8 {
        let (key, value) = (format!("new {n}").into_bytes(), vec![1; n * 53 % 600]);
        store.put(&key, &value).unwrap_or_else(|e| panic!("{label}, put {n} of {written}: {e}"));
        model.insert(key, value);
        maintenance.step(&store, n);
    }
    compare(&store, &model, &label);
    kill(store);
    let store = open(&disk);
    compare(&store, &model, &label);
    store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
    compare(&open(&disk), &model, &label);
}

/// Segments of 4 KiB grow at the 25th and the 57th, because each lists all others.
#[test]
fn deletes_and_compaction_work_on_a_full_disk_with_growing_segments() {
    for free in (100 << 10..280 << 10).step_by(3 << 10) {
        for maintenance in [Maintenance::Nothing, Maintenance::Some] {
            live_through(free, usize::MAX, maintenance);
        }
    }
}

/// Each size of the disk makes a different file the first that does not fit: a segment, a hint, a
/// checkpoint, the reserve itself.
#[test]
fn deletes_and_compaction_work_on_a_full_disk() {
    for free in (36 << 10..68 << 10).step_by(512) {
        for maintenance in [Maintenance::Nothing, Maintenance::Some, Maintenance::All] {
            live_through(free, usize::MAX, maintenance);
            // Mostly stale records, without compaction.
            if maintenance != Maintenance::All {
                live_through(free, 20, maintenance);
            }
        }
    }
}

/// Puts records over five keys until this many more segments are full.
fn fill_segments(store: &LogStore, model: &mut Map, count: u64) {
    let active = || store.lock().unwrap().segment.number;
    let last = active() + count;
    for n in 0.. {
        if active() == last {
            return;
        }
        let (key, value) = (format!("key {}", n % 5).into_bytes(), vec![n as u8; 300]);
        store.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

/// A full disk with a store that has used its reserve.
fn fill_up(store: &LogStore, disk: &SimDisk) -> Result<()> {
    drop_spare(store.writable(), &mut *store.lock()?)?;
    for name in disk.list(Path::new(DIR))?.iter().filter(|name| is_reserve(name)) {
        disk.remove(&Path::new(DIR).join(name))?;
    }
    disk.limit(0);
    Ok(())
}

/// Fills the disk and compacts this many segments on it, although there is no space for a link.
#[track_caller]
fn compact_when_full(store: LogStore, disk: &Arc<SimDisk>, model: &Map, segments: usize) {
    fill_up(&store, disk).unwrap();
    let durable = store.lock().unwrap().durable;
    assert!(store.link_stale(0.5, durable).unwrap_err().is_disk_full());
    assert_eq!(store.compact(0.5).unwrap(), segments);
    compare(&store, model, "compacted");
    kill(store);
    compare(&open(disk), model, "opened again");
}

/// Segments whose durability no link states yet need a new segment before they may be removed, and
/// there is no space for one. But others can be removed at once, which makes the space.
#[test]
fn removable_segments_make_room_for_the_next_link() {
    let disk = SimDisk::new();
    let (store, mut model) = (open(&disk), Map::new());
    fill_segments(&store, &mut model, 4);
    store.sync().unwrap();
    // The first link of these states the durability of those before.
    fill_segments(&store, &mut model, 4);
    while store.seal().unwrap() {}
    let stale = store.writable().segments().len() - 1;
    let linked = store.lock().unwrap().link_durable;
    assert!((1..stale as u64).contains(&linked), "{linked} of {stale} may go at once");
    compact_when_full(store, &disk, &model, stale);
}

/// A file that waits for its removal while compaction is paused provides space too.
#[test]
fn files_left_by_a_pause_make_room_for_compaction() {
    let disk = SimDisk::new();
    let (store, mut model) = (open(&disk), Map::new());
    fill_segments(&store, &mut model, 1);
    store.sync().unwrap();
    fill_segments(&store, &mut model, 1);
    while store.seal().unwrap() {}
    assert!(store.compact_step().unwrap(), "the segment that a link calls durable");
    store.pause_compaction();
    compact_when_full(store, &disk, &model, 1);
}

/// The two cases above, with a power cut at every operation.
#[test]
fn a_power_cut_while_compaction_makes_room_for_a_link_leaves_a_prefix() {
    let mut images = 0;
    for (seed, is_paused) in [(1, false), (2, true)] {
        let run = |disk: Arc<SimDisk>| {
            active::STORE.set(Some(super::store_id(seed)));
            let mut run = Run::begin(&disk, seed, true);
            for n in 0..90 {
                run.put(n % 5, 300, n == 40);
            }
            let mut refused = false;
            run.quietly(|store| {
                while store.seal()? {}
                if is_paused {
                    store.compact_step()?;
                    store.pause_compaction();
                }
                fill_up(store, &disk)?;
                let durable = store.lock()?.durable;
                refused = store.link_stale(0.5, durable).is_err_and(|e| e.is_disk_full());
                Ok(())
            });
            run.compact(0.5);
            (run.wrong.take(), run.errors, refused, run.end())
        };
        let base = SimDisk::new();
        let (wrong, errors, refused, _) = run(base.fork());
        assert_eq!((wrong, errors, refused), (None, 0, true), "paused: {is_paused}");
        images += base.each_crash(seed, 3, run, |label, (wrong, _, _, history), image| {
            assert_eq!(*wrong, None, "{label}");
            image.limit(1 << 20);
            check(&image, history, Rng(seed).below(4)).unwrap_or_else(|e| panic!("{label}: {e}"));
        });
    }
    println!("full: images={images} wrong=0, where a link needs room");
    assert!(images > 500, "{images}");
}

#[test]
fn notices_a_missing_reserve() {
    active::FAILPOINT.set(Some(Failpoint::KeepNoReserve));
    let sizes = (36 << 10..68 << 10).step_by(512);
    let stuck = sizes.filter(|&free| {
        let all = || live_through(free, usize::MAX, Maintenance::Some);
        catch_unwind(AssertUnwindSafe(all)).is_err()
    });
    let stuck = stuck.count();
    active::FAILPOINT.set(None);
    println!("full: without a reserve the work fails on {stuck} of 64 disks");
    assert!(stuck > 10, "{stuck}");
}

/// Fills the disk, continues, frees space and writes again. Returns what went wrong.
fn work(run: &mut Run) -> usize {
    for n in 0..30 {
        let length = 200 + run.random.below(1400);
        run.put(n, length, n % 5 == 0);
        run.maintain(n % 2);
    }
    for n in 0..5 {
        run.delete(n, n == 3);
        run.maintain(n % 3);
    }
    run.compact(0.2);
    run.compact(0.2);
    let errors = run.errors;
    for n in 0..4 {
        run.put(n, 300, n == 2);
    }
    run.errors - errors
}

#[test]
fn a_power_cut_on_a_full_disk_leaves_a_prefix_with_all_durable_writes() {
    let (mut images, mut full) = (0, 0);
    for (seed, free) in (36 << 10..48 << 10).step_by(2560).enumerate() {
        let seed = seed as u64;
        let base = SimDisk::new();
        base.limit(free);
        let run = |disk| {
            active::STORE.set(Some(super::store_id(seed)));
            let mut run = Run::begin(&disk, seed, true);
            let at_end = work(&mut run);
            (run.wrong.take(), run.errors, at_end, run.end())
        };
        let (wrong, errors, at_end, _) = run(base.fork());
        assert_eq!((wrong, at_end), (None, 0), "there is room at the end, with {free} bytes");
        full += errors;
        images += base.each_crash(seed, 3, run, |label, (wrong, _, _, history), image| {
            let label = format!("{free} bytes, {label}");
            assert_eq!(*wrong, None, "{label}");
            // It opens on the full disk too.
            NOW.set(history.now);
            let store = open_at(&image.fork(), DIR).unwrap_or_else(|e| panic!("{label}: {e}"));
            content(&store).unwrap_or_else(|e| panic!("{label}: {e}"));
            kill(store);
            image.limit(1 << 20);
            check(&image, history, Rng(seed).below(4)).unwrap_or_else(|e| panic!("{label}: {e}"));
        });
    }
    println!("full: images={images} refused={full} wrong=0");
    assert!(images > 1000 && full > 5, "{images} {full}");
}

/// Puts up to `most` values of 10 KB until there is an error.
fn fill_for_real(store: &LogStore, name: &str, most: usize) -> (usize, Result<()>) {
    for n in 0..most {
        if let Err(e) = store.put(format!("{name} {n}").as_bytes(), [n as u8; 10_000]) {
            return (n, Err(e));
        }
    }
    (most, Ok(()))
}

#[test]
fn deletes_and_compaction_work_on_a_full_file_system() {
    let dir = std::env::temp_dir().join(format!("firndb-full-{}", std::process::id()));
    let mount = match Mount::new(&dir) {
        Ok(mount) => mount,
        Err(e) => {
            let _ = std::fs::remove_dir_all(&dir);
            let why = format!("no file system to fill: {e}");
            return skipped("deletes_and_compaction_work_on_a_full_file_system", why);
        }
    };
    let place = mount.at.join("store");
    let mut store = LogStore::open_with(&place, Options::default()).unwrap();
    let (count, refused) = fill_for_real(&store, "key", 10_000);
    let refused = refused.unwrap_err();
    assert!(refused.is_disk_full() && count > 3000, "{count}: {refused}");
    for round in 0..2 {
        let right = |n: usize| store.get(format!("key {n}").as_bytes()).unwrap().unwrap();
        assert!((0..count).all(|n| right(n) == [n as u8; 10_000]), "round {round}");
        store.close().unwrap();
        store = LogStore::open_with(&place, Options::default()).unwrap();
    }
    for n in (0..count).filter(|n| n % 3 > 0) {
        assert!(store.delete(format!("key {n}").as_bytes()).unwrap());
    }
    store.compact(0.2).unwrap();
    store.compact(0.2).unwrap();
    let (_, again) = fill_for_real(&store, "new", count / 4);
    again.unwrap();
    drop(store);
    let store = LogStore::open_with(&place, Options::default()).unwrap();
    assert_eq!(store.len() as usize, count.div_ceil(3) + count / 4);
    store.verify().unwrap();
    assert_eq!(store.len(), store.len());
    drop(store);
    drop(mount);
    std::fs::remove_dir_all(&dir).unwrap();
}
