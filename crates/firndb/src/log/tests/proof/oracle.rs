//! Histories of writes, and whether a disk shows a state that a history allows.

use super::{BACKUP, DIR, KEYS, NOW, key, options};
use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::log::{LogStore, WriteOptions};
use std::path::Path;
use std::sync::Arc;

/// The value of a key: its number, of which the low 14 bits are its length, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 0 if the key is absent.
    pub(crate) id: u32,
    /// 0 if it does not expire.
    pub(crate) expires: u64,
}

/// The content of a store.
pub(crate) type State = [Entry; KEYS];

/// The bytes of the value with this number.
pub(crate) fn value_of(id: u32) -> Vec<u8> {
    let length = (id & 0x3FFF) as usize;
    let mut value = id.to_le_bytes().to_vec();
    let mut word = id;
    while value.len() < length.max(4) {
        word = word.wrapping_mul(0x9E37_79B1).wrapping_add(0x7F4A_7C15);
        value.push((word >> 24) as u8);
    }
    value
}

/// What a state shows at this time.
pub(crate) fn visible(state: &State, now: u64) -> [u32; KEYS] {
    state.map(|entry| if entry.expires != 0 && entry.expires <= now { 0 } else { entry.id })
}

/// The writes of a run, in order.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The states after 0, 1, 2, ... writes.
    pub(crate) states: Vec<State>,
    /// At least this many writes survive a power cut.
    pub(crate) durable: usize,
    /// The state after a write that returned an error: it may have happened or not.
    pub(crate) open: Option<State>,
    /// The states that the backup may have: one if it is complete, two while it is being updated,
    /// none before the first one is complete.
    pub(crate) backups: Vec<State>,
    /// When it was.
    pub(crate) now: u64,
}

impl History {
    pub(crate) fn new(now: u64) -> History {
        let states = vec![State::default()];
        History { states, durable: 0, open: None, backups: Vec::new(), now }
    }

    pub(crate) fn last(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    fn allows(&self, found: &[u32; KEYS]) -> bool {
        let allowed = self.states[self.durable..].iter().chain(&self.open);
        allowed.into_iter().any(|state| visible(state, self.now) == *found)
    }
}

pub(crate) fn open_at(disk: &Arc<SimDisk>, dir: &str) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options())
}

/// Ends a store as a process crash does: nothing more is written.
pub(crate) fn kill(store: LogStore) {
    let _ = store.writable().dir.failed.set("killed by a test".to_string());
}

/// The content of the store by number of value; a message if a value was never written.
pub(crate) fn content(store: &LogStore) -> std::result::Result<[u32; KEYS], String> {
    let mut found = [0; KEYS];
    for (n, found) in found.iter_mut().enumerate() {
        let value = store.get(key(n)).map_err(|e| format!("get of key {n}: {e}"))?;
        let Some(value) = value else { continue };
        let id = value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if value != value_of(id) {
            return Err(format!("the value of key {n} was never written"));
        }
        *found = id;
    }
    let keys = found.iter().filter(|&&id| id != 0).count() as u64;
    let len = store.len();
    if !(keys..=KEYS as u64).contains(&len) {
        return Err(format!("len() is {len}, {keys} keys were found"));
    }
    Ok(found)
}

/// What is done with an image after it was checked.
#[derive(Clone, Copy)]
enum After {
    Close,
    Kill,
    PowerCut,
    Compact,
}

/// Opens an image and compares it with the history, then writes, ends in a way that `turn` chooses,
/// reopens and compares again. Returns a message if something is wrong.
pub(crate) fn check(
    image: &Arc<SimDisk>,
    history: &History,
    turn: u64,
) -> std::result::Result<(), String> {
    NOW.set(history.now);
    let said = |what: &'static str| move |e: crate::Error| format!("{what}: {e}");
    let store = open_at(image, DIR).map_err(said("opening"))?;
    let found = content(&store)?;
    if !history.allows(&found) {
        return Err(format!(
            "found {found:?}, which is none of the states {} to {}: {:?} {:?}",
            history.durable,
            history.states.len() - 1,
            history.states[history.durable..].iter().map(|s| visible(s, history.now)),
            history.open
        ));
    }
    if !history.backups.is_empty() {
        let copy = open_at(image, BACKUP).map_err(said("opening the backup"))?;
        let held = content(&copy)?;
        if !history.backups.iter().any(|backup| held == visible(backup, history.now)) {
            return Err(format!("the backup holds {held:?}, not one of {:?}", history.backups));
        }
        copy.close().map_err(said("closing the backup"))?;
    }
    let after = [After::Close, After::Kill, After::PowerCut, After::Compact][turn as usize % 4];
    let (changed, absent) = (turn as usize % KEYS, (turn as usize + 3) % KEYS);
    let mut expected = found;
    (expected[changed], expected[absent]) = (0x0100_0010, 0);
    let value = value_of(expected[changed]);
    store.delete(key(absent)).map_err(said("deleting"))?;
    store.put_with(key(changed), &value, WriteOptions::sync()).map_err(said("writing"))?;
    let mut again = Arc::clone(image);
    match after {
        After::Close => store.close().map_err(said("closing"))?,
        After::Kill => kill(store),
        After::PowerCut => {
            kill(store);
            // All data that is not durable is lost.
            again = image.images(turn, 2).pop().ok_or("no image")?.1;
        }
        After::Compact => {
            store.compact(0.0).map_err(said("compacting"))?;
            store.verify().map_err(said("verifying"))?;
            kill(store);
            again = image.images(turn, 2).pop().ok_or("no image")?.1;
        }
    }
    let store = open_at(&again, DIR).map_err(said("opening again"))?;
    let found = content(&store)?;
    if found != expected {
        return Err(format!("after writing, again: found {found:?}, not {expected:?}"));
    }
    store.close().map_err(said("closing again"))
}
