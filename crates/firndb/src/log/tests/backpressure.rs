//! Writers that are ahead of the upkeep: they wait a little, and go on.

use super::{DIR, open, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::tests::Steps;
use crate::log::write::acknowledge::WAIT;
use crate::log::{LogStore, Options};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SEGMENTS: usize = 80;
/// Not so small that they get larger because they are many.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Fills about this many segments, with the same few keys over and over.
fn fill(store: &LogStore, segments: usize) {
    for n in 0..segments * 4 {
        store.put(&[(n % 3) as u8], &[n as u8; 4000]).unwrap();
    }
}

/// A store whose upkeep is done by its threads.
fn with_threads() -> LogStore {
    open_with(true)
}

fn open_with(background: bool) -> LogStore {
    let options = Options { background, segment_bytes: SEGMENT_BYTES, ..options() };
    LogStore::open_on(SimDisk::new() as DiskRef, Path::new(DIR), options).unwrap()
}

/// Does all upkeep there is; the first segment after the others were sealed says that they were.
fn catch_up(store: &LogStore) {
    while store.maintain().unwrap() {}
    store.roll().unwrap();
    while store.maintain().unwrap() {}
    assert_eq!(store.shared.backpressure.behind(), 0, "{:?}", store.stats());
}

#[test]
fn the_upkeep_catches_up_by_itself_and_needs_no_more_than_its_bound() {
    let store = open_with(false);
    fill(&store, SEGMENTS);
    let unsealed = store.shared.backpressure.behind();
    assert!(unsealed > SEGMENTS as u64 / 2, "{unsealed}");
    catch_up(&store);
    let stats = store.stats();
    // Live bytes / (1 - threshold), the active segment, and one that was sealed last.
    assert!(stats.disk_bytes <= 2 * stats.live_bytes + 2 * SEGMENT_BYTES, "{stats:?}");
}

#[test]
fn needed_deletes_are_not_taken_for_work_left() {
    let store = open(&SimDisk::new()).unwrap();
    for n in 0..600u16 {
        store.put(&n.to_be_bytes(), &[1; 100]).unwrap();
    }
    while store.maintain().unwrap() {}
    for n in (0..600u16).step_by(3) {
        store.delete(&n.to_be_bytes()).unwrap();
    }
    catch_up(&store);
}

#[test]
fn writers_go_on_while_the_upkeep_is_stuck() {
    let store = with_threads();
    let stuck = store.shared.maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    assert!(store.shared.backpressure.behind() > SEGMENTS as u64 / 2, "nothing could be sealed");
    drop(stuck);
    let started = Instant::now();
    while store.shared.backpressure.behind() > 2 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(store.shared.backpressure.behind() <= 2, "the threads of the store go on");
    assert_eq!(store.get(&[2]).unwrap().map(|value| value.len()), Some(4000));
}

#[test]
fn a_writer_that_is_far_ahead_waits_a_little_now_and_then() {
    let store = with_threads();
    let _stuck = store.shared.maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    assert!(store.shared.backpressure.behind() > store.shared.backpressure.allowed());
    let waited = || store.shared.backpressure.waited.load(Ordering::Relaxed);
    let (mut waits, mut last) = (0, waited());
    for n in 0..400u16 {
        let started = Instant::now();
        store.put(&[3], &[n as u8; 4000]).unwrap();
        if waited() != last {
            last = waited();
            waits += 1;
            assert!(started.elapsed() >= WAIT, "it goes on only when the upkeep did something");
        }
    }
    // 1.6 MB of log.
    assert!((5..=25).contains(&waits), "{waits} waits");
}

#[test]
fn writers_wait_for_the_upkeep_where_segments_get_too_many() {
    let store = with_threads();
    let stuck = store.shared.maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    let (behind, allowed) =
        (store.shared.backpressure.behind(), store.shared.backpressure.allowed());
    assert!(behind > allowed, "{behind} segments behind, {allowed} may be");
    store.shared.backpressure.is_crowded.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let put = scope
            .spawn(|| store.put(b"another", b"value").map(|()| store.shared.backpressure.behind()));
        // Longer than a put waits otherwise.
        std::thread::sleep(Duration::from_millis(100));
        assert!(!put.is_finished(), "{behind} segments behind, and nothing was sealed");
        drop(stuck);
        let left = put.join().unwrap().unwrap();
        assert!(left <= allowed, "{left} of {behind} segments behind");
    });
}
