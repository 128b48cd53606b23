//! Iterates over the documents of the leading clause, which are then checked against the others.

use crate::Result;
use crate::bytes::packed::Packed;
use crate::search::codec::postings::{BLOCK, PostingsIter};
use crate::search::exec::clause::{Clause, Form};
use crate::search::exec::scratch::Scratch;
use crate::search::partition::Partition;
use crate::search::simd::scan::{self, OrdinalSet};

/// An iterator over the documents of a leading clause, in blocks.
pub(crate) struct LeadIter<'p> {
    /// The column and the ordinals to look for, if the clause is evaluated by a scan.
    scan: Option<(Packed<'p>, OrdinalSet)>,
    /// The next word of the scan.
    word: usize,
    /// The interval of `postings`.
    interval: usize,
    postings: Option<PostingsIter>,
    /// The window; of a clause over a range of documents those that are left.
    documents: (u32, u32),
    /// Documents in the next block: few at first, since a page may need no more.
    size: u32,
}

impl<'p> LeadIter<'p> {
    /// An iterator over the documents of a clause. It may omit those outside of `window`.
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
        Ok(LeadIter { scan, word, interval: 0, postings: None, documents, size: 64 })
    }

    /// Replaces `out` by the next block of documents; false at the end.
    pub(crate) fn next(
        &mut self,
        clause: &Clause,
        part: &Partition,
        scratch: &Scratch,
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        out.clear();
        if let Some((column, wanted)) = &self.scan {
            let position = (&mut self.word, self.documents.1);
            scan::push(*column, wanted, position, self.size as usize, out);
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
        let source = match clause.form {
            Form::Window { .. } => part.postings_of_point(field)?,
            _ => part.postings(field)?,
        };
        loop {
            if let Some(postings) = &mut self.postings {
                if postings.next_block(&source, self.size as usize, out) {
                    self.size = (self.size * 2).min(BLOCK as u32);
                    return Ok(true);
                }
                self.interval += 1;
            }
            match clause.range(part, scratch, self.interval)? {
                Some(range) => {
                    self.postings = Some(PostingsIter::new(source.within(range, self.documents)));
                }
                None => {
                    out.clear();
                    return Ok(false);
                }
            }
        }
    }
}
