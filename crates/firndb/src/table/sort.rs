//! A partition's records in the order of the table, without duplicates, compressed.

use super::arena::{Pool, Pools};
use super::compress::Packer;
use super::options::Duplicates;
use super::raw::{HashOf, Record, read};
use crate::bytes::prefetch::prefetch;
use crate::{Error, Result};

/// Records in the order of their hashes, then of their keys.
pub(crate) struct Sorted {
    /// The records, as [`super::raw`] describes them; once packed, with the frame for the value
    /// and the length of the value for the origin.
    bytes: Vec<u8>,
    /// Hashes, and where records begin, in order.
    order: Vec<(u64, u64)>,
    packed: bool,
    /// Records that were left out because their keys were there already.
    pub(crate) duplicates: u64,
}

/// A record on its way into a block.
#[derive(Clone, Copy)]
pub(crate) struct Ready<'a> {
    pub(crate) hash: u64,
    pub(crate) record: Record<'a>,
    /// Bytes of the value before compression.
    pub(crate) raw: u32,
}

/// Records that are asked for before they are used: they are far from each other in memory.
const AHEAD: usize = 16;

/// What to do with duplicates, and how to name where a record came from.
#[derive(Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) hash: HashOf,
    pub(crate) duplicates: Duplicates,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
}

/// Sorts the records of a partition's buffer.
pub(super) fn sort(buffer: Vec<u8>, pools: &Pools, policy: Policy) -> Result<Sorted> {
    let (mut order, mut origin) = (pools.orders.take(), 0);
    read(&buffer, policy.hash, &mut origin, |added, at| {
        order.push((added.hash, at as u64));
        Ok(())
    })?;
    sort_by_hash(&mut order, &pools.orders);
    let mut sorted = Sorted { bytes: buffer, order, packed: false, duplicates: 0 };
    sorted.order_equal(policy)?;
    Ok(sorted)
}

/// Sorts by hash, and records of one hash by where they are. Hashes are spread evenly, so their
/// first bits say nearly where each belongs.
fn sort_by_hash(order: &mut Vec<(u64, u64)>, orders: &Pool<(u64, u64)>) {
    let first = order.first().map_or(0, |o| o.0);
    let differ = order.iter().fold(0, |differ, o| differ | o.0 ^ first);
    let equal_bits = differ.leading_zeros();
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
    let mut sorted = orders.take();
    sorted.resize(order.len(), (0, 0));
    for &o in order.iter() {
        // Where the bucket begins; in the end, where the next one does.
        let at = &mut ends[bucket(o.0)];
        sorted[*at as usize] = o;
        *at += 1;
    }
    if !settle(&mut sorted) {
        sorted.sort_unstable();
    }
    orders.give(std::mem::replace(order, sorted));
}

/// Most places that [`settle`] moves a record.
const FAR: usize = 32;

/// Sorts by hash what is nearly in order, by insertion. False, with all still there, if a record
/// belongs far before where it is: then hashes are not spread evenly.
fn settle(order: &mut [(u64, u64)]) -> bool {
    for i in 1..order.len() {
        let (record, mut at) = (order[i], i);
        while at > 0 && record.0 < order[at - 1].0 && i - at < FAR {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = record;
        if i - at == FAR {
            return false;
        }
    }
    true
}

impl Sorted {
    /// Gives its memory to partitions that are still to be sorted.
    pub(super) fn recycle(self, pools: &Pools) {
        pools.buffers.give(self.bytes);
        pools.orders.give(self.order);
    }

    /// The record that begins here.
    #[inline(always)]
    fn at(&self, at: u64) -> Record<'_> {
        self.with_last(at).0
    }

    /// The record that begins here, and the last number before its key.
    #[inline(always)]
    fn with_last(&self, at: u64) -> (Record<'_>, u64) {
        let record = Record::at(&self.bytes, at as usize);
        // Records were read from the same bytes before.
        record.map_or_else(Default::default, |(record, last, _)| (record, last))
    }

    /// Orders records of equal hashes by their keys, and leaves out duplicates.
    fn order_equal(&mut self, policy: Policy) -> Result<()> {
        if !self.order.is_sorted_by(|a, b| a.0 < b.0) {
            let mut order = std::mem::take(&mut self.order);
            let mut kept = Vec::with_capacity(order.len());
            let origins = self.origins(policy)?;
            for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
                self.push_same(same, policy, &origins, &mut kept)?;
            }
            self.duplicates = (order.len() - kept.len()) as u64;
            self.order = kept;
        }
        Ok(())
    }

    /// Where records begin, ascending, and where they came from.
    fn origins(&self, policy: Policy) -> Result<Vec<(u64, u64)>> {
        let (mut origins, mut origin) = (Vec::new(), 0);
        read(&self.bytes, policy.hash, &mut origin, |added, at| {
            origins.push((at as u64, added.origin));
            Ok(())
        })?;
        Ok(origins)
    }

    /// Records of one hash: if they are several, mostly one key again and again.
    fn push_same(
        &self,
        same: &mut [(u64, u64)],
        policy: Policy,
        origins: &[(u64, u64)],
        kept: &mut Vec<(u64, u64)>,
    ) -> Result<()> {
        let key = |at: u64| self.at(at).key();
        let origin =
            |at: u64| origins.binary_search_by_key(&at, |o| o.0).map_or(0, |i| origins[i].1);
        if same.len() > 1 {
            // By value at last: then records of one origin too stand in an order of their own.
            let all = |at: u64| (key(at), origin(at), self.at(at).value());
            same.sort_unstable_by(|a, b| all(a.1).cmp(&all(b.1)));
        }
        for equal in same.chunk_by(|a, b| key(a.1) == key(b.1)) {
            kept.push(match policy.duplicates {
                Duplicates::Error if equal.len() > 1 => {
                    let origins = [origin(equal[0].1), origin(equal[1].1)];
                    return Err(duplicate(key(equal[0].1), origins, policy.name));
                }
                Duplicates::Last => equal[equal.len() - 1],
                _ => equal[0],
            });
        }
        Ok(())
    }

    /// Replaces each value by its frame.
    pub(super) fn pack(&mut self, packer: &mut Packer, pools: &Pools) -> Result<()> {
        let (mut packed, mut frame) = (pools.buffers.take(), Vec::new());
        let mut order = std::mem::take(&mut self.order);
        for (_, at) in &mut order {
            let record = self.at(*at);
            frame.clear();
            packer.pack(record.value(), &mut frame)?;
            let raw = record.value().len();
            if u32::try_from(frame.len()).is_err() {
                let message = format!("a value of {raw} bytes does not get smaller");
                return Err(Error::invalid(message));
            }
            *at = packed.len() as u64;
            Record::new(record.key(), &frame).append(raw as u64, &mut packed);
        }
        pools.buffers.give(std::mem::replace(&mut self.bytes, packed));
        (self.order, self.packed) = (order, true);
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready<'_>> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Record `i` of those that there are. In line, for the loop that waits for nothing else.
    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> Ready<'_> {
        if let Some(&(_, later)) = self.order.get(i + AHEAD) {
            prefetch(&self.bytes[later as usize..], 2);
        }
        let (hash, at) = self.order[i];
        let (record, last) = self.with_last(at);
        let raw = if self.packed { last as u32 } else { record.value().len() as u32 };
        Ready { hash, record, raw }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn hashes_of_any_spread_are_sorted() {
        let mut rng = Rng(11);
        let pools = Pools::default();
        let even = |rng: &mut Rng| rng.next();
        let few = |rng: &mut Rng| rng.next() >> 56 << 56;
        // All but the first in one bucket: far more than an insertion is for.
        let apart = |rng: &mut Rng| 1 << 63 | rng.next() >> 40;
        for (spread, hash) in [even, few, apart].into_iter().enumerate() {
            for len in [0, 1, 63, 64, 65, 1000, 5000] {
                let mut order: Vec<(u64, u64)> = (0..len).map(|at| (hash(&mut rng), at)).collect();
                if let Some(first) = order.first_mut() {
                    first.0 = 0;
                }
                let mut expected = order.clone();
                expected.sort_unstable();
                sort_by_hash(&mut order, &pools.orders);
                assert!(order == expected, "spread {spread}, {len} records");
            }
        }
    }

    #[test]
    fn insertion_gives_up_where_records_are_far_from_their_places() {
        let with_last = |n: u64| (1..n).map(|hash| (hash, 7)).chain([(0, 7)]).collect::<Vec<_>>();
        let mut near = with_last(FAR as u64);
        assert!(settle(&mut near) && near.is_sorted());
        let mut far = with_last(10 * FAR as u64);
        assert!(!settle(&mut far));
        far.sort_unstable();
        assert_eq!(far, (0..10 * FAR as u64).map(|hash| (hash, 7)).collect::<Vec<_>>());
    }
}
