//! Numbers under which a statistics knows partitions: they stay when others come or go, so that
//! what is written down of a partition need not be changed because of its neighbours.

use crate::search::partition::set::SetChanges;

const ABSENT: u32 = u32::MAX;

/// The slot of each partition of a set, and back.
pub(crate) struct Slots {
    of: Vec<u32>,
    /// For each slot its partition; `ABSENT` if it waits for one.
    at: Vec<u32>,
}

impl Slots {
    /// Each partition has its own number.
    pub(crate) fn new(partitions: usize) -> Slots {
        let numbers = || (0..partitions as u32).collect();
        Slots { of: numbers(), at: numbers() }
    }

    /// Partitions of the set.
    pub(crate) fn partitions(&self) -> usize {
        self.of.len()
    }

    /// The slot of a partition.
    pub(crate) fn of(&self, partition: usize) -> u32 {
        self.of[partition]
    }

    /// The partition of a slot, if it has one.
    pub(crate) fn partition(&self, slot: u32) -> Option<usize> {
        let partition = self.at.get(slot as usize).copied().filter(|&p| p != ABSENT)?;
        Some(partition as usize)
    }

    /// Those of the next set: partitions whose names stay keep theirs, new ones get what is free.
    pub(crate) fn next(&self, changes: &SetChanges) -> Slots {
        let (mut of, mut at) = (vec![ABSENT; changes.before.len()], vec![ABSENT; self.at.len()]);
        for (p, old) in changes.before.iter().enumerate() {
            if let Some(old) = *old {
                of[p] = self.of[old];
                at[of[p] as usize] = p as u32;
            }
        }
        let mut free = 0;
        for (p, slot) in of.iter_mut().enumerate().filter(|(_, slot)| **slot == ABSENT) {
            free += at[free..].iter().take_while(|&&p| p != ABSENT).count();
            if free == at.len() {
                at.push(ABSENT);
            }
            (*slot, at[free]) = (free as u32, p as u32);
        }
        Slots { of, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_keep_their_slots_and_new_ones_take_what_is_free() {
        let changes = |before: &[Option<usize>]| SetChanges {
            before: before.to_vec(),
            come: Vec::new(),
            gone: Vec::new(),
        };
        let first = Slots::new(4);
        // Partitions 0 and 2 are gone; one comes first, one in the middle and one last.
        let next = first.next(&changes(&[None, Some(1), None, Some(3), None]));
        assert_eq!(next.of, [0, 1, 2, 3, 4]);
        let last = next.next(&changes(&[Some(4), None, Some(1)]));
        assert_eq!(last.of, [4, 0, 1]);
        let found: Vec<_> = (0..6).map(|slot| last.partition(slot)).collect();
        assert_eq!(found, [Some(1), Some(2), None, None, Some(0), None]);
    }
}
