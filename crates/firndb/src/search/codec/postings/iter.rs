//! Iterates over the documents of postings in any form.

use crate::bytes::int::u32_at;
use crate::search::codec::postings::{BLOCK, Postings, PostingsRange, SpecialForm};
use crate::search::simd::scan::{self, Keys};

/// An iterator over the documents of a range, in blocks.
pub(crate) struct PostingsIter {
    range: PostingsRange,
    /// The position in the current form: the run and the document in it, the word of a bitset, the
    /// group of points, or the word of the column, which comes last.
    at: (usize, u32),
    /// The ordinals to find in the column, of the special forms visited so far.
    keys: Keys,
}

impl PostingsIter {
    pub(crate) fn new(range: PostingsRange) -> PostingsIter {
        PostingsIter { range, at: (0, 0), keys: Keys::default() }
    }

    /// Replaces `out` by the next block of about [`BLOCK`] documents, or by a group of points;
    /// false at the end.
    pub(crate) fn next(&mut self, postings: &Postings, out: &mut Vec<u32>) -> bool {
        self.next_block(postings, BLOCK, out)
    }

    /// The same with about `size` documents, at most [`BLOCK`], where smaller blocks are cheap.
    pub(crate) fn next_block(
        &mut self,
        postings: &Postings,
        size: usize,
        out: &mut Vec<u32>,
    ) -> bool {
        out.clear();
        let (first, last) = self.range.documents;
        if first < last.min(postings.documents) {
            let end = last.min(postings.documents).min(first + BLOCK as u32);
            out.extend(first..end);
            self.range.documents.0 = end;
            return true;
        }
        if let (Some(window), Some((points, _))) = (self.range.window, postings.points) {
            return points.next(window, &mut self.at.0, out);
        }
        if postings.slices.next(&mut self.range.slice, size, out) {
            return true;
        }
        while self.range.special_forms.0 < self.range.special_forms.1 {
            let x = self.range.special_forms.0;
            let more = match postings.special_form(x) {
                SpecialForm::Bitset(bitset) => bitset.next(&mut self.at.0, BLOCK - 64, out),
                SpecialForm::Runs(runs) => self.next_runs(runs, postings.documents, out),
                SpecialForm::Column => {
                    // One scan for all of them, after the other forms.
                    self.keys.join(&postings.keys_in_column((x, x + 1)));
                    false
                }
            };
            if !more {
                self.range.special_forms.0 += 1;
                self.at = (0, 0);
            }
            if !out.is_empty() {
                return true;
            }
        }
        let wanted = postings.scanned_ordinals(self.range.column, self.keys);
        let (Some(column), Some(wanted)) = (postings.column, wanted) else { return false };
        scan::push(column, &wanted, (&mut self.at.0, postings.documents), size, out);
        !out.is_empty()
    }

    fn next_runs(&mut self, runs: &[u8], documents: u32, out: &mut Vec<u32>) -> bool {
        while self.at.0 * 8 < runs.len() && out.len() < BLOCK {
            let (first, len) = (u32_at(runs, self.at.0 * 8), u32_at(runs, self.at.0 * 8 + 4));
            let start = first.saturating_add(self.at.1);
            let end = first.saturating_add(len).min(documents);
            let stop = end.min(start.saturating_add((BLOCK - out.len()) as u32));
            out.extend(start..stop);
            self.at = if stop >= end { (self.at.0 + 1, 0) } else { (self.at.0, stop - first) };
        }
        self.at.0 * 8 < runs.len()
    }
}
