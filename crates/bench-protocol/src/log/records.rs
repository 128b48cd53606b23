//! Records generated from a number and a version.

use crate::rng::Rng;
use crate::{Error, Result};
use std::str::FromStr;

/// Eight bytes, a bijection of the number.
pub type Key = [u8; 8];

/// The lengths of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 100 bytes.
    Small,
    /// 1000 bytes.
    Large,
    /// 10,000 bytes.
    Huge,
    /// 134 bytes at first; each update appends a few.
    Growing,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Workload; 4] =
        [Workload::Small, Workload::Large, Workload::Huge, Workload::Growing];

    /// Name in jobs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Small => "small",
            Workload::Large => "large",
            Workload::Huge => "huge",
            Workload::Growing => "growing",
        }
    }

    /// Number of records of a full run.
    pub fn records(self) -> u64 {
        match self {
            Workload::Small => 5_000_000,
            Workload::Large => 1_000_000,
            Workload::Huge => 100_000,
            Workload::Growing => 2_000_000,
        }
    }

    /// Bytes of a value as first written.
    pub fn value_bytes(self) -> usize {
        match self {
            Workload::Small => 100,
            Workload::Large => 1000,
            Workload::Huge => 10_000,
            Workload::Growing => 134,
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Workload> {
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("there is no workload `{text}`").into())
    }
}

/// The records of a workload, numbered from 0.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The workload.
    pub workload: Workload,
    /// Number of records.
    pub count: u64,
}

const SEED: u64 = 43;
/// Bytes that an update appends to a growing value.
pub(super) const GROWTH: usize = 4;

impl Records {
    /// Generates a value: the number, the version, and incompressible bytes. A growing value starts
    /// with its previous content; its length gives the version.
    pub fn value(&self, number: u64, version: u32, value: &mut Vec<u8>) {
        let mut length = self.workload.value_bytes();
        let mut stream = version;
        if self.workload == Workload::Growing {
            length += (version - FIRST) as usize * GROWTH;
            stream = FIRST;
        }
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&stream.to_le_bytes());
        let mut rng = Rng::new(SEED, u64::from(stream), number);
        while value.len() < length {
            value.extend_from_slice(&rng.next().to_le_bytes());
        }
        value.truncate(length);
    }

    /// Bytes of all keys and values as first written.
    pub fn bytes(&self) -> u64 {
        self.count * (size_of::<Key>() + self.workload.value_bytes()) as u64
    }

    /// The sum of [`Records::fold`] over all records as first written.
    pub fn total(&self) -> u64 {
        let mut value = Vec::new();
        (0..self.count).fold(0, |sum, number| {
            self.value(number, FIRST, &mut value);
            sum.wrapping_add(Records::fold(number, &value))
        })
    }

    /// A checksum of the record's number and every byte of its value.
    pub fn fold(number: u64, value: &[u8]) -> u64 {
        (crate::table::fold(value) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Version of a record that has not been updated.
pub(super) const FIRST: u32 = 1;

/// The record number at the start of a value.
pub(super) fn number_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The key of record `number`: consecutive numbers give keys in random order.
pub fn key(number: u64) -> Key {
    // Every step is invertible, so no two numbers share a key (SplitMix64's finalizer).
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_number_and_version() {
        let records = Records { workload: Workload::Small, count: 10 };
        let make = |number, version| {
            let mut value = Vec::new();
            records.value(number, version, &mut value);
            value
        };
        assert_eq!(make(3, 1).len(), 100);
        assert_eq!(number_of(&make(3, 1)), Some(3));
        assert!(make(3, 1) != make(3, 2) && make(3, 1)[12..] != make(4, 1)[12..]);
        assert_eq!(make(3, 1), make(3, 1));
    }

    #[test]
    fn growing_values_keep_their_prefix() {
        let records = Records { workload: Workload::Growing, count: 10 };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        records.value(3, 1, &mut old);
        records.value(3, 20, &mut new);
        assert_eq!((old.len(), new.len()), (134, 134 + 19 * GROWTH));
        assert!(new.starts_with(&old) && number_of(&new) == Some(3));
    }

    #[test]
    fn keys_are_distinct() {
        let mut keys: Vec<Key> = (0..100_000).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
    }
}
