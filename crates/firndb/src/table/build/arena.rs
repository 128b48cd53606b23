//! Memory for collected records: chunks of slabs, which the arena allocates as a build needs them
//! and frees as the build has read them.
//!
//! Neighbouring partitions form a group and share slabs. A build reads partitions in order, so the
//! memory of a group is free long before the table is written, and the page cache of the output
//! file can reuse it. This halves the memory that a build touches.

use crate::Result;
use crate::disk::Slab;
use crate::table::build::encode::Item;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Groups of partitions.
const GROUPS: usize = 16;
/// Size of a slab; smaller for a small budget, larger for a large one, because the number of maps
/// of a process is limited.
const SLAB: usize = 1 << 21;
const SLABS: usize = 1 << 12;
/// Slabs that a thread allocates ahead.
const SLABS_AHEAD: usize = 8;

/// A range of a slab: free space, or records.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chunk {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) slab: u32,
}

impl Chunk {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Allocates chunks up to a budget.
pub(crate) struct Arena {
    groups: Vec<Group>,
    /// Bits of the number of a partition within its group.
    bits: u32,
    budget: usize,
    /// Bytes of the slabs of all groups.
    used: usize,
    /// Slabs to be reused.
    free: Vec<Slab>,
    /// Slabs that a thread has allocated and touched, which is half of the work of filling them.
    /// Reached only through `&mut`; the mutex makes the arena `Sync`.
    allocated: Mutex<Option<Receiver<Slab>>>,
}

#[derive(Default)]
struct Group {
    slabs: RwLock<Vec<Slab>>,
    /// Used bytes of the last slab.
    used_in_last: usize,
    /// Partitions that have not been released.
    unread: AtomicUsize,
}

impl Group {
    fn slabs(&mut self) -> &mut Vec<Slab> {
        self.slabs.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    /// An arena for this many partitions.
    pub(crate) fn new(partitions: usize, budget: usize) -> Arena {
        let groups = (0..GROUPS).map(|_| Group::default()).collect();
        let bits = partitions.div_ceil(GROUPS).next_power_of_two().ilog2();
        Arena { groups, bits, budget, used: 0, free: Vec::new(), allocated: Mutex::default() }
    }

    fn slab_size(&self) -> usize {
        let large = self.budget / SLABS / SLAB * SLAB;
        SLAB.max(large).min(self.budget / (4 * GROUPS)).max(1)
    }

    /// Allocates a chunk of a partition; `None` if the budget is exhausted.
    pub(crate) fn take(&mut self, partition: usize, capacity: usize) -> Result<Option<Chunk>> {
        let (number, size) = (partition >> self.bits, self.slab_size());
        let group = &mut self.groups[number];
        let room = group.slabs().last().map_or(0, |slab| slab.len()) - group.used_in_last;
        if room < capacity {
            if self.used > 0 && self.used + size.max(capacity) > self.budget {
                return Ok(None);
            }
            let slab = if capacity > size { self.large_slab(capacity)? } else { self.slab(size)? };
            self.used += slab.len();
            let group = &mut self.groups[number];
            group.slabs().push(slab);
            group.used_in_last = 0;
        }
        let group = &mut self.groups[number];
        let (slab, start) = (group.slabs().len() - 1, group.used_in_last);
        group.used_in_last += capacity;
        Ok(Some(Chunk { slab: slab as u32, start, end: group.used_in_last }))
    }

    /// Allocates a slab for one long record. Frees reusable slabs to stay within the budget.
    fn large_slab(&mut self, capacity: usize) -> Result<Slab> {
        let left = self.budget.saturating_sub(self.used + capacity);
        self.free.truncate(left / self.slab_size());
        Slab::new(capacity)
    }

    fn slab(&mut self, size: usize) -> Result<Slab> {
        if let Some(slab) = self.free.pop() {
            return Ok(slab);
        }
        // Starts the thread only for large tables.
        let allocated = self.allocated.get_mut().unwrap_or_else(PoisonError::into_inner);
        if allocated.is_none() && self.used >= GROUPS * size && size >= SLAB {
            let most = self.budget.saturating_sub(self.used) / size;
            *allocated = allocate_ahead(size, most.saturating_sub(SLABS_AHEAD));
        }
        match allocated.as_ref().map(Receiver::recv) {
            Some(Ok(slab)) => Ok(slab),
            _ => Slab::new(size),
        }
    }

    /// Takes back all chunks. Slabs of long records are freed, since the next long record may need
    /// a larger one.
    pub(crate) fn reset(&mut self) {
        let size = self.slab_size();
        for group in &mut self.groups {
            let slabs = std::mem::take(group.slabs());
            self.free.extend(slabs.into_iter().filter(|slab| slab.len() == size));
            group.used_in_last = 0;
        }
        (self.used, self.allocated) = (0, Mutex::default());
    }

    /// Ends allocation. `unread` says for each partition whether it has records.
    pub(crate) fn seal(&mut self, unread: impl Iterator<Item = bool>) {
        (self.free, self.allocated) = (Vec::new(), Mutex::default());
        for (partition, _) in unread.enumerate().filter(|(_, unread)| *unread) {
            *self.groups[partition >> self.bits].unread.get_mut() += 1;
        }
    }

    /// Marks a partition with records as read. The last one of its group frees the memory of the
    /// group.
    pub(crate) fn release(&self, partition: usize) {
        let group = &self.groups[partition >> self.bits];
        if group.unread.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut slabs = group.slabs.write().unwrap_or_else(PoisonError::into_inner);
            drop(std::mem::take(&mut *slabs));
        }
    }

    /// The slabs of a partition, for reading.
    pub(crate) fn slabs_of(&self, partition: usize) -> Slabs<'_> {
        let group = &self.groups[partition >> self.bits];
        Slabs(group.slabs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bytes of a chunk, for writing.
    #[inline(always)]
    pub(crate) fn room(&mut self, partition: usize, chunk: Chunk) -> &mut [u8] {
        let slab = &mut self.groups[partition >> self.bits].slabs()[chunk.slab as usize];
        &mut slab[chunk.start..chunk.end]
    }
}

/// The slabs of a group, locked against release.
pub(crate) struct Slabs<'a>(RwLockReadGuard<'a, Vec<Slab>>);

impl Slabs<'_> {
    /// The records of a chunk.
    pub(crate) fn bytes(&self, chunk: Chunk) -> &[u8] {
        &self.0[chunk.slab as usize][chunk.start..chunk.end]
    }
}

/// Allocates up to `most` slabs in a thread, as fast as they are received. `None` if the thread
/// cannot be started.
fn allocate_ahead(size: usize, most: usize) -> Option<Receiver<Slab>> {
    let (send, receive) = sync_channel(SLABS_AHEAD);
    let make = move || {
        for _ in 0..most {
            // The receiver then allocates a slab itself, and gets the error.
            let Ok(slab) = Slab::taken(size) else { return };
            if send.send(slab).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(make).ok().map(|_| receive)
}

/// Vectors for reuse. Freeing and allocating memory for each partition would take a tenth of the
/// time of a build. Each vector is taken and given back, so there are never more than are in use at
/// once.
#[derive(Default)]
pub(crate) struct Pools {
    /// Partitions that are read back, and their records in order.
    pub(crate) buffers: Pool<u8>,
    /// Hash and position of each record.
    pub(crate) orders: Pool<(u64, u64)>,
    /// Hash and lengths of each record.
    pub(crate) items: Pool<Item>,
}

#[derive(Default)]
pub(crate) struct Pool<T>(Mutex<Vec<Vec<T>>>);

impl<T> Pool<T> {
    /// An empty vector.
    pub(crate) fn take(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, mut used: Vec<T>) {
        used.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_disjoint_and_groups_are_freed_when_read() {
        let mut arena = Arena::new(64, 1 << 20);
        let mut chunks: Vec<(usize, Chunk)> = Vec::new();
        let mut number = 0;
        while let Some(chunk) = arena.take(number % 64, 100 + number % 900).unwrap() {
            chunks.push((number % 64, chunk));
            number += 1;
        }
        assert!(arena.used <= 1 << 20 && number > 1_000, "{number} chunks");
        for (i, &(partition, chunk)) in chunks.iter().enumerate() {
            let room = arena.room(partition, chunk);
            assert!(room.iter().all(|&byte| byte == 0), "written before");
            room.fill(1 + (i % 200) as u8);
        }
        // Groups of four partitions; partition 5 is empty.
        arena.seal((0..64).map(|partition| partition != 5));
        for partition in 0..64 {
            for (i, (of, chunk)) in chunks.iter().enumerate().filter(|(_, c)| c.0 == partition) {
                let slabs = arena.slabs_of(*of);
                let bytes = slabs.bytes(*chunk);
                assert!(
                    bytes.len() == chunk.len() && bytes.iter().all(|&b| b == 1 + (i % 200) as u8)
                );
            }
            if partition != 5 {
                arena.release(partition);
            }
            assert_eq!(arena.slabs_of(partition).0.is_empty(), partition % 4 == 3);
        }
    }

    #[test]
    fn reset_reuses_slabs_except_long_ones() {
        let mut arena = Arena::new(16, 1 << 16);
        arena.take(3, 1 << 20).unwrap().expect("the first chunk, however long");
        assert!(arena.take(4, 100).unwrap().is_none());
        arena.reset();
        assert_eq!((arena.used, arena.free.len()), (0, 0));
        let few = (0..16).filter(|&p| arena.take(p, 100).unwrap().is_some()).count();
        arena.reset();
        assert_eq!((few, arena.free.len()), (16, 16));
        (0..16).for_each(|p| assert!(arena.take(p, 100).unwrap().is_some()));
        assert!(arena.free.is_empty());
    }
}
