//! Records in memory, and sorting them by key.

use crate::Result;
use crate::table::build::ordered::runs::Added;
use std::cmp::Ordering;

/// Fewest records that are sorted by several threads.
const MIN_SHARED: usize = 1 << 14;

/// Records in memory.
#[derive(Default)]
pub(crate) struct Buffer {
    chunks: Vec<Vec<u8>>,
    order: Vec<Entry>,
    /// Bytes of memory.
    pub(crate) bytes: usize,
}

/// The first bytes of a key, as a number, and the position of its record.
#[derive(Clone, Copy)]
struct Entry {
    head: u64,
    chunk: u32,
    offset: u32,
}

/// Memory for an entry, with the space that a vector reserves.
pub(crate) const ENTRY: usize = 24;

impl Buffer {
    /// Adds a record. Chunks have `size` bytes.
    pub(crate) fn push(&mut self, added: Added, size: usize) {
        let len = added.encoded_len();
        let has_room =
            self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= len);
        if !has_room {
            self.chunks.push(Vec::with_capacity(size.max(len)));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let mut head = [0; 8];
        let known = added.key.len().min(8);
        head[..known].copy_from_slice(&added.key[..known]);
        let head = u64::from_be_bytes(head);
        self.order.push(Entry { head, chunk: number as u32, offset: chunk.len() as u32 });
        added.append(chunk);
        self.bytes += len + ENTRY;
    }

    fn record(&self, entry: &Entry) -> Added<'_> {
        let bytes =
            self.chunks.get(entry.chunk as usize).and_then(|c| c.get(entry.offset as usize..));
        let empty = Added { origin: 0, key: &[], value: &[] };
        bytes.and_then(Added::decode).map_or(empty, |(record, _)| record)
    }

    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        a.head.cmp(&b.head).then_with(|| self.record(a).order(&self.record(b)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The key of the last record; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.order.last().map_or(&[], |entry| self.record(entry).key)
    }

    /// Whether the keys are in ascending order, as they were added.
    pub(crate) fn is_ascending(&self) -> bool {
        self.order.is_sorted_by(|a, b| (a.head, self.record(a).key) <= (b.head, self.record(b).key))
    }

    pub(crate) fn sort(&mut self, threads: usize) {
        let mut order = std::mem::take(&mut self.order);
        let compare = |a: &Entry, b: &Entry| self.compare(a, b);
        if !order.is_sorted_by(|a, b| compare(a, b).is_le()) {
            sort(&mut order, threads, &compare);
        }
        self.order = order;
    }

    pub(crate) fn each(&self, take: &mut dyn FnMut(Added) -> Result<()>) -> Result<()> {
        self.order.iter().try_for_each(|entry| take(self.record(entry)))
    }
}

/// Sorts with several threads: each half by half of them.
fn sort(
    order: &mut [Entry],
    threads: usize,
    compare: &(dyn Fn(&Entry, &Entry) -> Ordering + Sync),
) {
    if threads < 2 || order.len() < MIN_SHARED {
        return order.sort_unstable_by(compare);
    }
    let (low, _, high) = order.select_nth_unstable_by(order.len() / 2, compare);
    std::thread::scope(|scope| {
        scope.spawn(|| sort(low, threads / 2, compare));
        sort(high, threads - threads / 2, compare);
    });
}
