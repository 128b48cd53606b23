//! A store with one byte changed or one file truncated: the right answer, or an error with the
//! position; never another value, never a panic.

use super::oracle::{History, content, open_at, visible};
use super::work::Run;
use super::{DIR, Rng};
use crate::ErrorKind;
use crate::disk::{Disk, SimDisk};
use crate::log::failpoints::active;
use std::path::Path;
use std::sync::Arc;

/// A small store with all kinds of files and records, closed or not.
fn store(is_closed: bool) -> (Arc<SimDisk>, History) {
    active::STORE.set(Some(77));
    let disk = SimDisk::new();
    let mut run = Run::begin(&disk, 1, false);
    for n in 0..4 {
        run.put(n, 120, false);
        run.put(n + 1, 60, false);
    }
    run.delete(2, false);
    run.roll();
    run.batch(&[0, 1, 2, 3], 40, false);
    run.put_until(5, 30, false, Some(1_000_000));
    run.roll();
    run.checkpoint();
    run.delete(3, false);
    run.put(6, 200, false);
    run.roll();
    run.maintain(1);
    run.put(7, 50, false);
    run.delete(0, true);
    if is_closed {
        run.reopen();
    }
    assert_eq!(run.wrong, None);
    let mut history = run.end();
    // After the state at the end of the last durable segment, damage looks like a torn write.
    history.durable = 0;
    (disk, history)
}

#[derive(Debug, Default)]
struct Sums {
    right: u64,
    older: u64,
    refused: u64,
}

/// Opens and reads a store with one file replaced. After a power cut, damage in the last segment
/// looks like a torn write: there (`may_be_torn`), and only there, an older state is right.
fn try_it(
    base: &SimDisk,
    history: &History,
    (path, bytes): (&Path, &[u8]),
    may_be_torn: bool,
    sums: &mut Sums,
) -> Result<(), String> {
    let disk = base.fork();
    disk.write_raw(path, bytes);
    let store = match open_at(&disk, DIR) {
        Ok(store) => store,
        Err(e) if is_honest(e.kind()) => {
            sums.refused += 1;
            return Ok(());
        }
        Err(e) => return Err(format!("opening: {e}")),
    };
    let expected = visible(history.last(), history.now);
    let (mut found, mut errors) = ([0; super::KEYS], 0);
    for n in 0..super::KEYS {
        match store.get(super::key(n)) {
            Ok(value) => {
                let id = value.as_deref().and_then(|v| v.first_chunk());
                found[n] = id.map_or(0, |bytes| u32::from_le_bytes(*bytes));
                if value.is_some_and(|value| value != super::oracle::value_of(found[n])) {
                    return Err(format!("key {n} has a value that was never written"));
                }
            }
            Err(e) if is_honest(e.kind()) => {
                errors += 1;
                found[n] = expected[n];
            }
            Err(e) => return Err(format!("get: {e}")),
        }
    }
    // These may fail but must not panic.
    let _ = (store.verify(), store.snapshot().iter().count());
    // A checkpoint may contain deletes of the lost segment, so keys are compared one by one.
    let had = |n: usize| history.states.iter().any(|s| visible(s, history.now)[n] == found[n]);
    let older = (0..super::KEYS).all(had);
    match () {
        () if errors > 0 && found == expected => sums.refused += 1,
        () if found == expected && content(&store) == Ok(expected) => sums.right += 1,
        () if may_be_torn && older => sums.older += 1,
        () => return Err(format!("found {found:?}, not {expected:?}")),
    }
    let _ = store.compact(0.0);
    let _ = store.close();
    Ok(())
}

fn is_honest(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::UnsupportedVersion | ErrorKind::NotFound)
}

fn damage(is_closed: bool) {
    let (disk, history) = store(is_closed);
    let base = disk.images(0, 1).pop().unwrap().1;
    let files = base.files();
    let last = files.keys().filter(|path| path.extension().is_some_and(|e| e == "log")).max();
    let last = last.cloned().unwrap();
    let (mut sums, mut random, mut count) = (Sums::default(), Rng(5), 0);
    for (path, bytes) in files.iter().filter(|(path, _)| !path.ends_with("lock")) {
        let may_be_torn = !is_closed && *path == last;
        // After the records of a segment there are zeros; testing a few of them is enough.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        let places = (0..bytes.len()).filter(|&at| at < used + 70 || at % 331 == 0);
        for at in places {
            for new in [bytes[at] ^ 0xFF, 0, bytes[at] ^ 1 << random.below(8)] {
                let mut damaged = bytes.clone();
                damaged[at] = new;
                count += 1;
                try_it(&base, &history, (path, &damaged), may_be_torn, &mut sums)
                    .unwrap_or_else(|e| panic!("{path:?}, byte {at} is {new}: {e}"));
            }
        }
        for length in (0..bytes.len()).filter(|&l| l < used + 70 || l % 331 == 0) {
            count += 1;
            try_it(&base, &history, (path, &bytes[..length]), may_be_torn, &mut sums)
                .unwrap_or_else(|e| panic!("{path:?}, cut at {length}: {e}"));
        }
    }
    println!("damage: closed={is_closed} changes={count} {sums:?} wrong=0");
    assert!(sums.right > 0 && sums.refused > 0);
}

#[test]
fn a_damaged_byte_gives_the_right_answer_or_an_error() {
    damage(true);
}

#[test]
fn a_damaged_byte_after_a_power_cut_gives_the_right_answer_or_an_error() {
    damage(false);
}

/// The smallest store: one segment, closed. Damage to no byte may make its records vanish, and the
/// store must never be taken for a new one.
#[test]
fn damage_in_the_only_segment_of_a_closed_store_is_noticed() {
    active::STORE.set(Some(77));
    let base = SimDisk::new();
    let store = open_at(&base, DIR).unwrap();
    store.put(b"first", b"value").unwrap();
    store.put(b"last", b"value").unwrap();
    store.close().unwrap();
    let (path, bytes) =
        base.files().into_iter().find(|(p, _)| p.extension().is_some_and(|e| e == "log")).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let open = |bytes: Option<&[u8]>| {
        let disk = base.fork();
        match bytes {
            Some(bytes) => disk.write_raw(&path, bytes),
            None => disk.remove(&path).unwrap(),
        }
        open_at(&disk, DIR).and_then(|store| Ok((store.get(b"first")?, store.get(b"last")?)))
    };
    let whole = open(Some(&bytes)).unwrap();
    for at in 0..used {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match open(Some(&damaged)) {
            Ok(found) => assert_eq!(found, whole, "byte {at}"),
            Err(e) => assert!(is_honest(e.kind()), "byte {at}: {e}"),
        }
    }
    for length in 0..used {
        let error = open(Some(&bytes[..length])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {length}: {error}");
    }
    let error = open(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let mut last_byte = bytes.clone();
    last_byte[used - 1] ^= 1;
    let error = open(Some(&last_byte)).unwrap_err();
    assert_eq!(error.file(), Some(path.as_path()));
    assert!(error.offset().is_some() && error.message().contains("repair"), "{error}");
}
