//! Clocks that jump during all other operations of a store.

use super::Rng;
use super::expiry::{
    NOW, START, backed_up, is_checkpoint, is_help, open, opened, repaired, shown, without,
};
use crate::disk::SimDisk;
use crate::log::failpoints::active;
use crate::log::tests::Steps;
use crate::log::{Expiry, LogStore, WriteOptions};
use std::sync::Arc;

/// The newest write of a key.
#[derive(Clone, Default)]
struct Newest {
    /// `None` if it was deleted or never written.
    value: Option<Vec<u8>>,
    /// 0 if it does not expire.
    at: u64,
    /// The largest time of the clock since the write.
    has_expired: bool,
}

impl Newest {
    /// Compares with the value found: never an older one; the newest one unless it has expired, and
    /// possibly an expired one if the clock was set back.
    #[track_caller]
    fn check(&self, found: Option<&(Vec<u8>, Expiry)>, label: &str) {
        let own = self.value.as_ref().map(|value| {
            (value.clone(), if self.at == 0 { Expiry::Never } else { Expiry::At(self.at) })
        });
        let is_over = self.at != 0 && self.at <= NOW.get();
        match found {
            Some(found) => assert!(Some(found) == own.as_ref() && !is_over, "{label}: {found:?}"),
            None => {
                assert!(own.is_none() || is_over || self.has_expired, "{label}: {own:?} is lost")
            }
        }
    }
}

/// A store, its expected content, and the random numbers that drive both.
struct Run {
    disk: Arc<SimDisk>,
    store: LogStore,
    model: Vec<Newest>,
    random: Rng,
}

impl Run {
    /// Checks a key, then performs an operation on it or on the whole store.
    fn step(&mut self, step: u32, label: &str) {
        let Run { store, model, random, .. } = self;
        let n = random.below(model.len());
        let (key, newest) = ([b'k', n as u8], &mut model[n]);
        let found = shown(store, &key);
        newest.check(found.as_ref(), label);
        let value = [&step.to_le_bytes()[..], &vec![n as u8; random.below(120usize)]].concat();
        let at = NOW.get().saturating_add(random.below(300u64)).max(1);
        let kept = found.as_ref().and_then(|(_, expiry)| expiry.millis()).unwrap_or(0);
        let mut write = |value: Option<Vec<u8>>, at| {
            *newest = Newest { value, at, has_expired: false };
        };
        match random.below(20u32) {
            0..4 => {
                store.put(key, &value).unwrap();
                write(Some(value), 0);
            }
            4..9 => {
                let until = WriteOptions::default().expiry(Expiry::At(at));
                store.put_with(key, &value, until).unwrap();
                write(Some(value), at);
            }
            9 => {
                assert_eq!(store.delete(key).unwrap(), found.is_some(), "{label}");
                write(None, 0);
            }
            10 => {
                store.append(key, &value).unwrap();
                let old = found.map(|(value, _)| value).unwrap_or_default();
                write(Some([old, value].concat()), kept);
            }
            11 => {
                let there = store.set_expiry(key, Expiry::At(at)).unwrap();
                assert_eq!(there, found.is_some(), "{label}");
                if let Some((value, _)) = found {
                    write(Some(value), at);
                }
            }
            12 => {
                assert_eq!(store.update(key, |_| None).unwrap(), None);
                write(None, 0);
            }
            13 => drop(store.compact(random.below(10u64) as f64 / 10.0).unwrap()),
            14 => {
                store.roll().unwrap();
            }
            15 => drop(store.maintain().unwrap()),
            16 => self.reopen(),
            _ => {}
        }
    }

    /// Replaces the store by itself reopened from some of its files, by its repair, or by its
    /// backup.
    fn reopen(&mut self) {
        let store = std::mem::replace(&mut self.store, open(&SimDisk::new()));
        let turn = self.random.below(6u32);
        let backup = (turn == 0).then(|| backed_up(&self.disk, &store, 1));
        match self.random.below(2u32) {
            0 => store.close().unwrap(),
            _ => drop(store.writable().dir.failed.set("killed by a test".to_string())),
        }
        self.disk = match turn {
            0 => backup.unwrap(),
            1 => without(&self.disk, is_checkpoint),
            2 => without(&self.disk, is_help),
            3 => without(&self.disk, |name| name.ends_with("3.hint")),
            4 => repaired(&self.disk),
            _ => self.disk.fork(),
        };
        self.store = open(&self.disk);
    }

    /// Sometimes sets the clock: forward, back, to its beginning or to its end.
    fn jump(&mut self) {
        if self.random.below(4u32) == 0 {
            let near = NOW.get().clamp(START, 2 * START);
            NOW.set(match self.random.below(8u32) {
                0 => 0,
                1 => u64::MAX,
                2 => near + 1_000_000_000,
                3 | 4 => near + self.random.below(400u64),
                _ => near - self.random.below(400u64),
            });
        }
        for newest in &mut self.model {
            newest.has_expired |= newest.at != 0 && newest.at <= NOW.get();
        }
    }

    /// Checks all keys. Returns the number of expired records that are shown again.
    fn check(&self, label: &str) -> usize {
        let keys = self.model.iter().enumerate();
        let again = keys.filter(|(n, newest)| {
            let found = shown(&self.store, &[b'k', *n as u8]);
            newest.check(found.as_ref(), label);
            found.is_some() && newest.has_expired
        });
        again.count()
    }
}

/// The clock jumps between writes, compactions and openings of all kinds: no replaced value comes
/// back.
#[test]
fn no_older_value_comes_back_when_the_clock_jumps() {
    let (seeds, mut again) = (1..=24, 0);
    println!("seeds {seeds:?}");
    for seed in seeds {
        // In every second store many keys share a hash.
        active::STORE.set((seed % 2 == 0).then(|| active::coarse(3, seed)));
        NOW.set(START);
        let (disk, store) = opened(SimDisk::new());
        let model = vec![Newest::default(); 16];
        let mut run = Run { disk, store, model, random: Rng(seed) };
        for step in 0..500 {
            let label = format!("seed {seed}, step {step}");
            run.step(step, &label);
            run.jump();
            again += if step % 10 == 0 { run.check(&label) } else { 0 };
        }
    }
    assert!(again > 20, "{again}: the clock was set back for nothing");
}
