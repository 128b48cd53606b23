//! Stable numbers (slots) for the partitions of a set. Adding or removing partitions does not
//! change the slots of the others, so value tables that refer to slots need no update for them.

use crate::search::partition::set::SetChanges;

/// Marks a free slot, and a partition without a slot.
const ABSENT: u32 = u32::MAX;

/// Maps the partitions of a set to slots, and back.
pub(crate) struct Slots {
    /// The slot of each partition.
    slots: Vec<u32>,
    /// The partition of each slot; `ABSENT` if the slot is free.
    partitions: Vec<u32>,
}

impl Slots {
    /// The slot of each partition is its number.
    pub(crate) fn new(partitions: usize) -> Slots {
        let numbers = || (0..partitions as u32).collect();
        Slots { slots: numbers(), partitions: numbers() }
    }

    /// The number of partitions in the set.
    pub(crate) fn partition_count(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a partition.
    pub(crate) fn of(&self, partition: usize) -> u32 {
        self.slots[partition]
    }

    /// The partition of a slot; `None` if the slot is free.
    pub(crate) fn partition(&self, slot: u32) -> Option<usize> {
        let partition = self.partitions.get(slot as usize).copied().filter(|&p| p != ABSENT)?;
        Some(partition as usize)
    }

    /// The slots of the successor of this set. Partitions whose names remain keep their slots; new
    /// ones get free slots.
    pub(crate) fn next(&self, changes: &SetChanges) -> Slots {
        let mut slots = vec![ABSENT; changes.before.len()];
        let mut partitions = vec![ABSENT; self.partitions.len()];
        for (p, old) in changes.before.iter().enumerate() {
            if let Some(old) = *old {
                slots[p] = self.slots[old];
                partitions[slots[p] as usize] = p as u32;
            }
        }
        let mut free = 0;
        for (p, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| **slot == ABSENT) {
            free += partitions[free..].iter().take_while(|&&p| p != ABSENT).count();
            if free == partitions.len() {
                partitions.push(ABSENT);
            }
            (*slot, partitions[free]) = (free as u32, p as u32);
        }
        Slots { slots, partitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_keep_their_slots_and_new_ones_reuse_free_slots() {
        let changes = |before: &[Option<usize>]| SetChanges {
            before: before.to_vec(),
            added: Vec::new(),
            removed: Vec::new(),
        };
        let first = Slots::new(4);
        // Removes partitions 0 and 2, and adds one at the front, in the middle and at the end.
        let next = first.next(&changes(&[None, Some(1), None, Some(3), None]));
        assert_eq!(next.slots, [0, 1, 2, 3, 4]);
        let last = next.next(&changes(&[Some(4), None, Some(1)]));
        assert_eq!(last.slots, [4, 0, 1]);
        let found: Vec<_> = (0..6).map(|slot| last.partition(slot)).collect();
        assert_eq!(found, [Some(1), Some(2), None, None, Some(0), None]);
    }
}
