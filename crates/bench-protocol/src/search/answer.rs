//! Answers to queries, and their checksum, which is the same for every engine with a correct
//! answer.

/// A document of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// The document's `id` field.
    pub id: u64,
    /// The sort keys, zero where the order has fewer keys.
    pub keys: [i64; 2],
    /// Sum of the bytes of its payload if the query returns payloads, else zero.
    pub payload: u64,
}

/// The result of a query: a count, or a page of hits in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Matches of a counting query; hits of a page.
    pub count: u64,
    /// The page; empty for a counting query.
    pub hits: Vec<Hit>,
}

impl Answer {
    /// Clears the answer but keeps its memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.hits.clear();
    }

    /// Sets the answer of a counting query.
    pub fn set_count(&mut self, count: u64) {
        self.clear();
        self.count = count;
    }

    /// Adds a hit to the page.
    pub fn push(&mut self, hit: Hit) {
        self.hits.push(hit);
        self.count += 1;
    }

    /// Folds the answer into one number.
    ///
    /// Documents with equal sort keys may come in any order, because engines break ties
    /// differently. A full page may have cut through its last run of equal keys; of these documents
    /// only the keys count.
    pub fn checksum(&self, limit: u64) -> u64 {
        let full = self.count == limit;
        let last = self.hits.last().map(|hit| hit.keys);
        let mut sum = mix(self.count);
        for (place, hit) in self.hits.iter().enumerate() {
            let keys = mix(hit.keys[0] as u64 ^ mix(hit.keys[1] as u64 ^ mix(place as u64)));
            sum = sum.wrapping_add(keys);
            if !full || Some(hit.keys) != last {
                sum = sum.wrapping_add(mix(hit.id ^ mix(hit.payload)));
            }
        }
        sum
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(hits: &[(u64, i64)]) -> Answer {
        let mut answer = Answer::default();
        for &(id, key) in hits {
            answer.push(Hit { id, keys: [key, 0], payload: 0 });
        }
        answer
    }

    #[test]
    fn ties_may_come_in_any_order_and_other_hits_may_not() {
        let one = page(&[(1, 9), (2, 9), (3, 5)]);
        assert_eq!(one.checksum(10), page(&[(2, 9), (1, 9), (3, 5)]).checksum(10));
        assert_ne!(one.checksum(10), page(&[(1, 9), (4, 9), (3, 5)]).checksum(10));
        assert_ne!(one.checksum(10), page(&[(3, 5), (1, 9), (2, 9)]).checksum(10));
    }

    #[test]
    fn a_full_page_may_hold_any_of_its_last_ties() {
        let one = page(&[(1, 9), (2, 5), (3, 5)]);
        assert_eq!(one.checksum(3), page(&[(1, 9), (7, 5), (3, 5)]).checksum(3));
        assert_ne!(one.checksum(3), page(&[(8, 9), (2, 5), (3, 5)]).checksum(3));
        assert_ne!(one.checksum(4), page(&[(1, 9), (7, 5), (3, 5)]).checksum(4));
    }

    #[test]
    fn the_checksum_matches_that_of_peers_in_other_languages() {
        let mut answer = page(&[(7, -3), (8, 4)]);
        answer.hits[0].payload = 1000;
        assert_eq!(answer.checksum(10), 8522451789000687055);
    }
}
