//! Writers that are ahead of maintenance wait briefly and continue.

use super::{DIR, open, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::tests::Steps;
use crate::log::write::acknowledge::{CROWDED_WAIT, WAIT};
use crate::log::{LogStore, Options};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SEGMENTS: usize = 80;
/// Large enough that segments do not grow with their number.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Fills about this many segments by overwriting a few keys.
fn fill(store: &LogStore, segments: usize) {
    for n in 0..segments * 4 {
        store.put([(n % 3) as u8], [n as u8; 4000]).unwrap();
    }
}

/// A store with maintenance threads.
fn with_threads() -> LogStore {
    open_with(true)
}

fn open_with(background: bool) -> LogStore {
    let options = Options { background, segment_bytes: SEGMENT_BYTES, ..options() };
    LogStore::open_on(SimDisk::new() as DiskRef, Path::new(DIR), options).unwrap()
}

/// Does all maintenance that is due. The first segment after the others were sealed states their
/// durability.
fn catch_up(store: &LogStore) {
    while store.maintain().unwrap() {}
    store.roll().unwrap();
    while store.maintain().unwrap() {}
    assert_eq!(store.writable().backpressure.behind(), 0, "{:?}", store.stats());
}

#[test]
fn maintenance_catches_up_within_its_size_bound() {
    let store = open_with(false);
    fill(&store, SEGMENTS);
    let unsealed = store.writable().backpressure.behind();
    assert!(unsealed > SEGMENTS as u64 / 2, "{unsealed}");
    catch_up(&store);
    let stats = store.stats();
    // Live bytes / (1 - threshold), the active segment, and the one that was sealed last.
    assert!(stats.disk_bytes <= 2 * stats.live_bytes + 2 * SEGMENT_BYTES, "{stats:?}");
}

#[test]
fn needed_deletes_do_not_count_as_excess() {
    let store = open(&SimDisk::new()).unwrap();
    for n in 0..600u16 {
        store.put(n.to_be_bytes(), [1; 100]).unwrap();
    }
    while store.maintain().unwrap() {}
    for n in (0..600u16).step_by(3) {
        store.delete(n.to_be_bytes()).unwrap();
    }
    catch_up(&store);
}

#[test]
fn writers_continue_while_maintenance_is_stuck() {
    let store = with_threads();
    let stuck = store.writable().maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    assert!(
        store.writable().backpressure.behind() > SEGMENTS as u64 / 2,
        "nothing could be sealed"
    );
    drop(stuck);
    let started = Instant::now();
    while store.writable().backpressure.behind() > 2 && started.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(store.writable().backpressure.behind() <= 2, "the threads of the store continue");
    assert_eq!(store.get([2]).unwrap().map(|value| value.len()), Some(4000));
}

#[test]
fn a_writer_that_is_far_ahead_waits_once_per_interval() {
    let store = with_threads();
    let _stuck =
        store.writable().maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    assert!(store.writable().backpressure.behind() > store.writable().backpressure.allowed());
    let waited = || store.writable().backpressure.waited.load(Ordering::Relaxed);
    let (mut waits, mut last) = (0, waited());
    for n in 0..400u16 {
        let started = Instant::now();
        store.put([3], [n as u8; 4000]).unwrap();
        if waited() != last {
            last = waited();
            waits += 1;
            // Maintenance is stuck, so a put that waits does so to the end.
            assert!(
                started.elapsed() >= WAIT,
                "it returns early only if maintenance has caught up"
            );
        }
    }
    // 1.6 MB of log.
    assert!((5..=25).contains(&waits), "{waits} waits");
}

/// A put in a crowded store returns when maintenance has caught up, or after [`CROWDED_WAIT`].
#[test]
fn writers_of_a_crowded_store_wait_for_maintenance() {
    let store = with_threads();
    let stuck = store.writable().maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    fill(&store, SEGMENTS);
    let (behind, allowed) =
        (store.writable().backpressure.behind(), store.writable().backpressure.allowed());
    assert!(behind > allowed, "{behind} segments behind, {allowed} may be");
    store.writable().backpressure.is_crowded.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| {
            let started = Instant::now();
            store.put(b"another", b"value").unwrap();
            (started.elapsed(), store.writable().backpressure.behind())
        });
        // Other stores' puts return after a fiftieth of this.
        let started = Instant::now();
        while !put.is_finished() && started.elapsed() < 50 * WAIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(stuck);
        let (waited, left) = put.join().unwrap();
        let has_waited = left <= allowed || waited >= CROWDED_WAIT;
        assert!(has_waited, "{left} of {behind} segments behind after {waited:?}");
    });
}
