//! Records generated from a number: a hundred in a row share the first eight bytes of their key.

use crate::rng::Rng;
use crate::table::fold;

/// Bytes of a key that its group shares.
pub const PREFIX: usize = 8;
/// Records of a group.
pub const GROUP: u64 = 100;
/// Bytes of a value.
pub const VALUE: usize = 100;

/// The group, and the number within it, both big-endian.
pub type Key = [u8; 16];
/// The first bytes of the keys of a group.
pub type Prefix = [u8; PREFIX];

/// The records of a run, numbered from 0.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// Number of groups.
    pub groups: u64,
}

const SEED: u64 = 45;
/// Multiplier of checksums; odd.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Records {
    /// Number of records.
    pub fn count(&self) -> u64 {
        self.groups * GROUP
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.count() * (size_of::<Key>() + VALUE) as u64
    }

    /// The prefix of a group: consecutive groups have prefixes in random order.
    pub fn prefix(group: u64) -> Prefix {
        crate::log::key(group)
    }

    /// The key of record `number`.
    pub fn key(number: u64) -> Key {
        let mut key = [0; 16];
        key[..PREFIX].copy_from_slice(&Records::prefix(number / GROUP));
        key[PREFIX..].copy_from_slice(&(number % GROUP).to_be_bytes());
        key
    }

    /// Generates the value of record `number`: incompressible bytes.
    pub fn value(number: u64, value: &mut Vec<u8>) {
        let mut rng = Rng::new(SEED, 0, number);
        value.clear();
        while value.len() < VALUE {
            value.extend_from_slice(&rng.next().to_le_bytes());
        }
        value.truncate(VALUE);
    }

    /// The groups in the order of their prefixes.
    pub fn sorted(&self) -> Vec<u64> {
        let mut groups: Vec<u64> = (0..self.groups).collect();
        groups.sort_unstable_by_key(|&group| Records::prefix(group));
        groups
    }

    /// The numbers of all records, in random order: that of the puts.
    pub fn shuffled(&self) -> Vec<u64> {
        let (mut numbers, mut rng) = ((0..self.count()).collect::<Vec<u64>>(), Rng::new(46, 0, 0));
        for place in (1..numbers.len()).rev() {
            numbers.swap(place, rng.below(place as u64 + 1) as usize);
        }
        numbers
    }

    /// The answer of a scan of all records.
    pub fn total(&self, reverse: bool) -> Answer {
        let (mut answer, mut value, mut groups) = (Answer::default(), Vec::new(), self.sorted());
        if reverse {
            groups.reverse();
        }
        for group in groups {
            for place in 0..GROUP {
                let place = if reverse { GROUP - 1 - place } else { place };
                let number = group * GROUP + place;
                Records::value(number, &mut value);
                answer.add(&Records::key(number), &value);
            }
        }
        answer
    }

    /// The answer of a scan of the keys with a prefix.
    pub fn of_group(&self, group: u64) -> Answer {
        let (mut answer, mut value) = (Answer::default(), Vec::new());
        for number in group * GROUP..(group + 1) * GROUP {
            Records::value(number, &mut value);
            answer.add(&Records::key(number), &value);
        }
        answer
    }
}

/// Number and checksum of the records that a scan returned, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Number of records.
    pub count: u64,
    /// Checksum of every byte of their keys and values.
    pub sum: u64,
}

impl Answer {
    /// Adds the next record.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        // The multiplication makes the order count.
        self.sum = self.sum.wrapping_mul(MIX) ^ fold(key).wrapping_add(fold(value).rotate_left(32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_a_prefix_and_keys_are_distinct() {
        let records = Records { groups: 50 };
        let mut keys: Vec<Key> = records.shuffled().into_iter().map(Records::key).collect();
        assert_eq!(keys.len() as u64, records.count());
        assert!(!keys.is_sorted());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len() as u64, records.count());
        for (group, keys) in records.sorted().into_iter().zip(keys.chunks(GROUP as usize)) {
            let prefix = Records::prefix(group);
            assert!(keys.iter().all(|key| key.starts_with(&prefix)));
        }
    }

    #[test]
    fn an_answer_depends_on_the_order() {
        let records = Records { groups: 3 };
        let (forward, reverse) = (records.total(false), records.total(true));
        assert_eq!((forward.count, reverse.count), (300, 300));
        assert_ne!(forward.sum, reverse.sum);
        let mut all = Answer::default();
        let mut value = Vec::new();
        for group in records.sorted() {
            (group * GROUP..(group + 1) * GROUP).for_each(|number| {
                Records::value(number, &mut value);
                all.add(&Records::key(number), &value);
            });
        }
        assert_eq!(all, forward);
    }
}
