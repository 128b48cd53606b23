//! Iterates over the documents of the leading clause, which are then checked against the others.

use crate::Result;
use crate::bytes::packed::Packed;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::points::{Points, Window};
use crate::search::codec::postings::{BLOCK, Postings, PostingsIter};
use crate::search::exec::clause::Clause;
use crate::search::exec::scratch::Scratch;
use crate::search::exec::source::{self, Access};
use crate::search::partition::Partition;
use crate::search::simd::kernels;
use crate::search::simd::scan::{self, OrdinalSet};
use std::ops::Range;

/// An iterator over the documents of a leading clause, in blocks.
pub(crate) struct LeadIter<'p> {
    rest: Rest<'p>,
    /// Documents outside may be omitted.
    window: (u32, u32),
    /// Documents in the next block: few at first, since a page may need no more.
    size: u32,
}

/// What is left to iterate over.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
enum Rest<'p> {
    Documents(u32, u32),
    /// A bitset of the scratch from a word on.
    Bits(usize, usize),
    /// A bitset of the file from a word on.
    Bitset(Bitset<'p>, usize),
    /// A column from the documents of a word on.
    Scan(Packed<'p>, OrdinalSet, usize),
    /// Points from a group on.
    Points(Points<'p>, Window, usize),
    /// The current list, and the intervals after it.
    Lists(Postings<'p>, Option<PostingsIter>, Range<usize>),
}

impl<'p> LeadIter<'p> {
    /// An iterator over the documents of a clause. It may omit those outside of `window`.
    pub(crate) fn new(
        clause: &Clause<'p>,
        part: &'p Partition,
        scratch: &Scratch,
        window: (u32, u32),
    ) -> Result<LeadIter<'p>> {
        let word = window.0 as usize / 64;
        let rest = match &clause.source(part, scratch)?.access {
            Access::Documents(a, b) => Rest::Documents(window.0.max(*a), window.1.min(*b)),
            Access::Bits(number) => Rest::Bits(*number, word),
            Access::Bitset(bitset) => Rest::Bitset(*bitset, word),
            Access::Scan(column, ordinals) => {
                Rest::Scan(*column, source::signed(ordinals, clause.negate), word)
            }
            Access::Points(points, window) => Rest::Points(*points, *window, 0),
            Access::Lists { field, first, last, .. } => {
                Rest::Lists(part.postings(*field)?, None, *first..*last)
            }
        };
        Ok(LeadIter { rest, window, size: 64 })
    }

    /// Replaces `out` by the next block of documents; false at the end.
    pub(crate) fn next(&mut self, scratch: &Scratch, out: &mut Vec<u32>) -> bool {
        out.clear();
        match &mut self.rest {
            Rest::Documents(first, last) => {
                let end = (*last).min(first.saturating_add(self.size));
                out.extend(*first..end);
                *first = end.max(*first);
            }
            Rest::Bits(number, word) => {
                let bits = scratch.bits(*number);
                while *word < bits.len() && out.len() < BLOCK - 64 {
                    kernels::push_word(bits[*word], *word as u32 * 64, out);
                    *word += 1;
                }
            }
            Rest::Bitset(bitset, word) => {
                bitset.next(word, BLOCK - 64, out);
            }
            Rest::Scan(column, ordinals, word) => {
                scan::push(*column, ordinals, (word, self.window.1), self.size as usize, out);
            }
            Rest::Points(points, window, group) => {
                points.next(*window, group, out);
            }
            Rest::Lists(postings, list, intervals) => loop {
                if let Some(list) = list
                    && list.next_block(postings, self.size as usize, out)
                {
                    break;
                }
                let Some(next) = intervals.next() else {
                    out.clear();
                    break;
                };
                let (start, end) = scratch.intervals[next];
                let range = postings.within(postings.range(start, end), self.window);
                *list = Some(PostingsIter::new(range));
            },
        }
        self.size = (self.size * 2).min(BLOCK as u32);
        !out.is_empty()
    }
}
