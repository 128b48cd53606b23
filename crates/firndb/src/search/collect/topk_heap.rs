//! The best matches over all partitions, by their keys: what partitions with other ordinals have in
//! common.

use crate::Result;
use crate::search::collect::rank::{Ranks, SortKey};
use crate::search::collect::request::DocAddress;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fixed-width keys at the head of an order are kept in place, without an allocation.
const HEAD: usize = 2;

/// The best `k` matches so far.
pub(crate) struct TopKHeap<'q> {
    k: usize,
    order: &'q [SortKey],
    /// How many fields of the order are fixed-width and kept in the head.
    fixed: usize,
    heap: BinaryHeap<Entry>,
}

/// A match that compares by the order asked for, then by partition and document.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    head: [u128; HEAD],
    rest: Vec<Directed>,
    place: DocAddress,
}

/// A key that compares in the direction of its field; absent keys come last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Directed {
    Ascending(Key),
    Descending(Reverse<Key>),
    Missing,
}

/// Stands for an absent key: larger than every key in either direction.
const MISSING: u128 = 1 << 64;

impl<'q> TopKHeap<'q> {
    pub(crate) fn new(k: usize, order: &'q [SortKey]) -> TopKHeap<'q> {
        let fixed = order.iter().take(HEAD).take_while(|by| by.fixed).count();
        TopKHeap { k, order, fixed, heap: BinaryHeap::new() }
    }

    /// Takes a document of partition `p` if it is good enough; false if it is not (then nothing
    /// worse is either).
    pub(crate) fn offer(
        &mut self,
        ranks: &Ranks,
        part: &Partition,
        (p, doc): (u32, u32),
    ) -> Result<bool> {
        let place = (p, part.origin(doc));
        let mut entry = Entry { head: [0; HEAD], rest: Vec::new(), place };
        for (i, by) in self.order.iter().enumerate() {
            let key = ranks.key(part, i, doc)?;
            if i < self.fixed {
                entry.head[i] = directed(key, by.descending);
                continue;
            }
            entry.rest.push(match key {
                None => Directed::Missing,
                Some(key) if by.descending => Directed::Descending(Reverse(key)),
                Some(key) => Directed::Ascending(key),
            });
        }
        Ok(self.take(entry))
    }

    fn take(&mut self, entry: Entry) -> bool {
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

    /// Takes what another one has that is good enough.
    pub(crate) fn join(&mut self, other: TopKHeap) {
        for entry in other.heap {
            self.take(entry);
        }
    }

    /// The first key of the worst match kept, once there are enough: worse keys need not be
    /// looked at.
    pub(crate) fn threshold(&self) -> Option<Key> {
        if self.heap.len() < self.k {
            return None;
        }
        let worst = self.heap.peek()?;
        if self.fixed > 0 {
            let key = worst.head[0];
            let flip = if self.order[0].descending { u64::MAX } else { 0 };
            return (key < MISSING).then_some(Key::Fixed(key as u64 ^ flip));
        }
        match worst.rest.first()? {
            Directed::Ascending(key) | Directed::Descending(Reverse(key)) => Some(key.clone()),
            Directed::Missing => None,
        }
    }

    /// Whether a partition with these smallest and largest keys has nothing to offer.
    pub(crate) fn beats(&self, bounds: Option<&(Key, Key)>, descending: bool) -> bool {
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

    /// The matches in order.
    pub(crate) fn into_places(self) -> Vec<DocAddress> {
        self.heap.into_sorted_vec().into_iter().map(|entry| entry.place).collect()
    }
}

fn directed(key: Option<Key>, descending: bool) -> u128 {
    match key {
        Some(Key::Fixed(key)) => u128::from(if descending { !key } else { key }),
        _ => MISSING,
    }
}
