//! A partition's records in the order of the table, without duplicates, compressed.

use super::compress::Packer;
use super::options::Duplicates;
use super::partitions::{HashOf, read};
use crate::{Error, Result};

/// Records in the order of their hashes, then of their keys.
pub(crate) struct Sorted {
    /// What the entries point into.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Hashes and numbers of entries, in order.
    order: Vec<(u64, u32)>,
    /// Records that were left out because their keys were there already.
    pub(crate) duplicates: u64,
}

struct Entry {
    key_at: usize,
    key: u32,
    value: u32,
    /// Bytes of the value before compression.
    raw: u32,
    origin: u64,
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
    pub(crate) hash: HashOf,
    pub(crate) duplicates: Duplicates,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
}

/// Sorts the records of a partition's buffer.
pub(crate) fn sort(buffer: Vec<u8>, policy: Policy) -> Result<Sorted> {
    let (mut entries, mut order, mut origin) = (Vec::new(), Vec::new(), 0);
    read(&buffer, policy.hash, &mut origin, |record, key_at| {
        order.push((record.hash, entries.len() as u32));
        let (key, value) = (record.key.len() as u32, record.value.len() as u32);
        entries.push(Entry { key_at, key, value, raw: value, origin: record.origin });
        Ok(())
    })?;
    sort_by_hash(&mut order);
    let mut sorted = Sorted { bytes: buffer, entries, order, duplicates: 0 };
    sorted.order_equal(policy)?;
    Ok(sorted)
}

/// Sorts by hash. Hashes are spread evenly, so their first bits say nearly where each belongs.
fn sort_by_hash(order: &mut Vec<(u64, u32)>) {
    let all = |f: fn(u64, u64) -> u64| order.iter().map(|o| o.0).reduce(f).unwrap_or(0);
    let equal_bits = (all(u64::min) ^ all(u64::max)).leading_zeros();
    if order.len() < 64 || equal_bits > 40 {
        return order.sort_unstable();
    }
    let bits = order.len().ilog2().min(20);
    let bucket = |hash: u64| (hash << equal_bits >> (64 - bits)) as usize;
    let mut ends = vec![0u32; (1 << bits) + 1];
    order.iter().for_each(|o| ends[bucket(o.0) + 1] += 1);
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    let mut sorted = vec![(0, 0); order.len()];
    for &o in order.iter() {
        // Where the bucket begins; in the end, where the next one does.
        let at = &mut ends[bucket(o.0)];
        sorted[*at as usize] = o;
        *at += 1;
    }
    let mut start = 0;
    for &end in &ends[..1 << bits] {
        sorted[start..end as usize].sort_unstable();
        start = end as usize;
    }
    *order = sorted;
}

impl Sorted {
    fn key(&self, number: u32) -> &[u8] {
        let entry = &self.entries[number as usize];
        &self.bytes[entry.key_at..entry.key_at + entry.key as usize]
    }

    fn value(&self, number: u32) -> &[u8] {
        let entry = &self.entries[number as usize];
        &self.bytes[entry.key_at + entry.key as usize..][..entry.value as usize]
    }

    fn origin(&self, number: u32) -> u64 {
        self.entries[number as usize].origin
    }

    /// Orders records of equal hashes by their keys, and leaves out duplicates.
    fn order_equal(&mut self, policy: Policy) -> Result<()> {
        if !self.order.is_sorted_by(|a, b| a.0 < b.0) {
            let mut order = std::mem::take(&mut self.order);
            let mut kept = Vec::with_capacity(order.len());
            for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
                self.push_same(same, policy, &mut kept)?;
            }
            self.duplicates = (order.len() - kept.len()) as u64;
            self.order = kept;
        }
        Ok(())
    }

    /// Records of one hash: if they are several, mostly one key again and again.
    fn push_same(
        &self,
        same: &mut [(u64, u32)],
        policy: Policy,
        kept: &mut Vec<(u64, u32)>,
    ) -> Result<()> {
        same.sort_unstable_by(|&(_, a), &(_, b)| {
            // By value at last: then records of one origin too stand in an order of their own.
            let all = |number| (self.key(number), self.origin(number), self.value(number));
            all(a).cmp(&all(b))
        });
        for equal in same.chunk_by(|a, b| self.key(a.1) == self.key(b.1)) {
            kept.push(match policy.duplicates {
                Duplicates::Error if equal.len() > 1 => {
                    let origins = [equal[0].1, equal[1].1].map(|number| self.origin(number));
                    return Err(duplicate(self.key(equal[0].1), origins, policy.name));
                }
                Duplicates::Last => equal[equal.len() - 1],
                _ => equal[0],
            });
        }
        Ok(())
    }

    /// Replaces each value by its frame.
    pub(crate) fn pack(&mut self, packer: &mut Packer) -> Result<()> {
        let mut packed = Vec::with_capacity(self.bytes.len() / 2);
        for &(_, number) in &self.order {
            let entry = &mut self.entries[number as usize];
            let value_at = entry.key_at + entry.key as usize;
            let at = packed.len();
            packed.extend_from_slice(&self.bytes[entry.key_at..value_at]);
            packer.pack(&self.bytes[value_at..][..entry.value as usize], &mut packed)?;
            entry.key_at = at;
            let frame = packed.len() - at - entry.key as usize;
            entry.value = u32::try_from(frame).map_err(|_| {
                Error::invalid(format!("a value of {} bytes does not get smaller", entry.raw))
            })?;
        }
        self.bytes = packed;
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready<'_>> {
        self.order.iter().map(|&(hash, number)| {
            let entry = &self.entries[number as usize];
            let record = &self.bytes[entry.key_at..][..entry.key as usize + entry.value as usize];
            let (key, value) = record.split_at(entry.key as usize);
            Ready { hash, key, value, raw: entry.raw }
        })
    }
}

fn duplicate(key: &[u8], origins: [u64; 2], name: &dyn Fn(u64) -> String) -> Error {
    let shown = key[..key.len().min(80)].escape_ascii();
    let [first, second] = origins.map(name);
    Error::invalid(format!(
        "the key '{shown}' was added twice, by {first} and by {second}: remove one of them, or \
         choose which stays (first or last)"
    ))
}
