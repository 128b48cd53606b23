//! Expiry: how each write affects it, and that every copy of a record keeps it.

use super::DIR;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::format::names::CHECKPOINT;
use crate::log::format::names::hint_number;
use crate::log::{Batch, Durability, Entry, Expiry, LogStore, Options, WriteOptions};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const START: u64 = 1_000_000;

thread_local!(pub(crate) static NOW: Cell<u64> = const { Cell::new(START) });

fn options() -> Options {
    Options { clock: || NOW.get(), ..super::options() }
}

fn open_at(disk: &Arc<SimDisk>, dir: &str) -> LogStore {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options()).unwrap()
}

pub(crate) fn open(disk: &Arc<SimDisk>) -> LogStore {
    open_at(disk, DIR)
}

fn ttl(millis: u64) -> WriteOptions {
    WriteOptions::new().ttl(Duration::from_millis(millis))
}

/// Value and expiry of a key, as every way of reading shows them.
#[track_caller]
pub(crate) fn shown(store: &LogStore, key: &[u8]) -> Option<(Vec<u8>, Expiry)> {
    let found =
        store.get_entry_with(key, |entry| (entry.value.to_vec(), entry.expiry, entry.key == key));
    let found = found.unwrap().map(|(value, expiry, is_own)| {
        assert!(is_own);
        (value, expiry)
    });
    let (value, expiry) = (store.get(key).unwrap(), store.expiry(key).unwrap());
    assert_eq!(found, value.clone().zip(expiry), "{key:?}");
    assert_eq!(store.contains(key).unwrap(), found.is_some());
    let snapshot = store.snapshot();
    assert_eq!((snapshot.get(key).unwrap(), snapshot.expiry(key).unwrap()), (value, expiry));
    let mut listed = Vec::new();
    for mut part in snapshot.splits(3) {
        let entry = |e: Entry| (e.key.to_vec(), e.value.to_vec(), e.expiry);
        listed.extend(std::iter::from_fn(|| part.next_entry_with(entry)).map(Result::unwrap));
    }
    let listed = listed.into_iter().find(|(its, ..)| its == key);
    assert_eq!(listed.map(|(_, value, expiry)| (value, expiry)), found, "{key:?} in a scan");
    found
}

#[test]
fn writes_clear_keep_or_set_the_expiry() {
    let store = open(&SimDisk::new());
    let expiry = |key: &[u8]| shown(&store, key).map(|(_, expiry)| expiry);
    let later = Some(Expiry::At(START + 50));
    let set = |key: &[u8]| store.put_with(key, b"v", ttl(50)).unwrap();

    assert_eq!(store.expiry(b"absent").unwrap(), None);
    set(b"k");
    assert_eq!(expiry(b"k"), later);
    // Changing a value keeps the expiry.
    store.append(b"k", b"w").unwrap();
    assert_eq!(shown(&store, b"k"), Some((b"vw".to_vec(), Expiry::At(START + 50))));
    store.update(b"k", |old| Some([old.unwrap(), b"x"].concat())).unwrap();
    assert_eq!(expiry(b"k"), later);
    assert!(store.compare_and_set(b"k", Some(b"vwx"), Some(b"y")).unwrap());
    assert_eq!(expiry(b"k"), later);
    assert!(!store.put_if_absent(b"k", b"z").unwrap());
    assert_eq!(expiry(b"k"), later);
    // Unless the options set one.
    let never = WriteOptions::default().expiry(Expiry::Never);
    store.append_with(b"k", b"1", ttl(70)).unwrap();
    assert_eq!(expiry(b"k"), Some(Expiry::At(START + 70)));
    assert!(store.compare_and_set_with(b"k", Some(b"y1"), Some(b"2"), never).unwrap());
    assert_eq!(expiry(b"k"), Some(Expiry::Never));
    let to = WriteOptions::default().expiry(Expiry::At(START + 9));
    store.update_with(b"k", to, |old| old.map(<[u8]>::to_vec).into()).unwrap();
    assert_eq!(expiry(b"k"), Some(Expiry::At(START + 9)));
    // A put clears it, as does a delete.
    store.put(b"k", b"3").unwrap();
    assert_eq!(expiry(b"k"), Some(Expiry::Never));
    set(b"k");
    assert!(store.delete(b"k").unwrap());
    store.append(b"k", b"new").unwrap();
    assert_eq!(expiry(b"k"), Some(Expiry::Never));
    // A lock: set if absent, with an expiry.
    assert!(store.compare_and_set_with(b"lock", None, Some(b"me"), ttl(5)).unwrap());
    assert!(!store.compare_and_set_with(b"lock", None, Some(b"you"), ttl(5)).unwrap());
    assert_eq!(expiry(b"lock"), Some(Expiry::At(START + 5)));
    NOW.set(START + 5);
    assert!(store.compare_and_set_with(b"lock", None, Some(b"you"), ttl(5)).unwrap());
    assert_eq!(expiry(b"lock"), Some(Expiry::At(START + 10)));
    // An expired record is absent, and so is its expiry.
    NOW.set(START + 10);
    assert_eq!(store.append(b"lock", b"again").unwrap(), 5);
    assert_eq!(shown(&store, b"lock"), Some((b"again".to_vec(), Expiry::Never)));
}

#[test]
fn set_expiry_changes_only_the_expiry() {
    let disk = SimDisk::new();
    let store = open(&disk);
    assert!(!store.set_expiry(b"k", Expiry::At(START + 1)).unwrap(), "absent");
    assert_eq!(store.stats().puts, 0, "nothing was written");
    store.put(b"k", b"value").unwrap();
    for expiry in
        [Expiry::At(START + 1), Expiry::At(u64::MAX), Expiry::Never, Expiry::At(START + 7)]
    {
        assert!(store.set_expiry(b"k", expiry).unwrap());
        assert_eq!(shown(&store, b"k"), Some((b"value".to_vec(), expiry)));
    }
    assert!(store.set_expiry_with(b"k", ttl(3).durability(Durability::Sync)).unwrap());
    let cut = disk.images(1, 4).pop().unwrap().1;
    assert_eq!(shown(&open(&cut), b"k"), Some((b"value".to_vec(), Expiry::At(START + 3))));
    // Options without an expiry change nothing.
    let puts = store.stats().puts;
    assert!(store.set_expiry_with(b"k", WriteOptions::sync()).unwrap());
    assert!(!store.set_expiry_with(b"absent", WriteOptions::sync()).unwrap());
    assert_eq!((store.stats().puts, store.len()), (puts, 1));
    // A time that has passed: the key is absent at once, and stays absent.
    assert!(store.set_expiry(b"k", Expiry::At(START)).unwrap());
    assert_eq!(shown(&store, b"k"), None);
    assert!(!store.set_expiry(b"k", Expiry::Never).unwrap(), "too late");
    let reader = read_only(&disk);
    assert!(reader.set_expiry(b"absent", Expiry::Never).is_ok_and(|there| !there));
}

#[test]
fn threads_change_value_and_expiry_concurrently() {
    let store = open(&SimDisk::new());
    store.put(b"n", b"").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..200 {
                    if thread % 2 == 0 {
                        store.append(b"n", b"x").unwrap();
                    } else {
                        store.set_expiry(b"n", Expiry::At(u64::MAX - n - 1)).unwrap();
                    }
                }
            });
        }
    });
    // Changes of the expiry lost no append, and appends lost no change of the expiry.
    let (value, expiry) = shown(&store, b"n").unwrap();
    assert_eq!((value.len(), expiry), (400, Expiry::At(u64::MAX - 200)));
}

#[test]
fn records_of_a_batch_have_their_own_expiry() {
    let store = open(&SimDisk::new());
    let mut batch = Batch::new();
    for key in [b"plain", b"again"] {
        batch = batch.put_ttl(key, b"old", Duration::from_millis(1));
    }
    batch = batch.put(b"plain", b"1").put_ttl(b"ttl", b"2", Duration::from_millis(5));
    batch = batch.put_expiring(b"at", b"3", Expiry::At(START + 8));
    batch = batch.put_expiring(b"never", b"4", Expiry::Never).delete(b"again");
    let of = |store: &LogStore, key: &[u8]| shown(store, key).map(|(_, expiry)| expiry);
    for (options, plain) in [
        (WriteOptions::default(), Expiry::Never),
        (ttl(20), Expiry::At(START + 20)),
        (WriteOptions::sync().expiry(Expiry::At(START + 30)), Expiry::At(START + 30)),
    ] {
        store.write_with(&batch, options).unwrap();
        assert_eq!(of(&store, b"plain"), Some(plain), "{options:?}");
        assert_eq!(of(&store, b"ttl"), Some(Expiry::At(START + 5)), "{options:?}");
        assert_eq!(of(&store, b"at"), Some(Expiry::At(START + 8)), "{options:?}");
        assert_eq!(of(&store, b"never"), Some(Expiry::Never), "{options:?}");
        assert_eq!(of(&store, b"again"), None, "{options:?}");
    }
    // The same batch, written later: times to live begin then.
    NOW.set(START + 100);
    store.write(&batch).unwrap();
    assert_eq!(of(&store, b"ttl"), Some(Expiry::At(START + 105)));
    assert_eq!(of(&store, b"at"), None, "a time that has passed");
}

#[test]
fn options_combine() {
    let (sync, hour) = (WriteOptions::sync(), Duration::from_secs(3600));
    let both = sync.ttl(hour);
    assert_eq!(both, WriteOptions::new().ttl(hour).durability(Durability::Sync));
    assert_eq!(
        (both.durability, both.ttl, both.expiry),
        (Some(Durability::Sync), Some(hour), None)
    );
    let at = both.expiry(Expiry::At(7));
    assert_eq!((at.durability, at.ttl, at.expiry), (sync.durability, None, Some(Expiry::At(7))));
    assert_eq!(at.ttl(hour), both);
}

#[test]
fn times_do_not_overflow() {
    let store = open(&SimDisk::new());
    for (now, ttl, expected) in [
        (START, Duration::MAX, u64::MAX),
        (START, Duration::from_millis(u64::MAX), u64::MAX),
        (START, Duration::from_millis(u64::MAX - START), u64::MAX),
        (START, Duration::from_millis(u64::MAX - START - 1), u64::MAX - 1),
        (u64::MAX - 1, Duration::from_millis(5), u64::MAX),
        (0, Duration::from_nanos(1_999_999), 1),
    ] {
        NOW.set(now);
        store.put_with(b"k", b"v", WriteOptions::new().ttl(ttl)).unwrap();
        assert_eq!(shown(&store, b"k").unwrap().1, Expiry::At(expected), "{ttl:?} after {now}");
        store.write(&Batch::new().put_ttl(b"b", b"v", ttl)).unwrap();
        assert_eq!(shown(&store, b"b").unwrap().1, Expiry::At(expected), "{ttl:?} after {now}");
    }
    // The clock at its largest value: every record with an expiry has expired, and writes work.
    NOW.set(u64::MAX);
    store.put_with(b"k", b"v", ttl(1)).unwrap();
    assert_eq!(shown(&store, b"k"), None);
    store.put(b"k", b"stays").unwrap();
    assert!(shown(&store, b"k").is_some());
    // A time to live of zero, and a time that has passed.
    NOW.set(START);
    for options in [ttl(0), WriteOptions::new().ttl(Duration::from_nanos(999_999))] {
        store.put_with(b"k", b"v", options).unwrap();
        assert_eq!(shown(&store, b"k"), None);
    }
    for at in [0, START - 1, START] {
        let past = WriteOptions::default().expiry(Expiry::At(at));
        store.put_with(b"k", b"v", past).unwrap();
        assert_eq!(shown(&store, b"k"), None, "at {at}");
    }
}

/// Keys with all kinds of expiries, written in different ways.
fn fill(store: &LogStore) -> Vec<(Vec<u8>, Option<Expiry>)> {
    let mut expected = Vec::new();
    for n in 0..40u64 {
        let key = format!("key {n}").into_bytes();
        let at = Expiry::At(match n % 4 {
            0 => START + 100 + n,
            1 => START - n, // Has passed.
            2 => u64::MAX,
            _ => 1 << (n + 21),
        });
        store.put(&key, [7; 150]).unwrap();
        let until = WriteOptions::default().expiry(at);
        let mut expiry = at;
        match n / 4 % 5 {
            0 => store.put_with(&key, [n as u8; 90], until).unwrap(),
            1 => assert!(store.set_expiry(&key, at).unwrap()),
            2 => store.write(&Batch::new().put_expiring(&key, b"batch", at)).unwrap(),
            3 => {
                store.put_with(&key, [1; 60], until).unwrap();
                store.append(&key, b"more").unwrap();
                expiry = if n % 4 == 1 { Expiry::Never } else { at };
            }
            _ => expiry = Expiry::Never,
        }
        let is_there = expiry.millis().is_none_or(|at| at > START);
        expected.push((key, is_there.then_some(expiry)));
    }
    expected
}

/// The disk without some files of the store.
pub(crate) fn without(disk: &Arc<SimDisk>, goes: impl Fn(&str) -> bool) -> Arc<SimDisk> {
    let disk = disk.fork();
    for name in disk.list(Path::new(DIR)).unwrap().iter().filter(|name| goes(name)) {
        disk.remove(&Path::new(DIR).join(name)).unwrap();
    }
    disk
}

/// A disk on which another store replaces the store.
fn replaced_by(disk: &Arc<SimDisk>, from: &str) -> Arc<SimDisk> {
    let disk = without(disk, |_| true);
    for name in disk.list(Path::new(from)).unwrap() {
        disk.link(&Path::new(from).join(&name), &Path::new(DIR).join(&name)).unwrap();
        disk.remove(&Path::new(from).join(&name)).unwrap();
    }
    disk.fork()
}

pub(crate) fn is_checkpoint(name: &str) -> bool {
    name == CHECKPOINT
}

pub(crate) fn is_help(name: &str) -> bool {
    is_checkpoint(name) || hint_number(name).is_some()
}

fn read_only(disk: &Arc<SimDisk>) -> LogStore {
    let options = Options { read_only: true, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

pub(crate) fn repaired(disk: &Arc<SimDisk>) -> Arc<SimDisk> {
    let disk = disk.fork();
    let (on, to) = (Arc::clone(&disk) as DiskRef, Path::new("/repaired"));
    LogStore::repair_on(&on, Path::new(DIR), to, options(), |_, _| ()).unwrap();
    replaced_by(&disk, "/repaired")
}

pub(crate) fn backed_up(disk: &Arc<SimDisk>, store: &LogStore, times: usize) -> Arc<SimDisk> {
    for _ in 0..times {
        store.put(b"other", b"1").unwrap();
        store.backup(Path::new("/copy")).unwrap();
    }
    replaced_by(disk, "/copy")
}

/// A copy through the public API.
fn copied(store: &LogStore) -> Arc<SimDisk> {
    let (disk, snapshot) = (SimDisk::new(), store.snapshot());
    let (copy, mut all, mut batch) = (open(&disk), snapshot.iter(), Batch::new());
    let mut put = |entry: Entry| {
        batch = std::mem::take(&mut batch).put_expiring(entry.key, entry.value, entry.expiry);
    };
    while let Some(next) = all.next_entry_with(&mut put) {
        next.unwrap();
    }
    copy.write(&batch).unwrap();
    disk
}

/// A reader that is refreshed after everything was written again.
fn refreshed(disk: &Arc<SimDisk>, store: &LogStore) -> LogStore {
    let reader = read_only(disk);
    let all: Vec<_> = store.snapshot().keys().map(Result::unwrap).collect();
    all.iter().for_each(|key| assert!(store.append(key, b"+").unwrap() > 0));
    store.maintain().unwrap();
    reader.refresh().unwrap();
    reader
}

/// Performs an operation on a store. Returns the resulting disk and store.
type Copy_ = (&'static str, fn(&Arc<SimDisk>, LogStore) -> (Arc<SimDisk>, LogStore));

/// Every path that copies a record or finds it again. No other path follows the last two.
const COPIES: [Copy_; 12] = [
    ("closed and opened", |disk, store| {
        store.close().unwrap();
        (Arc::clone(disk), open(disk))
    }),
    ("found after the process died", |disk, _| opened(disk.fork())),
    ("opened from hints", |disk, store| {
        store.close().unwrap();
        opened(without(disk, is_checkpoint))
    }),
    ("opened from records alone", |disk, store| {
        store.close().unwrap();
        opened(without(disk, is_help))
    }),
    ("compacted", |disk, store| {
        store.compact(0.0).unwrap();
        (Arc::clone(disk), store)
    }),
    ("kept up", |disk, store| {
        while store.maintain().unwrap() {}
        (Arc::clone(disk), store)
    }),
    ("backed up", |disk, store| opened(backed_up(disk, &store, 1))),
    ("backed up twice", |disk, store| opened(backed_up(disk, &store, 2))),
    ("repaired", |disk, store| {
        store.close().unwrap();
        opened(repaired(disk))
    }),
    ("copied by a program", |_, store| opened(copied(&store))),
    ("opened for reading", |disk, _| (Arc::clone(disk), read_only(disk))),
    ("refreshed", |disk, store| (Arc::clone(disk), refreshed(disk, &store))),
];

pub(crate) fn opened(disk: Arc<SimDisk>) -> (Arc<SimDisk>, LogStore) {
    let store = open(&disk);
    (disk, store)
}

#[test]
fn every_copy_keeps_the_expiry() {
    for (first, copy) in &COPIES[..10] {
        for (second, again) in COPIES {
            NOW.set(START);
            let disk = SimDisk::new();
            let store = open(&disk);
            let expected = fill(&store);
            let (disk, store) = copy(&disk, store);
            let (_disk, store) = again(&disk, store);
            for (key, expiry) in &expected {
                let found = shown(&store, key).map(|(_, expiry)| expiry);
                assert_eq!(found, *expiry, "{} {first}, then {second}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn expired_records_count_until_they_are_removed() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let expected = fill(&store);
    let there = expected.iter().filter(|(_, expiry)| expiry.is_some()).count() as u64;
    let expired = store.len() - there;
    assert!(expired > 5, "{expired}");
    let passed = |store: &LogStore| {
        let snapshot = store.snapshot();
        let mut all = snapshot.iter();
        assert_eq!(all.by_ref().map(Result::unwrap).count() as u64, there);
        all.expired()
    };
    assert_eq!((passed(&store), store.stats().keys), (expired, 40));
    store.compact(0.0).unwrap();
    // Deletes replace the expired records that hide older ones, until those are removed too.
    assert_eq!((passed(&store), store.len()), (0, there));
    store.verify().unwrap();
    assert_eq!(store.len(), there);
}

/// A caller can stop between two records that are shown, however many are not.
#[test]
fn a_step_of_a_range_examines_few_records() {
    let options = Options { ordered: true, ..options() };
    let disk = SimDisk::new() as DiskRef;
    let store = LogStore::open_on(disk, Path::new(DIR), options).unwrap();
    for n in 0..1000 {
        store.put_with(format!("{n:04}"), "expired", ttl(1)).unwrap();
    }
    store.put("shown", "").unwrap();
    NOW.set(START + 10);
    let mut range = store.range(..).unwrap();
    let mut steps: u64 = 0;
    let found = loop {
        let before = range.expired();
        let step = range.step_with(|entry| entry.key.to_vec()).unwrap().unwrap();
        assert!(range.expired() - before <= 64);
        steps += 1;
        if let Some(found) = step {
            break found;
        }
    };
    assert_eq!((&found[..], range.expired()), (&b"shown"[..], 1000));
    assert!(steps > 10, "{steps}");
    assert!(range.step_with(|_| ()).is_none());
    assert_eq!(store.range(..).unwrap().map(Result::unwrap).count(), 1);
    NOW.set(START);
}
