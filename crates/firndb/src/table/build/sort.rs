//! Sorts a partition, removes duplicates, and compresses values.

use crate::bytes::prefetch::prefetch;
use crate::table::build::arena::{Pool, Pools};
use crate::table::build::encode::{Item, Run};
use crate::table::build::gather::MAX_PIECES;
use crate::table::build::hashing::Hashing;
use crate::table::build::raw::{Added, Record, read_records};
use crate::table::format::compress::Compressor;
use crate::table::options::Duplicates;
use crate::{Error, Result};

/// Records in the order of hashes, then of keys.
pub(crate) struct Sorted {
    items: Vec<Item>,
    /// Keys and stored values, concatenated.
    bytes: Vec<u8>,
    pub(crate) totals: RunTotals,
}

/// Totals of the records.
#[derive(Default)]
pub(crate) struct RunTotals {
    pub(crate) key_bytes: u64,
    /// Before compression.
    pub(crate) value_bytes: u64,
    pub(crate) longest_key: usize,
    pub(crate) longest_value: usize,
    /// Records that were dropped as duplicates.
    pub(crate) duplicates: u64,
}

/// Records that are prefetched ahead, because they are scattered in memory.
const AHEAD: usize = 16;

/// What to do with duplicates, and how to name origins.
#[derive(Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) hash: Hashing,
    pub(crate) duplicates: Duplicates,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
}

/// Sorts the records of a partition. Compresses each value if there is a compressor.
pub(crate) fn sort(
    pieces: &[&[u8]],
    pools: &Pools,
    policy: Policy,
    compressor: Option<&mut Compressor>,
) -> Result<Sorted> {
    let mut order = pools.orders.take();
    each(pieces, policy.hash, |added, at| order.push((added.hash, at)))?;
    sort_by_hash(&mut order, &pools.orders);
    let mut unsorted = Unsorted { pieces, order, duplicates: 0 };
    unsorted.order_equal(policy)?;
    let sorted = unsorted.in_order(pools, compressor);
    pools.orders.give(unsorted.order);
    sorted
}

/// A position is the number of a piece and, in this many low bits, the offset in it.
const IN_PIECE: u32 = u64::BITS - MAX_PIECES.ilog2();

/// Calls `visit` with each record and its position.
fn each<'a>(
    pieces: &[&'a [u8]],
    hash: Hashing,
    mut visit: impl FnMut(Added<'a>, u64),
) -> Result<()> {
    let mut origin = 0;
    for (number, &piece) in pieces.iter().enumerate() {
        read_records(piece, hash, &mut origin, |added, at| {
            visit(added, (number as u64) << IN_PIECE | at as u64);
            Ok(())
        })?;
    }
    Ok(())
}

/// Sorts by hash, then by position. Hashes are uniform, so a bucket sort by their first bits leaves
/// the records nearly in order.
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
        // Start of the bucket; after the loop, start of the next bucket.
        let at = &mut ends[bucket(o.0)];
        sorted[*at as usize] = o;
        *at += 1;
    }
    if !insertion_sort(&mut sorted) {
        sorted.sort_unstable();
    }
    orders.give(std::mem::replace(order, sorted));
}

/// Most steps by which [`insertion_sort`] moves a record.
const MAX_SHIFT: usize = 32;

/// Sorts nearly ordered records by hash. Returns false if a record is far from its position,
/// because hashes are not uniform; no record is lost then.
fn insertion_sort(order: &mut [(u64, u64)]) -> bool {
    for i in 1..order.len() {
        let (record, mut at) = (order[i], i);
        while at > 0 && record.0 < order[at - 1].0 && i - at < MAX_SHIFT {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = record;
        if i - at == MAX_SHIFT {
            return false;
        }
    }
    true
}

impl Sorted {
    pub(crate) fn run(&self) -> Run<'_> {
        Run { items: &self.items, bytes: &self.bytes }
    }

    /// Gives the buffers back to the pools.
    pub(crate) fn recycle(self, pools: &Pools) {
        pools.buffers.give(self.bytes);
        pools.items.give(self.items);
    }
}

impl RunTotals {
    /// Counts a record with a value of this length.
    #[inline(always)]
    fn add(&mut self, key: usize, value: usize) {
        self.key_bytes += key as u64;
        self.value_bytes += value as u64;
        self.longest_key = self.longest_key.max(key);
        self.longest_value = self.longest_value.max(value);
    }
}

/// Records as they were added, and their order.
struct Unsorted<'a> {
    pieces: &'a [&'a [u8]],
    /// Hashes and positions.
    order: Vec<(u64, u64)>,
    duplicates: u64,
}

impl<'a> Unsorted<'a> {
    /// The piece and the offset of a position.
    #[inline(always)]
    fn piece(&self, at: u64) -> (&'a [u8], usize) {
        (self.pieces[(at >> IN_PIECE) as usize], (at & ((1 << IN_PIECE) - 1)) as usize)
    }

    /// The record at a position.
    #[inline(always)]
    fn at(&self, at: u64) -> Record<'a> {
        let (piece, at) = self.piece(at);
        // `each` has decoded the same bytes before.
        Record::at(piece, at).map_or_else(Record::default, |(record, ..)| record)
    }

    /// Orders records of equal hashes by key, and removes duplicates.
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

    /// Positions in ascending order, with the origins of the records.
    fn origins(&self, policy: Policy) -> Result<Vec<(u64, u64)>> {
        let mut origins = Vec::new();
        each(self.pieces, policy.hash, |added, at| origins.push((at, added.origin)))?;
        Ok(origins)
    }

    /// Adds the records of one hash. If there are several, they usually have one key.
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
            // By value last, so that the order of records with equal origins is defined too.
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

    fn in_order(&self, pools: &Pools, mut compressor: Option<&mut Compressor>) -> Result<Sorted> {
        let (mut items, mut bytes) = (pools.items.take(), pools.buffers.take());
        items.reserve_exact(self.order.len());
        if compressor.is_none() {
            bytes.reserve_exact(self.pieces.iter().map(|piece| piece.len()).sum());
        }
        let mut totals = RunTotals { duplicates: self.duplicates, ..RunTotals::default() };
        for (i, &(hash, at)) in self.order.iter().enumerate() {
            if let Some(&(_, later)) = self.order.get(i + AHEAD) {
                let (piece, at) = self.piece(later);
                prefetch(&piece[at..], 2);
            }
            let (record, begin) = (self.at(at), bytes.len());
            let (key, raw) = (record.key().len(), record.value().len());
            match &mut compressor {
                None => record.pieces().for_each(|piece| bytes.extend_from_slice(piece)),
                Some(compressor) => {
                    bytes.extend_from_slice(record.key());
                    compressor.compress(record.value(), &mut bytes)?;
                }
            }
            let Ok(value) = u32::try_from(bytes.len() - begin - key) else {
                let message = format!("a value of {raw} bytes exceeds the limit after compression");
                return Err(Error::invalid(message));
            };
            items.push(Item { hash, key: key as u32, value });
            totals.add(key, raw);
        }
        Ok(Sorted { items, bytes, totals })
    }
}

/// The error of a key that was added twice.
pub(crate) fn duplicate(key: &[u8], origins: [u64; 2], name: &dyn Fn(u64) -> String) -> Error {
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
    fn sorts_uniform_and_skewed_hashes() {
        let mut rng = Rng(11);
        let pools = Pools::default();
        let even = |rng: &mut Rng| rng.next();
        let few = |rng: &mut Rng| rng.next() >> 56 << 56;
        // All but the first are in one bucket: too many for an insertion sort.
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
    fn insertion_sort_stops_at_distant_records() {
        let with_last = |n: u64| (1..n).map(|hash| (hash, 7)).chain([(0, 7)]).collect::<Vec<_>>();
        let mut near = with_last(MAX_SHIFT as u64);
        assert!(insertion_sort(&mut near) && near.is_sorted());
        let mut far = with_last(10 * MAX_SHIFT as u64);
        assert!(!insertion_sort(&mut far));
        far.sort_unstable();
        assert_eq!(far, (0..10 * MAX_SHIFT as u64).map(|hash| (hash, 7)).collect::<Vec<_>>());
    }
}
