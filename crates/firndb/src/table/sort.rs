//! A partition's records in the order of the table, without duplicates, compressed.

use super::arena::{Pool, Pools};
use super::compress::Packer;
use super::options::Duplicates;
use super::raw::{HashOf, Raw, read};
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
    /// Key and value, one behind the other, and the length of the key.
    pub(crate) bytes: &'a [u8],
    pub(crate) key: u32,
    /// Bytes of the value before compression.
    pub(crate) raw: u32,
}

impl<'a> Ready<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key as usize]
    }

    pub(crate) fn value(&self) -> &'a [u8] {
        &self.bytes[self.key as usize..]
    }
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
    read(&buffer, policy.hash, &mut origin, |record, at| {
        order.push((record.hash, at as u64));
        Ok(())
    })?;
    sort_by_hash(&mut order, &pools.orders);
    let mut sorted = Sorted { bytes: buffer, order, packed: false, duplicates: 0 };
    sorted.order_equal(policy)?;
    Ok(sorted)
}

/// Sorts by hash. Hashes are spread evenly, so their first bits say nearly where each belongs.
fn sort_by_hash(order: &mut Vec<(u64, u64)>, orders: &Pool<(u64, u64)>) {
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
    let mut sorted = orders.take();
    sorted.resize(order.len(), (0, 0));
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
    orders.give(std::mem::replace(order, sorted));
}

impl Sorted {
    /// Gives its memory to partitions that are still to be sorted.
    pub(super) fn recycle(self, pools: &Pools) {
        pools.buffers.give(self.bytes);
        pools.orders.give(self.order);
    }

    /// The record that begins here.
    #[inline(always)]
    fn at(&self, at: u64) -> Raw<'_> {
        // Records were read from the same bytes before.
        Raw::at(&self.bytes, at as usize).unwrap_or_default()
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
        read(&self.bytes, policy.hash, &mut origin, |record, at| {
            origins.push((at as u64, record.origin));
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
        let key = |at: u64| self.at(at).key;
        let origin =
            |at: u64| origins.binary_search_by_key(&at, |o| o.0).map_or(0, |i| origins[i].1);
        if same.len() > 1 {
            // By value at last: then records of one origin too stand in an order of their own.
            let all = |at: u64| (key(at), origin(at), self.at(at).value);
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
            packer.pack(record.value, &mut frame)?;
            let raw = record.value.len();
            if u32::try_from(frame.len()).is_err() {
                let message = format!("a value of {raw} bytes does not get smaller");
                return Err(Error::invalid(message));
            }
            *at = packed.len() as u64;
            Raw { key: record.key, value: &frame, last: raw as u64 }.append(&mut packed);
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
        // Records were read from the same bytes before.
        let (record, end) = Raw::with_end(&self.bytes, at as usize).unwrap_or_default();
        let (key, value) = (record.key.len(), record.value.len());
        let bytes = &self.bytes[end - key - value..end];
        let raw = if self.packed { record.last as u32 } else { value as u32 };
        Ready { hash, bytes, key: key as u32, raw }
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
