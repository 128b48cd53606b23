//! The best matches over several partitions. Ordinals of different partitions are not comparable,
//! so this heap compares keys.

use crate::Result;
use crate::search::collect::rank::{Ranks, SortKey};
use crate::search::collect::request::DocAddress;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Up to this many fixed-width keys at the start of an order are stored inline, without an
/// allocation.
const INLINE_KEYS: usize = 2;

/// The best `k` matches so far.
pub(crate) struct TopKHeap<'q> {
    k: usize,
    order: &'q [SortKey],
    /// How many sort fields are fixed-width and stored inline.
    fixed: usize,
    heap: BinaryHeap<Entry>,
}

/// A match. Compares by the order, then by partition and document.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    inline_keys: [u128; INLINE_KEYS],
    other_keys: Vec<DirectedKey>,
    address: DocAddress,
}

/// A key that compares in the direction of its field. A missing value comes last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DirectedKey {
    Ascending(Key),
    Descending(Reverse<Key>),
    Missing,
}

/// The inline key of a missing value: larger than every key in either direction.
const MISSING: u128 = 1 << 64;

impl<'q> TopKHeap<'q> {
    pub(crate) fn new(k: usize, order: &'q [SortKey]) -> TopKHeap<'q> {
        let fixed = order.iter().take(INLINE_KEYS).take_while(|sort_key| sort_key.fixed).count();
        TopKHeap { k, order, fixed, heap: BinaryHeap::new() }
    }

    /// Offers a document of partition `p`. Returns false if the heap rejects it; then it rejects
    /// everything worse, too.
    pub(crate) fn offer(
        &mut self,
        ranks: &Ranks,
        part: &Partition,
        (p, doc): (u32, u32),
    ) -> Result<bool> {
        let address = (p, part.origin(doc));
        let mut entry = Entry { inline_keys: [0; INLINE_KEYS], other_keys: Vec::new(), address };
        for (i, sort_key) in self.order.iter().enumerate() {
            let key = ranks.key(part, i, doc)?;
            if i < self.fixed {
                entry.inline_keys[i] = directed(key, sort_key.descending);
                continue;
            }
            entry.other_keys.push(match key {
                None => DirectedKey::Missing,
                Some(key) if sort_key.descending => DirectedKey::Descending(Reverse(key)),
                Some(key) => DirectedKey::Ascending(key),
            });
        }
        Ok(self.push(entry))
    }

    fn push(&mut self, entry: Entry) -> bool {
        if self.heap.len() < self.k {
            self.heap.push(entry);
            return true;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if entry < *worst => {
                *worst = entry;
                true
            }
            _ => false,
        }
    }

    /// Merges the matches of another heap.
    pub(crate) fn merge(&mut self, other: TopKHeap) {
        for entry in other.heap {
            self.push(entry);
        }
    }

    /// The first key of the worst match, once the heap is full. Documents with worse keys cannot
    /// enter. `None` if there is no bound.
    pub(crate) fn threshold(&self) -> Option<Key> {
        if self.heap.len() < self.k {
            return None;
        }
        let worst = self.heap.peek()?;
        if self.fixed > 0 {
            let key = worst.inline_keys[0];
            let flip = if self.order[0].descending { u64::MAX } else { 0 };
            return (key < MISSING).then_some(Key::Fixed(key as u64 ^ flip));
        }
        match worst.other_keys.first()? {
            DirectedKey::Ascending(key) | DirectedKey::Descending(Reverse(key)) => {
                Some(key.clone())
            }
            DirectedKey::Missing => None,
        }
    }

    /// Whether no document of a partition can enter. `bounds` are its smallest and largest first
    /// key, `None` if no document has one.
    pub(crate) fn excludes(&self, bounds: Option<&(Key, Key)>, descending: bool) -> bool {
        match (self.threshold(), bounds) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(threshold), Some((low, high))) => {
                if descending {
                    *high < threshold
                } else {
                    *low > threshold
                }
            }
        }
    }

    /// The addresses of the matches, in order.
    pub(crate) fn into_addresses(self) -> Vec<DocAddress> {
        self.heap.into_sorted_vec().into_iter().map(|entry| entry.address).collect()
    }
}

/// An inline key that compares in the direction of its field.
fn directed(key: Option<Key>, descending: bool) -> u128 {
    match key {
        Some(Key::Fixed(key)) => u128::from(if descending { !key } else { key }),
        _ => MISSING,
    }
}
