//! A run: a store on a simulated disk, whose history is recorded.

use super::oracle::{Entry, History, State, content, kill, open_at, value_of, visible};
use super::{BACKUP, DIR, KEYS, NOW, Rng, key};
use crate::disk::SimDisk;
use crate::log::tests::Steps;
use crate::log::{Batch, Durability, Expiry, LogStore, Snapshot, Update, WriteOptions};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A run. After the first error nothing more is done, unless `goes_on`.
pub(crate) struct Run {
    disk: Arc<SimDisk>,
    pub(crate) store: Option<LogStore>,
    pub(crate) random: Rng,
    pub(crate) history: History,
    snapshot: Option<(Snapshot, State)>,
    next_id: u32,
    /// After an error, find out whether the write happened, and continue.
    goes_on: bool,
    pub(crate) errors: usize,
    /// The violation that was seen.
    pub(crate) wrong: Option<String>,
}

impl Run {
    pub(crate) fn begin(disk: &Arc<SimDisk>, seed: u64, goes_on: bool) -> Run {
        NOW.set(1_000_000);
        let mut run = Run {
            disk: Arc::clone(disk),
            store: None,
            random: Rng(seed),
            history: History::new(1_000_000),
            snapshot: None,
            next_id: 1,
            goes_on,
            errors: 0,
            wrong: None,
        };
        run.open();
        run
    }

    /// Ends the store as a process crash does. Returns the history.
    pub(crate) fn end(mut self) -> History {
        self.history.now = NOW.get();
        self.snapshot = None;
        if let Some(store) = self.store.take() {
            kill(store);
        }
        self.history
    }

    fn open(&mut self) {
        match open_at(&self.disk, DIR) {
            Ok(store) => self.store = Some(store),
            Err(_) => self.errors += 1,
        }
    }

    /// A new value of about this length.
    fn fresh(&mut self, length: u64) -> u32 {
        let id = self.next_id << 14 | length.clamp(4, 0x3FFF) as u32;
        self.next_id += 1;
        id
    }

    /// Performs an operation that leads to the state `next`.
    fn step(&mut self, next: State, is_sync: bool, act: impl FnOnce(&LogStore) -> Result<()>) {
        let Some(store) = &self.store else { return };
        match act(store) {
            Ok(()) => {
                let writes = next != *self.history.last();
                if writes {
                    self.history.states.push(next);
                }
                if is_sync && writes {
                    self.history.durable = self.history.states.len() - 1;
                }
            }
            Err(_) if self.goes_on => self.look(next),
            Err(_) => self.stop(next),
        }
    }

    /// After an error the write may have happened or not, and nothing more is done.
    fn stop(&mut self, next: State) {
        self.errors += 1;
        self.history.open = Some(next);
        self.snapshot = None;
        kill(self.store.take().expect("there was a store to give the error"));
    }

    /// After an error, reads from the store whether the write happened, and continues.
    fn look(&mut self, next: State) {
        self.errors += 1;
        let Some(store) = &self.store else { return };
        let now = NOW.get();
        match content(store) {
            Ok(found) if found == visible(self.history.last(), now) => {
                // The write may still be in the log when the store is opened again.
                if store.writable().dir.failed.get().is_some() {
                    self.stop(next);
                }
            }
            Ok(found) if found == visible(&next, now) => self.history.states.push(next),
            Ok(found) => {
                let (last, next) = (visible(self.history.last(), now), visible(&next, now));
                let what = format!("after an error: {found:?}, neither {last:?} nor {next:?}");
                self.wrong = Some(what);
            }
            // The disk may refuse reads too.
            Err(_) => self.stop(next),
        }
    }

    pub(crate) fn put(&mut self, n: usize, length: u64, is_sync: bool) {
        self.put_until(n, length, is_sync, None);
    }

    /// A put that expires after `ttl` milliseconds.
    pub(crate) fn put_until(&mut self, n: usize, length: u64, is_sync: bool, ttl: Option<u64>) {
        let id = self.fresh(length);
        let mut next = *self.history.last();
        next[n % KEYS] = Entry { id, expires: ttl.map_or(0, |ttl| NOW.get() + ttl) };
        let mut options = written(is_sync);
        options.ttl = ttl.map(Duration::from_millis);
        let (key, value) = (key(n % KEYS), value_of(id));
        self.step(next, is_sync, |store| store.put_with(&key, &value, options));
    }

    pub(crate) fn delete(&mut self, n: usize, is_sync: bool) {
        let mut next = *self.history.last();
        // The delete of an absent key writes nothing, so it makes nothing durable.
        let is_there = visible(&next, NOW.get())[n % KEYS] != 0;
        next[n % KEYS] = Entry::default();
        let key = key(n % KEYS);
        self.step(next, is_sync && is_there, |store| {
            store.delete_with(&key, written(is_sync)).map(|_| ())
        });
    }

    /// A batch over these keys; every third of them is deleted.
    pub(crate) fn batch(&mut self, keys: &[usize], length: u64, is_sync: bool) {
        let (mut batch, mut next) = (Batch::new(), *self.history.last());
        for (i, n) in keys.iter().map(|n| n % KEYS).enumerate() {
            if i % 3 == 2 {
                batch.push_delete(key(n));
                next[n] = Entry::default();
            } else {
                let id = self.fresh(length);
                batch.push_put(key(n), value_of(id));
                next[n] = Entry { id, expires: 0 };
            }
        }
        self.step(next, is_sync, |store| store.write_with(&batch, written(is_sync)));
    }

    /// Changes when a key expires: `ttl` milliseconds from now, or never.
    pub(crate) fn set_expiry(&mut self, n: usize, is_sync: bool, ttl: Option<u64>) {
        let (n, mut next) = (n % KEYS, *self.history.last());
        // The change of an absent key writes nothing, so it makes nothing durable.
        let is_there = visible(&next, NOW.get())[n] != 0;
        let expires = ttl.map_or(0, |ttl| NOW.get() + ttl);
        if is_there {
            next[n].expires = expires;
        }
        let expiry = if expires == 0 { Expiry::Never } else { Expiry::At(expires) };
        let options = written(is_sync).expiry(expiry);
        self.step(next, is_sync && is_there, |store| {
            store.set_expiry_with(key(n), options).map(|_| ())
        });
    }

    /// A read-modify-write of a key.
    pub(crate) fn update(&mut self, n: usize, length: u64, is_sync: bool) {
        let (n, id) = (n % KEYS, self.fresh(length));
        let mut next = *self.history.last();
        let old = visible(&next, NOW.get())[n];
        // An expired record is absent, and so is its expiry.
        next[n] = Entry { id, expires: if old == 0 { 0 } else { next[n].expires } };
        let mut saw = old;
        self.step(next, is_sync, |store| {
            let change = |value: Option<&[u8]>| {
                let bytes = value.and_then(|value| value.first_chunk());
                saw = bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
                Update::Put(value_of(id))
            };
            store.update_with(key(n), written(is_sync), change).map(|_| ())
        });
        if saw != old {
            self.wrong = Some(format!("an update of key {n} saw {saw}, not {old}"));
        }
    }

    /// An operation that changes no value.
    pub(crate) fn quietly(&mut self, act: impl FnOnce(&LogStore) -> Result<()>) {
        self.step(*self.history.last(), false, act);
    }

    pub(crate) fn sync(&mut self) {
        self.quietly(LogStore::sync);
        self.now_durable();
    }

    /// Everything so far was acknowledged as durable, unless an error ended the run.
    fn now_durable(&mut self) {
        if self.store.is_some() && self.errors == 0 {
            self.history.durable = self.history.states.len() - 1;
        }
    }

    /// Does up to this many steps of maintenance.
    pub(crate) fn maintain(&mut self, steps: usize) {
        for _ in 0..steps {
            let mut did = false;
            self.quietly(|store| {
                did = store.maintain()?;
                Ok(())
            });
            if !did {
                return;
            }
        }
    }

    pub(crate) fn compact(&mut self, threshold: f64) {
        self.quietly(|store| store.compact(threshold).map(|_| ()));
    }

    /// Compacts one of the removable segments, as if that had begun before the last puts.
    pub(crate) fn evacuate(&mut self) {
        let any = self.random.below(1000) as usize;
        self.quietly(|store| {
            let last = store.writable().lock_writer()?.link_durable;
            let mut segments = store.writable().segments();
            segments.retain(|segment| segment.number <= last && segment.hint.get().is_some());
            let victim = segments.get(any % segments.len().max(1));
            victim.map_or(Ok(()), |victim| store.evacuate(victim))
        });
    }

    /// Writes the hints of all sealed segments and a checkpoint.
    pub(crate) fn checkpoint(&mut self) {
        self.quietly(|store| {
            while store.seal()? {}
            store.checkpoint()
        });
    }

    /// Begins a new segment.
    pub(crate) fn roll(&mut self) {
        self.quietly(|store| store.roll());
    }

    pub(crate) fn backup(&mut self) {
        let state = *self.history.last();
        if !self.history.backups.is_empty() {
            self.history.backups.push(state);
        }
        self.quietly(|store| store.backup(Path::new(BACKUP)).map(|_| ()));
        if self.store.is_some() && self.errors == 0 {
            self.history.backups = vec![state];
            self.history.durable = self.history.states.len() - 1;
        }
    }

    /// Closes and opens.
    pub(crate) fn reopen(&mut self) {
        self.snapshot = None;
        let Some(store) = self.store.take() else { return };
        match store.close() {
            Ok(()) => {
                self.open();
                self.now_durable();
            }
            Err(_) => self.errors += 1,
        }
    }

    /// The process crashes, and another one opens the store.
    pub(crate) fn kill(&mut self) {
        self.snapshot = None;
        let Some(store) = self.store.take() else { return };
        // Data that a failed sync lost is still in the page cache. An opening would treat it as
        // durable; only a restart of the machine shows the real state.
        let is_failed = store.writable().dir.failed.get().is_some();
        kill(store);
        if !is_failed {
            self.open();
            self.compare();
        }
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, milliseconds: u64) {
        NOW.set(NOW.get() + milliseconds);
    }

    /// Takes a snapshot, or checks the one that was taken.
    pub(crate) fn snapshot(&mut self) {
        let Some(store) = &self.store else { return };
        match self.snapshot.take() {
            None => self.snapshot = Some((store.snapshot(), *self.history.last())),
            Some((snapshot, state)) => {
                for (n, id) in state.map(|entry| entry.id).into_iter().enumerate() {
                    let expected = (id != 0).then(|| value_of(id));
                    match snapshot.get(key(n)) {
                        Ok(found) if found == expected => {}
                        // With buffered access the disk may refuse reads.
                        Err(e) if self.goes_on && e.kind() == ErrorKind::Io => self.errors += 1,
                        _ => self.wrong = Some(format!("a snapshot shows another key {n}")),
                    }
                }
            }
        }
    }

    /// Compares the store with the history.
    pub(crate) fn compare(&mut self) {
        let Some(store) = &self.store else { return };
        let expected = visible(self.history.last(), NOW.get());
        match content(store) {
            Ok(found) if found == expected => {}
            Ok(found) => self.wrong = Some(format!("found {found:?}, not {expected:?}")),
            Err(_) if self.errors > 0 => {}
            // With buffered access the disk may refuse reads.
            Err(what) if self.goes_on && what.contains("simulated EIO") => self.errors += 1,
            Err(what) => self.wrong = Some(what),
        }
    }
}

fn written(is_sync: bool) -> WriteOptions {
    let durability = if is_sync { Durability::Sync } else { Durability::Os };
    WriteOptions::default().durability(durability)
}
