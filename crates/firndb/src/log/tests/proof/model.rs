//! Long random work on a store with tiny segments, compared with a map.

use super::{DIR, Rng, options, setting};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::failpoints::active;
use crate::log::{Batch, Expiry, LogStore, Snapshot, WriteOptions};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Values, and when they expire.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
/// The expected content of a snapshot.
type Visible = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 120;

struct Model {
    disk: Arc<SimDisk>,
    store: LogStore,
    map: Map,
    snapshots: Vec<(Snapshot, Visible)>,
    random: Rng,
}

fn open(disk: &Arc<SimDisk>) -> LogStore {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options()).unwrap()
}

impl Model {
    fn key(&mut self) -> Vec<u8> {
        let n = self.random.below(KEYS);
        // Keys of very different lengths, including the empty key.
        format!("{n:x}").repeat(if n.is_multiple_of(11) { n as usize } else { 1 }).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let longest = if self.random.percent(2) { 5000 } else { 160 };
        let (length, byte) = (self.random.below(longest), self.random.next() as u8);
        vec![byte; length as usize]
    }

    fn visible(&self) -> Visible {
        let now = super::now();
        let there = self.map.iter().filter(|(_, (_, expires))| *expires > now);
        there.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (value, expires) = self.map.get(key)?;
        (*expires > super::now()).then_some(value)
    }

    /// The expiry of a key after an update: as before, or none if the key was absent.
    fn kept(&self, key: &[u8]) -> u64 {
        self.map
            .get(key)
            .map_or(u64::MAX, |(_, at)| if *at > super::now() { *at } else { u64::MAX })
    }

    fn step(&mut self) {
        let key = self.key();
        match self.random.below(1000) {
            0..450 => {
                let value = self.value();
                self.store.put(&key, &value).unwrap();
                self.map.insert(key, (value, u64::MAX));
            }
            450..650 => {
                let there = self.get(&key).is_some();
                assert_eq!(self.store.delete(&key).unwrap(), there);
                self.map.remove(&key);
            }
            650..720 => self.batch(),
            720..780 => {
                let (value, ttl) = (self.value(), self.random.below(500));
                let options = WriteOptions::new().ttl(Duration::from_millis(ttl));
                self.store.put_with(&key, &value, options).unwrap();
                self.map.insert(key, (value, super::now() + ttl));
            }
            780..820 => {
                let mut expected = self.get(&key).unwrap_or_default().to_vec();
                expected.push(1);
                let (length, kept) = (self.store.append(&key, [1]).unwrap(), self.kept(&key));
                assert_eq!(length, expected.len() as u64);
                self.map.insert(key, (expected, kept));
            }
            820..830 => {
                let at = super::now() + self.random.below(500);
                let at = if self.random.percent(30) { u64::MAX } else { at };
                let expiry = if at == u64::MAX { Expiry::Never } else { Expiry::At(at) };
                let there = self.get(&key).is_some();
                assert_eq!(self.store.set_expiry(&key, expiry).unwrap(), there);
                if there {
                    self.map.get_mut(&key).unwrap().1 = at;
                }
            }
            830..840 => {
                let (old, new) = (self.get(&key).map(<[u8]>::to_vec), self.value());
                let kept = self.kept(&key);
                assert!(self.store.compare_and_set(&key, old.as_deref(), Some(&new)).unwrap());
                let is_other = self.store.compare_and_set(&key, Some(b"never there"), None);
                assert!(!is_other.unwrap());
                self.map.insert(key, (new, kept));
            }
            840..950 => drop(self.store.maintain().unwrap()),
            950..958 => super::NOW.set(super::now() + self.random.below(100)),
            958..964 => {
                let threshold = self.random.below(10) as f64 / 10.0;
                self.store.compact(threshold).unwrap();
            }
            964..974 => self.snapshot(),
            974..978 => self.reopen(),
            978 => self.compare(),
            979..981 => self.store.sync().unwrap(),
            _ => assert_eq!(self.store.get(&key).unwrap().as_deref(), self.get(&key)),
        }
    }

    fn batch(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..self.random.below(8) {
            let (key, value) = (self.key(), self.value());
            if self.random.percent(30) {
                batch.push_delete(&key);
                self.map.remove(&key);
            } else if self.random.percent(20) {
                let ttl = self.random.below(500);
                batch = batch.put_ttl(&key, &value, Duration::from_millis(ttl));
                self.map.insert(key, (value, super::now() + ttl));
            } else {
                batch.push_put(&key, &value);
                self.map.insert(key, (value, u64::MAX));
            }
        }
        self.store.write(&batch).unwrap();
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() < 3 {
            self.snapshots.push((self.store.snapshot(), self.visible()));
            return;
        }
        let at = self.random.below(3) as usize;
        let (snapshot, map) = self.snapshots.swap_remove(at);
        let listed: Vec<_> = snapshot.iter().map(Result::unwrap).collect();
        assert_eq!(listed.len(), map.len(), "each key once");
        assert_eq!(listed.into_iter().collect::<BTreeMap<_, _>>(), map);
        let key = self.key();
        assert_eq!(snapshot.get(&key).unwrap(), map.get(&key).cloned());
    }

    /// Closes or crashes and reopens, sometimes without the files that an opening does not need.
    fn reopen(&mut self) {
        self.snapshots.clear();
        let store = std::mem::replace(&mut self.store, open(&SimDisk::new()));
        if self.random.percent(50) {
            store.close().unwrap()
        } else {
            super::oracle::kill(store)
        }
        let is_lost: fn(&str) -> bool = match self.random.below(4) {
            0 => |name| name.ends_with(".firn"),
            1 => |name| name.ends_with(".firn") || name.ends_with(".hint"),
            2 => |name| name.ends_with("3.hint"),
            _ => |_| false,
        };
        for name in self.disk.list(Path::new(DIR)).unwrap().iter().filter(|name| is_lost(name)) {
            self.disk.remove(&Path::new(DIR).join(name)).unwrap();
        }
        self.store = open(&self.disk);
        self.compare();
    }

    /// Compares everything.
    fn compare(&self) {
        let expected = self.visible();
        for (key, value) in &expected {
            assert_eq!(self.store.get(key).unwrap().as_ref(), Some(value));
            let expiry = self.store.expiry(key).unwrap().unwrap();
            assert_eq!(expiry.millis().unwrap_or(u64::MAX), self.map[key].1);
        }
        let found: BTreeMap<_, _> = self.store.snapshot().iter().map(Result::unwrap).collect();
        assert_eq!(found, expected);
        self.store.verify().unwrap();
    }
}

/// Prints where a failure was, which an assertion's panic does not.
struct Place {
    seed: u64,
    step: Cell<u64>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("model: seed {}, step {}", self.seed, self.step.get());
        }
    }
}

/// `FIRNDB_MODEL_STEPS` sets the number of steps, `FIRNDB_MODEL_SEED` the seed.
#[test]
fn a_store_behaves_like_a_map_over_long_random_work() {
    let steps = setting("FIRNDB_MODEL_STEPS", 20_000);
    let first = setting("FIRNDB_MODEL_SEED", 1);
    const RUN: u64 = 5000;
    let seeds = first..first + steps.div_ceil(RUN);
    println!("model: seeds {seeds:?}, {RUN} steps each");
    for seed in seeds {
        let place = Place { seed, step: Cell::new(0) };
        super::NOW.set(1_000_000);
        // In every second store many keys share a hash.
        let is_coarse = seed.is_multiple_of(2);
        active::STORE.set(is_coarse.then(|| active::coarse(7, seed)));
        let disk = SimDisk::new();
        let (store, map) = (open(&disk), Map::new());
        let mut model = Model { disk, store, map, snapshots: Vec::new(), random: Rng(seed) };
        for step in 0..RUN {
            place.step.set(step);
            model.step();
        }
        model.reopen();
        // Maintenance terminates from every state.
        let steps = (0..1000).take_while(|_| model.store.maintain().unwrap()).count();
        assert!(steps < 1000, "maintenance does not terminate");
        model.compare();
    }
    println!("model: steps={} wrong=0", steps.div_ceil(RUN) * RUN);
}
