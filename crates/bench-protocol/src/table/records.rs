//! Keys and values, generated from the number of a record.
//!
//! A key is `k` and twelve hexadecimal digits, the number under a bijection of 48 bits: keys look
//! random, none occurs twice, and numbers beyond the last record give absent keys.

use super::fold::fold;
use crate::rng::Rng;
use crate::{Error, Result};
use std::str::FromStr;

/// A key.
pub type Key = [u8; 13];

/// The kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// 28 to 36 random bytes, mean 32.
    Small,
    /// About a kilobyte of JSON, which compresses.
    Json,
    /// 9,000 to 11,000 random bytes, mean 10,000.
    Large,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Workload; 3] = [Workload::Small, Workload::Json, Workload::Large];

    /// Name in jobs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Small => "small",
            Workload::Json => "json",
            Workload::Large => "large",
        }
    }

    /// Number of records of a full run.
    pub fn records(self) -> u64 {
        match self {
            Workload::Small => 20_000_000,
            Workload::Json => 1_000_000,
            Workload::Large => 200_000,
        }
    }

    /// Approximate bytes of a key and its value.
    pub fn mean(self) -> u64 {
        match self {
            Workload::Small => 45,
            Workload::Json => 961,
            Workload::Large => 10_013,
        }
    }

    /// A description of the values.
    pub fn text(self) -> &'static str {
        match self {
            Workload::Small => "28 to 36 random bytes",
            Workload::Json => "about 1 kB of JSON",
            Workload::Large => "9,000 to 11,000 random bytes",
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

const SEED: u64 = 42;

impl Records {
    /// Generates the value of record `number`.
    pub fn value(&self, number: u64, value: &mut Vec<u8>) {
        value.clear();
        let mut rng = Rng::new(SEED, self.workload as u64, number);
        match self.workload {
            Workload::Small => {
                let length = 28 + rng.below(9);
                random(&mut rng, length as usize, value);
            }
            Workload::Json => json(&mut rng, number, value),
            Workload::Large => {
                let length = 9000 + rng.below(2001);
                random(&mut rng, length as usize, value);
            }
        }
    }

    /// Calls `each` with every key and value, in the order of the numbers: random order of keys.
    pub fn each(&self, mut each: impl FnMut(&Key, &[u8]) -> Result<()>) -> Result<()> {
        let mut value = Vec::new();
        (0..self.count).try_for_each(|number| {
            self.value(number, &mut value);
            each(&key(number), &value)
        })
    }

    /// Calls `each` with every key and value in ascending order of the keys.
    ///
    /// For engines that want sorted input: sorts eight bytes per record and generates the values
    /// afterwards, where other programs would have to sort the records.
    pub fn each_sorted(&self, mut each: impl FnMut(&Key, &[u8]) -> Result<()>) -> Result<()> {
        let mut mixed: Vec<u64> = (0..self.count).map(mix).collect();
        mixed.sort_unstable();
        let mut value = Vec::new();
        mixed.into_iter().try_for_each(|mixed| {
            self.value(unmix(mixed), &mut value);
            each(&hex(mixed), &value)
        })
    }

    /// Bytes of all keys and values, and the sum of [`Records::fold_record`] over all records.
    pub fn total(&self) -> (u64, u64) {
        let (mut bytes, mut sum, mut value) = (0, 0u64, Vec::new());
        for number in 0..self.count {
            self.value(number, &mut value);
            bytes += size_of::<Key>() as u64 + value.len() as u64;
            sum = sum.wrapping_add(Records::fold_record(number, &value));
        }
        (bytes, sum)
    }

    /// A checksum of the record's number and its value.
    pub fn fold_record(number: u64, value: &[u8]) -> u64 {
        (fold(value) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// The key of record `number`.
pub fn key(number: u64) -> Key {
    hex(mix(number))
}

fn hex(mixed: u64) -> Key {
    let mut key = *b"k000000000000";
    for (i, digit) in key[1..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(mixed >> (44 - 4 * i) & 15) as usize];
    }
    key
}

const MASK: u64 = (1 << 48) - 1;
const ODD: [u64; 2] = [0xd6e8_feb8_6659_fd93, 0x9e37_79b9_7f4a_7c15];

/// A bijection of 48 bits: multiplications by odd numbers, and shifts by half the width, which are
/// their own inverse.
fn mix(number: u64) -> u64 {
    let x = number.wrapping_mul(ODD[0]) & MASK;
    let x = (x ^ (x >> 24)).wrapping_mul(ODD[1]) & MASK;
    x ^ (x >> 24)
}

fn unmix(mixed: u64) -> u64 {
    let x = (mixed ^ (mixed >> 24)).wrapping_mul(const { inverse(ODD[1]) }) & MASK;
    (x ^ (x >> 24)).wrapping_mul(const { inverse(ODD[0]) }) & MASK
}

/// The inverse of an odd number modulo 2^64 by Newton's method: each step doubles the correct bits.
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut step) = (odd, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

fn random(rng: &mut Rng, length: usize, value: &mut Vec<u8>) {
    while value.len() < length {
        value.extend_from_slice(&rng.next().to_le_bytes());
    }
    value.truncate(length);
}

const WORDS: [&str; 64] = [
    "account",
    "active",
    "address",
    "amount",
    "archive",
    "arrival",
    "balance",
    "batch",
    "billing",
    "branch",
    "budget",
    "cargo",
    "carrier",
    "catalog",
    "central",
    "channel",
    "charge",
    "city",
    "client",
    "closed",
    "company",
    "contract",
    "country",
    "courier",
    "credit",
    "currency",
    "customer",
    "daily",
    "delivery",
    "department",
    "deposit",
    "depot",
    "discount",
    "district",
    "domestic",
    "draft",
    "early",
    "eastern",
    "estimate",
    "expected",
    "express",
    "factory",
    "final",
    "freight",
    "garden",
    "gateway",
    "general",
    "ground",
    "harbour",
    "holding",
    "invoice",
    "island",
    "journey",
    "junction",
    "label",
    "ledger",
    "market",
    "mobile",
    "monthly",
    "northern",
    "office",
    "parcel",
    "payment",
    "pending",
];

/// An order of a shop: names that recur, numbers that do not.
fn json(rng: &mut Rng, number: u64, value: &mut Vec<u8>) {
    use std::io::Write;
    let mut word = || WORDS[rng.below(64) as usize];
    let (first, last, street, city) = (word(), word(), word(), word());
    let (status, carrier) = (word(), word());
    let (number_of_house, zip) = (rng.below(300), rng.below(100_000));
    let (units, cents, tracking) = (rng.below(5000), rng.below(100), rng.next());
    // Writing to memory does not fail.
    let _ = write!(
        value,
        "{{\"id\":{number},\"customer\":{{\"name\":\"{first} {last}\",\
         \"email\":\"{first}.{last}@example.com\",\
         \"address\":{{\"street\":\"{street} {number_of_house}\",\"city\":\"{city}\",\
         \"zip\":\"{zip:05}\"}}}},\"status\":\"{status}\",\"carrier\":\"{carrier}\",\
         \"total\":{units}.{cents:02},\"tracking\":\"{tracking:016x}\",\"items\":["
    );
    for item in 0..4 + rng.below(5) {
        let (name, kind) = (WORDS[rng.below(64) as usize], WORDS[rng.below(64) as usize]);
        let comma = if item == 0 { "" } else { "," };
        let (sku, count, price) = (rng.below(1_000_000), 1 + rng.below(9), rng.below(9999));
        let _ = write!(
            value,
            "{comma}{{\"sku\":\"{sku:06}\",\"name\":\"{name} {kind}\",\"count\":{count},\
             \"price\":{price}}}"
        );
    }
    value.extend_from_slice(b"],\"note\":\"");
    for place in 0..30 + rng.below(21) {
        value.extend_from_slice(if place == 0 { b"" } else { b" " });
        value.extend_from_slice(WORDS[rng.below(64) as usize].as_bytes());
    }
    value.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_a_bijection() {
        for number in [0, 1, 7, 19_999_999, 20_000_000, MASK] {
            assert_eq!(unmix(mix(number)), number);
        }
        let mut keys: Vec<Key> = (0..100_000).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
    }

    #[test]
    fn sorted_records_are_the_same_records() {
        let records = Records { workload: Workload::Json, count: 1000 };
        let (mut plain, mut sorted) = (Vec::new(), Vec::new());
        let keep = |to: &mut Vec<_>, key: &Key, value: &[u8]| to.push((*key, value.to_vec()));
        records
            .each(|key, value| {
                keep(&mut plain, key, value);
                Ok(())
            })
            .unwrap();
        records
            .each_sorted(|key, value| {
                keep(&mut sorted, key, value);
                Ok(())
            })
            .unwrap();
        assert!(sorted.is_sorted() && !plain.is_sorted());
        plain.sort();
        assert_eq!(plain, sorted);
    }

    #[test]
    fn values_have_their_lengths() {
        for (workload, mean) in [
            (Workload::Small, 31..=33),
            (Workload::Json, 900..=1100),
            (Workload::Large, 9900..=10_100),
        ] {
            let records = Records { workload, count: 2000 };
            assert!(
                mean.contains(&(records.total().0 / 2000 - 13)),
                "{}",
                records.total().0 / 2000
            );
        }
    }
}
