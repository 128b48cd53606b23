//! Distinct keys of a field while documents come in: key -> number of first appearance, then sorted
//! ordinals.

use crate::search::codec::dictionary::Keys;
use crate::search::model::key_map::KeyMap;
use crate::search::model::value::Key;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::model::key_map::KeySeed;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Keys whose XXH3-64 is one and the same: the first factor of a product is 0.
    #[test]
    fn crafted_keys_have_different_hashes_in_a_table() {
        let crafted = |i: u64| {
            let mut key = vec![0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
            key.extend((0..8).map(|byte| (i >> (8 * byte)) as u8));
            key.extend([7; 16]);
            key
        };
        let plain = |i| xxhash_rust::xxh3::xxh3_64(&crafted(i));
        assert!((0..100).all(|i| plain(i) == plain(0)));
        let seed = KeySeed::default();
        let hashes: HashSet<u64> = (0..10_000).map(|i| seed.hash_one(crafted(i))).collect();
        assert_eq!(hashes.len(), 10_000);
        let other = KeySeed::default();
        assert_ne!(seed.hash_one(5u64), other.hash_one(5u64), "another table has another seed");
        let mut interner = Interner::default();
        let numbers = (0..50_000u64).map(|i| interner.intern(Key::Bytes(crafted(i % 40_000))));
        assert!(numbers.eq((0..50_000u32).map(|i| i % 40_000)));
    }
}
