//! A walk over documents, whatever form their postings have.

use super::{BLOCK, Kept, Pieces, Postings};
use crate::bytes::int::u32_at;
use crate::search::simd::scan::{self, Keys};

/// Walks over the documents of some pieces, block by block.
pub(crate) struct PostingsIter {
    pieces: Pieces,
    /// Place inside the first special form: run and document in it, or word of a bitset; the next
    /// group of points; or, behind all other special forms, the next word of the column.
    at: (usize, u32),
    /// Those whose documents are in the column, of the special forms that were looked at.
    keys: Keys,
}

impl PostingsIter {
    pub(crate) fn new(pieces: Pieces) -> PostingsIter {
        PostingsIter { pieces, at: (0, 0), keys: Keys::default() }
    }

    /// Replaces `out` by the next documents, about [`BLOCK`] of them, of points a group; false at
    /// the end.
    pub(crate) fn next(&mut self, postings: &Postings, out: &mut Vec<u32>) -> bool {
        self.next_block(postings, BLOCK, out)
    }

    /// The same with about `size` documents, at most [`BLOCK`], where they are cheap to divide.
    pub(crate) fn next_block(
        &mut self,
        postings: &Postings,
        size: usize,
        out: &mut Vec<u32>,
    ) -> bool {
        out.clear();
        let (first, last) = self.pieces.documents;
        if first < last.min(postings.documents) {
            let end = last.min(postings.documents).min(first + BLOCK as u32);
            out.extend(first..end);
            self.pieces.documents.0 = end;
            return true;
        }
        if let (Some(window), Some((points, _))) = (self.pieces.window, postings.points) {
            return points.next(window, &mut self.at.0, out);
        }
        if postings.slices.next(&mut self.pieces.slice, size, out) {
            return true;
        }
        while self.pieces.special_forms.0 < self.pieces.special_forms.1 {
            let x = self.pieces.special_forms.0;
            let more = match postings.kept(x) {
                Kept::Bitset(bitset) => bitset.next(&mut self.at.0, BLOCK - 64, out),
                Kept::Runs(runs) => self.next_runs(runs, postings.documents, out),
                Kept::Column => {
                    // All of them at once, when there are no others.
                    self.keys.join(&postings.keys_in_column((x, x + 1)));
                    false
                }
            };
            if !more {
                self.pieces.special_forms.0 += 1;
                self.at = (0, 0);
            }
            if !out.is_empty() {
                return true;
            }
        }
        let wanted = postings.wanted(self.pieces.column, self.keys);
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
