//! A set of ordinals to look for in a column.

use crate::search::format::limits::SCAN_BITS;
use crate::search::simd::kernels;
use std::sync::Arc;

/// A bitset of ordinals below 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(pub(crate) [u64; 4]);

impl Keys {
    /// Adds the ordinals `start..end`, ignoring those above 255.
    pub(crate) fn insert(&mut self, start: u32, end: u32) {
        kernels::set_range(&mut self.0, start, end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the ordinals of another set.
    pub(crate) fn join(&mut self, other: &Keys) {
        kernels::or(&mut self.0, &other.0);
    }

    pub(crate) fn len(&self) -> usize {
        kernels::count(&self.0) as usize
    }

    /// 1 if an ordinal, which must be below 256, is in the set, else 0.
    #[inline(always)]
    pub(crate) fn bit(&self, ord: u32) -> u64 {
        self.0[ord as usize / 64 % 4] >> (ord % 64) & 1
    }

    /// The set with the membership of numbers of `bits` bits repeated for all larger numbers, so
    /// that a look-up may ignore the bits above.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn repeated(self, bits: usize) -> [u64; 4] {
        let mut words = self.0;
        for size in (0..8).map(|i| 1usize << i).skip(bits) {
            match size {
                ..64 => words[0] = words[0] & ((1 << size) - 1) | words[0] << size,
                64 => words[1] = words[0],
                _ => words.copy_within(0..2, 2),
            }
        }
        words
    }
}

/// A set of ordinals, in the form that suits the width of the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrdinalSet {
    /// Any set, for a column of at most [`SCAN_BITS`].
    Small(Keys),
    /// `len` ordinals from `first` on, modulo 2^32.
    Range { first: u32, len: u32 },
    /// Disjoint, ascending ranges (first, length) with gaps between them; the last may wrap around
    /// at 2^32.
    Ranges(Arc<[(u32, u32)]>),
    /// The ordinals whose bits are set; `beyond` is the membership of all ordinals beyond the last
    /// bit.
    Many { bits: Arc<[u64]>, beyond: bool },
}

impl OrdinalSet {
    /// The ordinals of some ranges `start..end`, for a column of `bits` bits.
    pub(crate) fn new(intervals: &[(u32, u32)], bits: usize) -> OrdinalSet {
        if bits <= SCAN_BITS.into() {
            let mut keys = Keys::default();
            intervals.iter().for_each(|&(start, end)| keys.insert(start, end));
            return OrdinalSet::Small(keys);
        }
        if let [(first, end)] = *intervals {
            return OrdinalSet::Range { first, len: end.saturating_sub(first) };
        }
        let intervals = merge_ranges(intervals);
        match *intervals {
            [] => OrdinalSet::Range { first: 0, len: 0 },
            [(first, end)] => OrdinalSet::Range { first, len: end - first },
            _ if super::cost(bits) * intervals.len() as u64 <= super::LOOKUP_COST => {
                OrdinalSet::Ranges(
                    intervals.iter().map(|&(first, end)| (first, end - first)).collect(),
                )
            }
            _ => OrdinalSet::many(&intervals, bits),
        }
    }

    /// The ordinals of ascending ranges as a bitmap.
    fn many(intervals: &[(u32, u32)], bits: usize) -> OrdinalSet {
        // Ordinals fit into the bits of the column, even if a corrupt file claims more keys.
        let most = intervals.last().map_or(0, |(_, end)| *end) as usize;
        let mut set = vec![0; most.min(1 << bits.min(31)).div_ceil(64)];
        intervals.iter().for_each(|&(start, end)| kernels::set_range(&mut set, start, end));
        OrdinalSet::Many { bits: set.into(), beyond: false }
    }

    /// The complement. It contains the number that stands for a missing value.
    pub(crate) fn complement(&self) -> OrdinalSet {
        match self {
            OrdinalSet::Small(keys) => OrdinalSet::Small(Keys(keys.0.map(|word| !word))),
            // The length 2^32 does not fit into a u32, so the last number, which no column has, is
            // left out.
            OrdinalSet::Range { len: 0, .. } => OrdinalSet::Range { first: 0, len: u32::MAX },
            OrdinalSet::Range { first, len } => {
                OrdinalSet::Range { first: first.wrapping_add(*len), len: len.wrapping_neg() }
            }
            // The gaps from the end of each range to the next one; the last gap wraps around.
            OrdinalSet::Ranges(ranges) => {
                let next = ranges.iter().cycle().skip(1);
                let gap = |(&(first, len), &(next, _)): (&(u32, u32), &(u32, u32))| {
                    let end = first.wrapping_add(len);
                    (end, next.wrapping_sub(end))
                };
                OrdinalSet::Ranges(ranges.iter().zip(next).map(gap).collect())
            }
            OrdinalSet::Many { bits, beyond } => {
                OrdinalSet::Many { bits: bits.iter().map(|word| !word).collect(), beyond: !beyond }
            }
        }
    }

    /// Whether an ordinal is in the set.
    #[cfg(test)]
    pub(crate) fn has(&self, ord: u32) -> bool {
        match self {
            OrdinalSet::Small(keys) => keys.bit(ord) == 1,
            OrdinalSet::Range { first, len } => ord.wrapping_sub(*first) < *len,
            OrdinalSet::Ranges(ranges) => {
                ranges.iter().any(|(first, len)| ord.wrapping_sub(*first) < *len)
            }
            OrdinalSet::Many { bits, beyond } => has(bits, *beyond, ord),
        }
    }
}

/// Sorts ranges `start..end` and merges those that overlap or touch.
fn merge_ranges(intervals: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut all: Vec<_> = intervals.iter().copied().filter(|(start, end)| start < end).collect();
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let touch = next.0 <= last.1;
        if touch {
            last.1 = last.1.max(next.1);
        }
        touch
    });
    all
}

/// Whether the bit of an ordinal is set; past the last bit, the answer is `beyond`.
#[inline(always)]
pub(crate) fn has(bits: &[u64], beyond: bool, ord: u32) -> bool {
    bits.get(ord as usize / 64).map_or(beyond, |word| word >> (ord % 64) & 1 == 1)
}
