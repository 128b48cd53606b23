//! The results that threads saw of a few keys, checked for linearizability: there is an order of
//! all calls, each at some moment between its beginning and its end, in which a plain variable
//! would have given the same answers. For each key by itself, by trying orders (Wing and Gong,
//! 1993).

use super::{Rng, setting};
use crate::disk::{DiskRef, SimDisk};
use crate::log::failpoints::active;
use crate::log::{LogStore, Options};
use std::collections::HashSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

const THREADS: u64 = 4;
const CALLS: u64 = 8;
const KEYS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The value that was found; 0 if there was none.
    Get(u64),
    Put(u64),
    /// Whether there was something to delete.
    Delete(bool),
    /// Expected value, new value, and whether it was set.
    Swap(u64, u64, bool),
    /// An update that always writes: the value it saw, and the one it wrote.
    Update(u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    key: u64,
    call: Call,
    from: u64,
    to: u64,
}

impl Call {
    /// The value after this call, if its result is possible with the value before.
    fn after(self, value: u64) -> Option<u64> {
        match self {
            Call::Get(found) => (found == value).then_some(value),
            Call::Put(new) => Some(new),
            Call::Delete(was_there) => (was_there == (value != 0)).then_some(0),
            Call::Swap(old, new, true) => (old == value).then_some(new),
            Call::Swap(old, _, false) => (old != value).then_some(value),
            Call::Update(saw, new) => (saw == value).then_some(new),
        }
    }
}

/// Whether there is an order of these calls (at most 64, on one key) that explains them.
fn is_linearizable(events: &[Event]) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, 0u64)];
    let all = (1u128 << events.len()) as u64;
    while let Some((done, value)) = open.pop() {
        if done == all.wrapping_sub(1) {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let left = || events.iter().enumerate().filter(|(n, _)| done >> n & 1 == 0);
        // The next call in the order began before any other one ended.
        let first_end = left().map(|(_, event)| event.to).min().unwrap_or(0);
        for (n, event) in left().filter(|(_, event)| event.from < first_end) {
            open.extend(event.call.after(value).map(|value| (done | 1 << n, value)));
        }
    }
    false
}

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// One call, with the ticks of a common clock before and after.
fn call(store: &LogStore, clock: &AtomicU64, random: &mut Rng, round: u64, id: u64) -> Event {
    let key = random.below(KEYS);
    let name = format!("{round} {key}").into_bytes();
    let value = id.to_le_bytes().repeat(1 + id as usize % 9);
    let kind = random.below(10);
    let from = clock.fetch_add(1, Ordering::SeqCst);
    let call = match kind {
        0..4 => Call::Get(number(store.get(&name).unwrap().as_deref())),
        4..6 => {
            store.put(&name, &value).unwrap();
            Call::Put(id)
        }
        6 => Call::Delete(store.delete(&name).unwrap()),
        7 => {
            let old = store.get(&name).unwrap();
            let from = clock.fetch_add(1, Ordering::SeqCst);
            let did = store.compare_and_set(&name, old.as_deref(), Some(&value)).unwrap();
            let call = Call::Swap(number(old.as_deref()), id, did);
            return Event { key, call, from, to: clock.fetch_add(1, Ordering::SeqCst) };
        }
        _ => {
            let mut saw = 0;
            let change = |old: Option<&[u8]>| {
                saw = number(old);
                Some(value.clone())
            };
            store.update(&name, change).unwrap();
            Call::Update(saw, id)
        }
    };
    Event { key, call, from, to: clock.fetch_add(1, Ordering::SeqCst) }
}

/// Runs a thread, and ends the process if it panics: the other threads would wait for it forever.
fn or_end_all(work: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
    let text = panic.downcast_ref::<String>().map_or("a thread panicked", String::as_str);
    // Bypasses the capture of test output.
    let _ = writeln!(std::io::stderr(), "histories: {text}");
    std::process::exit(101);
}

/// Many short histories on a store that is compacted continuously.
fn histories(store: &LogStore, rounds: u64, seed: u64) {
    let (clock, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let (barrier, events) = (Barrier::new(THREADS as usize), Mutex::new(Vec::new()));
    let failure: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (clock, is_over, barrier) = (&clock, &is_over, &barrier);
            let (events, failure) = (&events, &failure);
            scope.spawn(move || {
                or_end_all(|| {
                    let mut random = Rng(seed << 8 | thread);
                    for round in 0..rounds {
                        barrier.wait();
                        let mut mine = Vec::new();
                        for n in 0..CALLS {
                            let id = (round * THREADS + thread) * CALLS + n + 1;
                            mine.push(call(store, clock, &mut random, round, id));
                        }
                        events.lock().unwrap().extend(mine);
                        if barrier.wait().is_leader() {
                            let events = std::mem::take(&mut *events.lock().unwrap());
                            for key in 0..KEYS {
                                let of_key: Vec<Event> =
                                    events.iter().filter(|e| e.key == key).copied().collect();
                                if !is_linearizable(&of_key) {
                                    let what = format!("seed {seed}, round {round}: {of_key:#?}");
                                    failure.lock().unwrap().get_or_insert(what);
                                }
                            }
                        }
                    }
                    is_over.store(true, Ordering::SeqCst);
                })
            });
        }
        scope.spawn(|| {
            or_end_all(|| {
                while !is_over.load(Ordering::SeqCst) {
                    store.compact(0.1).unwrap();
                    std::thread::yield_now();
                }
            })
        });
    });
    if let Some(what) = failure.into_inner().unwrap() {
        panic!("no order explains this: {what}");
    }
    println!("histories: seed={seed} rounds={rounds} calls={} wrong=0", rounds * THREADS * CALLS);
}

#[test]
fn every_history_is_linearizable() {
    let rounds = setting("FIRNDB_HISTORIES", 3000);
    // The fewest shards that hold the keys of the longest run.
    let index_bits = 2 + (1 + rounds / 80_000).next_power_of_two().ilog2();
    let options = Options { segment_bytes: 16 << 10, index_bits, ..Options::default() };
    let disk: DiskRef = SimDisk::new();
    let store = LogStore::open_on(disk, Path::new(super::DIR), options.clone()).unwrap();
    histories(&store, rounds / 2, 1);
    store.close().unwrap();
    // Keys that share a hash.
    active::STORE.set(Some(active::coarse(10, 3)));
    let store = LogStore::open_on(SimDisk::new(), Path::new(super::DIR), options.clone()).unwrap();
    active::STORE.set(None);
    // A thousand hashes for all keys.
    histories(&store, (rounds / 4).min(25_000), 3);
    store.close().unwrap();
    let dir = std::env::temp_dir().join(format!("firndb-histories-{}", std::process::id()));
    let store = LogStore::open_with(&dir, options).unwrap();
    histories(&store, rounds / 2, 2);
    store.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn histories_that_are_not_linearizable_are_noticed() {
    let event = |call, from, to| Event { key: 0, call, from, to };
    let put = event(Call::Put(7), 0, 10);
    // A get during the put may see it or not; a get after it must.
    for (found, from, expected) in [(0, 5, true), (7, 5, true), (0, 11, false), (7, 11, true)] {
        let get = event(Call::Get(found), from, from + 1);
        assert_eq!(is_linearizable(&[put, get]), expected, "{found} at {from}");
    }
    // New, then old: two successive gets during the put.
    let gets = [event(Call::Get(7), 1, 2), event(Call::Get(0), 3, 4)];
    assert!(!is_linearizable(&[put, gets[0], gets[1]]));
    assert!(is_linearizable(&[put, event(Call::Get(0), 1, 2), event(Call::Get(7), 3, 4)]));
    // Two updates that saw the same value: one of them was lost.
    let updates = [event(Call::Update(0, 1), 0, 5), event(Call::Update(0, 2), 1, 6)];
    assert!(!is_linearizable(&updates));
    let both = [event(Call::Delete(true), 11, 20), event(Call::Delete(true), 12, 21)];
    assert!(!is_linearizable(&[put, both[0], both[1]]), "deleted twice");
    let swap = event(Call::Swap(0, 9, true), 11, 12);
    assert!(!is_linearizable(&[put, swap]), "swapped a value that was gone");
}
