//! Distinct keys of a field while documents come in: key -> number of first appearance, then sorted
//! ordinals.

use super::dictionary::Keys;
use super::value::Key;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::xxh3_64;

/// Hashes keys for a table in memory: a folded multiplication for numbers (as in wyhash), XXH3 for
/// bytes.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(23) ^ xxh3_64(bytes);
    }

    fn write_u64(&mut self, v: u64) {
        let product = u128::from(v ^ 0xA076_1D64_78BD_642F) * 0xE703_7ED1_A0B4_28DB;
        self.0 = self.0.rotate_left(23) ^ (product >> 64) as u64 ^ product as u64;
    }

    fn write_usize(&mut self, _: usize) {} // the length before a slice adds nothing to its hash
}

/// A map by keys.
pub(crate) type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

/// Numbers distinct keys in order of appearance.
#[derive(Default)]
pub(crate) struct Interner {
    fixed: KeyMap<u64, u32>,
    bytes: KeyMap<Vec<u8>, u32>,
    key_bytes: usize,
}

impl Interner {
    pub(crate) fn intern(&mut self, key: Key) -> u32 {
        match key {
            Key::Fixed(key) => {
                let next = self.fixed.len() as u32;
                *self.fixed.entry(key).or_insert(next)
            }
            Key::Bytes(key) => {
                let next = self.bytes.len() as u32;
                let len = key.len();
                let number = *self.bytes.entry(key).or_insert(next);
                self.key_bytes += if number == next { allocated(len) } else { 0 };
                number
            }
        }
    }

    /// Bytes of memory in use: entries with their share of a table that is at least 7/16 full.
    pub(crate) fn memory(&self) -> usize {
        self.tables() + self.key_bytes
    }

    fn tables(&self) -> usize {
        self.fixed.capacity() * 17 * 8 / 7 + self.bytes.capacity() * 33 * 8 / 7
    }

    /// Bytes that `more` keys may take beyond their own: a full table makes way for one of twice
    /// its size, and both are there while keys move.
    pub(crate) fn growth(&self, more: usize) -> usize {
        let full = |len: usize, capacity: usize| len > 0 && len + more > capacity;
        let grows = full(self.fixed.len(), self.fixed.capacity())
            || full(self.bytes.len(), self.bytes.capacity());
        if grows { 2 * self.tables() } else { 0 }
    }

    /// The keys ascending, and for each number its ordinal.
    pub(crate) fn finish(self, fixed: bool) -> (Keys, Vec<u32>) {
        if fixed {
            let (keys, ordinals) = sort(self.fixed);
            (Keys::Fixed(keys), ordinals)
        } else {
            let (keys, ordinals) = sort(self.bytes);
            (Keys::Bytes(keys), ordinals)
        }
    }
}

/// Bytes that an allocation takes, as common allocators round it.
fn allocated(len: usize) -> usize {
    if len == 0 { 0 } else { (len + 8).next_multiple_of(16).max(32) }
}

fn sort<K: Ord>(map: KeyMap<K, u32>) -> (Vec<K>, Vec<u32>) {
    let mut entries: Vec<(K, u32)> = map.into_iter().collect();
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut ordinals = vec![0; entries.len()];
    entries.iter().zip(0..).for_each(|((_, number), ord)| ordinals[*number as usize] = ord);
    (entries.into_iter().map(|(key, _)| key).collect(), ordinals)
}
