//! Merges sorted sources of keys into one.
//!
//! A tournament tree: each inner node keeps the loser of its match, so that after a step the next
//! entry of one source meets only the losers on the way up, log2 of the number of sources. Most
//! matches compare 16 bytes of the keys, which the tree keeps.

use crate::Result;
use crate::bytes::varint::long_beginning;
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

/// Iterates over the entries of all sources. After an error, there are none.
pub(crate) struct KeyMerge<S> {
    sources: Vec<S>,
    direction: Direction,
    /// Node i has the children 2i and 2i + 1. Node 0 has the overall winner, others the loser of a
    /// match. Source i would be node n + i.
    nodes: Vec<Player>,
}

/// A source in a match.
#[derive(Clone, Copy)]
struct Player {
    /// Ascends with the order of iteration: the beginning of the current key.
    rank: u128,
    source: usize,
}

impl<S: KeySource> KeyMerge<S> {
    /// Merges sources that iterate in the same direction.
    pub(crate) fn new(sources: Vec<S>, direction: Direction) -> KeyMerge<S> {
        let count = sources.len();
        let mut merge = KeyMerge { sources, direction, nodes: Vec::new() };
        // The winners of all nodes; leaves first.
        let mut winners = vec![Player { rank: 0, source: 0 }; 2 * count];
        (0..count).for_each(|source| winners[count + source] = merge.player(source));
        let mut nodes = winners.clone();
        nodes.truncate(count);
        for node in (1..count).rev() {
            let [a, b] = [winners[2 * node], winners[2 * node + 1]];
            let b_wins = merge.beats(b, a);
            (winners[node], nodes[node]) = if b_wins { (b, a) } else { (a, b) };
        }
        if let (Some(top), Some(winner)) = (nodes.first_mut(), winners.get(1)) {
            *top = *winner;
        }
        merge.nodes = nodes;
        merge
    }

    #[inline]
    fn player(&self, source: usize) -> Player {
        let rank = match self.sources[source].current() {
            None => u128::MAX,
            Some(entry) => {
                let rank = long_beginning(entry.key);
                if self.direction == Direction::Forward { rank } else { !rank }
            }
        };
        Player { rank, source }
    }

    /// Whether the entry of `a` is before that of `b`.
    #[inline]
    fn beats(&self, a: Player, b: Player) -> bool {
        a.rank < b.rank || a.rank == b.rank && self.beats_in_full(a, b)
    }

    /// [`KeyMerge::beats`] for keys that begin alike.
    #[inline(never)]
    fn beats_in_full(&self, a: Player, b: Player) -> bool {
        let entry = |player: Player| self.sources[player.source].current();
        match (entry(a), entry(b)) {
            (Some(a), Some(b)) => match self.direction {
                Direction::Forward => a.cmp(&b) == Ordering::Less,
                Direction::Reverse => a.cmp(&b) == Ordering::Greater,
            },
            (a, _) => a.is_some(),
        }
    }
}

impl<S: KeySource> KeySource for KeyMerge<S> {
    #[inline]
    fn current(&self) -> Option<KeyEntry<'_>> {
        self.sources.get(self.nodes.first()?.source)?.current()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(&Player { source, .. }) = self.nodes.first() else { return Ok(()) };
        if let Err(error) = self.sources[source].advance() {
            // Without this source the others would pass for all entries.
            self.nodes.clear();
            return Err(error);
        }
        let mut winner = self.player(source);
        let mut node = (self.nodes.len() + source) / 2;
        while node > 0 {
            let loser = self.nodes[node];
            let loser_wins = self.beats(loser, winner);
            self.nodes[node] = select_unpredictable(loser_wins, winner, loser);
            winner = select_unpredictable(loser_wins, loser, winner);
            node /= 2;
        }
        self.nodes[0] = winner;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::testing::Rng;

    type Entries = Vec<(Vec<u8>, u64, u64)>;

    /// Entries of a list, in the order of iteration. The one at `fails` cannot be read.
    struct List {
        entries: Entries,
        at: usize,
        fails: Option<usize>,
    }

    impl KeySource for List {
        fn current(&self) -> Option<KeyEntry<'_>> {
            let (key, segment, offset) = self.entries.get(self.at)?;
            Some(KeyEntry { key, segment: *segment, offset: *offset })
        }

        fn advance(&mut self) -> Result<()> {
            self.at += 1;
            match self.fails {
                Some(at) if at == self.at => Err(Error::corrupt("damaged")),
                _ => Ok(()),
            }
        }
    }

    fn random(rng: &mut Rng) -> Entries {
        let common = vec![*rng.pick(&[0, 255, 7]); rng.below(10)];
        let entry = |rng: &mut Rng| {
            let length = rng.below(4);
            let end: Vec<u8> = (0..length).map(|_| *rng.pick(&[0, 1, 255])).collect();
            ([&common[..], &end].concat(), rng.below(3), rng.below(3))
        };
        (0..rng.below(30)).map(|_| entry(rng)).collect()
    }

    #[test]
    fn a_merge_has_all_entries_in_order() {
        let mut rng = Rng(1);
        for round in 0..2000 {
            let direction = *rng.pick(&[Direction::Forward, Direction::Reverse]);
            let sort = |entries: &mut Entries| match direction {
                Direction::Forward => entries.sort(),
                Direction::Reverse => entries.sort_by(|a, b| b.cmp(a)),
            };
            let mut lists: Vec<_> = (0..rng.below(22)).map(|_| random(&mut rng)).collect();
            lists.iter_mut().for_each(sort);
            let mut expected = lists.concat();
            sort(&mut expected);
            let source = |entries| List { entries, at: 0, fails: None };
            let mut merge = KeyMerge::new(lists.into_iter().map(source).collect(), direction);
            let mut found = Vec::new();
            while let Some(entry) = merge.current() {
                found.push((entry.key.to_vec(), entry.segment, entry.offset));
                merge.advance().unwrap();
            }
            assert_eq!(found, expected, "round {round}");
            merge.advance().unwrap();
            assert!(merge.current().is_none(), "the end stays the end");
        }
    }

    #[test]
    fn a_merge_ends_with_an_error() {
        let list = |keys: &[u8], fails| {
            let entries = keys.iter().map(|&key| (vec![key], 1, 1)).collect();
            List { entries, at: 0, fails }
        };
        let lists = vec![list(&[1, 4, 6], Some(2)), list(&[2, 3, 5, 7, 8], None)];
        let mut merge = KeyMerge::new(lists, Direction::Forward);
        for key in 1..4 {
            assert_eq!(merge.current().unwrap().key, [key]);
            merge.advance().unwrap();
        }
        assert!(merge.advance().is_err());
        assert!(merge.current().is_none());
        assert!(merge.advance().is_ok() && merge.current().is_none());
    }
}
