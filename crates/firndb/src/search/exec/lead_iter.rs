//! Walks over the documents of the clause that leads, for which the others are checked one by one.

use crate::Result;
use crate::bytes::packed::Packed;
use crate::search::codec::postings::{BLOCK, PostingsIter};
use crate::search::exec::clause::{Clause, Form};
use crate::search::exec::scratch::Scratch;
use crate::search::partition::Partition;
use crate::search::simd::scan::{self, OrdinalSet};

/// A walk over the documents of a leading clause, in blocks.
pub(crate) struct LeadIter<'p> {
    /// The column and what is wanted of it, if the clause is walked by a scan; and the next word.
    scan: Option<(Packed<'p>, OrdinalSet)>,
    word: usize,
    interval: usize,
    cursor: Option<PostingsIter>,
    /// All that are wanted; of a range those that are left.
    documents: (u32, u32),
    /// Documents to take next: few at first, since a page may need no more.
    size: u32,
}

impl<'p> LeadIter<'p> {
    /// Over the documents of a clause; those outside of `window` may be left out.
    pub(crate) fn new(
        clause: &Clause,
        part: &'p Partition,
        scratch: &Scratch,
        window: (u32, u32),
    ) -> Result<LeadIter<'p>> {
        let documents = match clause.form {
            Form::Documents(a, b) => (a.max(window.0), b.min(window.1)),
            _ => window,
        };
        let (scan, word) = (clause.scan_negated(part, scratch)?, window.0 as usize / 64);
        Ok(LeadIter { scan, word, interval: 0, cursor: None, documents, size: 64 })
    }

    /// The next documents; false at the end.
    pub(crate) fn next(
        &mut self,
        clause: &Clause,
        part: &Partition,
        scratch: &Scratch,
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        out.clear();
        if let Some((column, wanted)) = &self.scan {
            let place = (&mut self.word, self.documents.1);
            scan::push(*column, wanted, place, self.size as usize, out);
            self.size = (self.size * 2).min(BLOCK as u32);
            return Ok(!out.is_empty());
        }
        let (Form::Ordinals { field, .. } | Form::Window { pair: [field, _], .. }) = clause.form
        else {
            let (first, last) = self.documents;
            let end = last.min(first.saturating_add(self.size));
            out.extend(first..end);
            self.documents.0 = end.max(first);
            self.size = (self.size * 2).min(BLOCK as u32);
            return Ok(!out.is_empty());
        };
        let postings = match clause.form {
            Form::Window { .. } => part.postings_of_point(field)?,
            _ => part.postings(field)?,
        };
        loop {
            if let Some(cursor) = &mut self.cursor {
                if cursor.next_block(&postings, self.size as usize, out) {
                    self.size = (self.size * 2).min(BLOCK as u32);
                    return Ok(true);
                }
                self.interval += 1;
            }
            match clause.pieces(part, scratch, self.interval)? {
                Some(pieces) => {
                    self.cursor = Some(PostingsIter::new(postings.within(pieces, self.documents)));
                }
                None => {
                    out.clear();
                    return Ok(false);
                }
            }
        }
    }
}
