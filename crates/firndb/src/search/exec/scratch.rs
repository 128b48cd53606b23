//! Reusable memory of a query: bitsets, intervals of ordinals, documents.

use crate::search::simd::kernels;

/// Beyond this many clauses of one `and`, their bitsets are combined into one.
pub(crate) const FEW: usize = 8;

/// Memory that later partitions and queries reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Intervals of ordinals, `start..end`.
    pub(crate) intervals: Vec<(u32, u32)>,
    bits: Vec<Vec<u64>>,
    /// Bitsets with numbers below this are in use.
    pub(crate) bits_used: usize,
    pub(crate) docs: Vec<u32>,
    pub(crate) words: Vec<u64>,
}

impl Scratch {
    /// Takes a zeroed bitset of `words` words and returns its number.
    pub(crate) fn take_bits(&mut self, words: usize) -> usize {
        let number = self.take_any_bits(words);
        self.bits[number].fill(0);
        number
    }

    /// Takes a bitset of `words` words with arbitrary content and returns its number.
    pub(crate) fn take_any_bits(&mut self, words: usize) -> usize {
        if self.bits_used == self.bits.len() {
            self.bits.push(Vec::new());
        }
        self.bits[self.bits_used].resize(words, 0);
        self.bits_used += 1;
        self.bits_used - 1
    }

    pub(crate) fn bits(&self, number: usize) -> &[u64] {
        &self.bits[number]
    }

    pub(crate) fn bits_mut(&mut self, number: usize) -> &mut Vec<u64> {
        &mut self.bits[number]
    }

    /// The number of bitsets that were allocated.
    #[cfg(test)]
    pub(crate) fn made(&self) -> usize {
        self.bits.len()
    }

    /// Frees the memory if an unusual query needed much of it.
    pub(crate) fn trim(&mut self) {
        let kept: usize = self.bits.iter().map(Vec::capacity).sum();
        if kept > 1 << 20 || self.docs.capacity() > 1 << 20 {
            *self = Scratch::default();
        }
    }

    /// Whether `number` is the bitset that was taken last.
    pub(crate) fn is_last(&self, number: usize) -> bool {
        number + 1 == self.bits_used
    }

    /// Intersects two bitsets, each with a flag that says whether it is negated. The result
    /// replaces `into`; `last`, which must be the bitset taken last, is released. Returns whether
    /// the result is negated.
    pub(crate) fn fold(&mut self, into: (usize, bool), last: (usize, bool)) -> bool {
        if !into.1 && last.1 {
            let with = std::mem::take(&mut self.bits[last.0]);
            kernels::and_not(&mut self.bits[into.0], &with);
            self.bits[last.0] = with;
        } else {
            if into.1 && !last.1 {
                self.bits.swap(into.0, last.0);
            }
            let with = std::mem::take(&mut self.bits[last.0]);
            let bits = &mut self.bits[into.0];
            match (into.1, last.1) {
                (true, true) => kernels::or(bits, &with),
                (false, false) => kernels::and(bits, &with),
                _ => kernels::and_not(bits, &with),
            }
            self.bits[last.0] = with;
        }
        self.bits_used = last.0;
        into.1 && last.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fold_intersects_two_bitsets() {
        let (a, b) = (0b1100u64, 0b1010u64);
        for (negate_a, negate_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut scratch = Scratch::default();
            let [into, last] = [a, b].map(|word| {
                let number = scratch.take_bits(1);
                scratch.bits_mut(number)[0] = word;
                number
            });
            let negate = scratch.fold((into, negate_a), (last, negate_b));
            let word = |word: u64, negate: bool| if negate { !word } else { word };
            let expected = word(a, negate_a) & word(b, negate_b);
            assert_eq!(word(scratch.bits(into)[0], negate), expected, "{negate_a} {negate_b}");
            assert!(scratch.is_last(into));
        }
    }
}
