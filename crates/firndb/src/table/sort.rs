//! A partition's records in the order of the table, without duplicates, compressed.

use super::compress::Packer;
use super::options::Duplicates;
use super::partitions::{Added, read, record_at};
use crate::{Error, Result};

/// Records in the order of their hashes, then of their keys.
pub(crate) struct Sorted {
    /// What the entries point into.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Records that were left out because their keys were there already.
    pub(crate) duplicates: u64,
}

struct Entry {
    hash: u64,
    key_at: usize,
    value_at: usize,
    key: u32,
    value: u32,
    /// Bytes of the value before compression.
    raw: u32,
}

/// A record on its way into a block.
#[derive(Clone, Copy)]
pub(crate) struct Ready<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) raw: u32,
}

/// What to do with duplicates, and how to name where a record came from.
#[derive(Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) duplicates: Duplicates,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
}

/// Sorts the records of a partition's buffer.
pub(crate) fn sort(buffer: Vec<u8>, policy: Policy) -> Result<Sorted> {
    let mut order = Vec::new();
    let start = buffer.as_ptr() as usize;
    read(&buffer, |record| {
        // The key is in the buffer: its address says where the record is.
        order.push((record.hash, record.key.as_ptr() as usize - start));
        Ok(())
    })?;
    order.sort_unstable();
    let mut sorted =
        Sorted { bytes: buffer, entries: Vec::with_capacity(order.len()), duplicates: 0 };
    let mut at = 0;
    while at < order.len() {
        let hash = order[at].0;
        let same = order[at..].iter().take_while(|(other, _)| *other == hash).count();
        if same == 1 {
            sorted.push(order[at].1);
        } else {
            sorted.push_same(&mut order[at..at + same], policy)?;
        }
        at += same;
    }
    Ok(sorted)
}

/// Bytes before the key of a record in a buffer.
const BEFORE_KEY: usize = 24;

impl Sorted {
    fn added(&self, key_at: usize) -> Added<'_> {
        record_at(&self.bytes, key_at - BEFORE_KEY)
    }

    fn push(&mut self, key_at: usize) {
        let Added { hash, key, value, .. } = self.added(key_at);
        let (key, value) = (key.len(), value.len());
        let (value_at, key, value) = (key_at + key, key as u32, value as u32);
        self.entries.push(Entry { hash, key_at, value_at, key, value, raw: value });
    }

    /// Records of one hash: mostly one key again and again.
    fn push_same(&mut self, places: &mut [(u64, usize)], policy: Policy) -> Result<()> {
        places.sort_by(|a, b| {
            let (a, b) = (self.added(a.1), self.added(b.1));
            (a.key, a.origin).cmp(&(b.key, b.origin))
        });
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let key = self.added(first.1).key;
            let equal = rest.iter().take_while(|other| self.added(other.1).key == key).count();
            let same;
            (same, rest) = rest.split_at(equal);
            let kept = match policy.duplicates {
                Duplicates::Error if same.len() > 1 => {
                    let (first, second) = (self.added(same[0].1), self.added(same[1].1));
                    return Err(duplicate(first, second, policy.name));
                }
                Duplicates::Last => same[same.len() - 1].1,
                _ => same[0].1,
            };
            self.duplicates += same.len() as u64 - 1;
            self.push(kept);
        }
        Ok(())
    }

    /// Replaces each value by its frame.
    pub(crate) fn pack(&mut self, packer: &mut Packer) -> Result<()> {
        let mut packed = Vec::with_capacity(self.bytes.len() / 2);
        for entry in &mut self.entries {
            let at = packed.len();
            packed.extend_from_slice(&self.bytes[entry.key_at..entry.value_at]);
            let value_at = packed.len();
            packer.pack(&self.bytes[entry.value_at..][..entry.value as usize], &mut packed)?;
            (entry.key_at, entry.value_at) = (at, value_at);
            entry.value = (packed.len() - value_at) as u32;
        }
        self.bytes = packed;
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready<'_>> {
        self.entries.iter().map(|entry| Ready {
            hash: entry.hash,
            key: &self.bytes[entry.key_at..entry.key_at + entry.key as usize],
            value: &self.bytes[entry.value_at..entry.value_at + entry.value as usize],
            raw: entry.raw,
        })
    }
}

fn duplicate(first: Added, second: Added, name: &dyn Fn(u64) -> String) -> Error {
    let shown = first.key[..first.key.len().min(80)].escape_ascii();
    Error::invalid(format!(
        "the key '{shown}' was added twice, by {} and by {}: remove one of them, or choose which \
         stays (first or last)",
        name(first.origin),
        name(second.origin)
    ))
}
