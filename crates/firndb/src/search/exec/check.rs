//! Checks documents one by one: what is done with a clause while another one leads.

use crate::Result;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::column::Column;
use crate::search::codec::points::Window;
use crate::search::exec::clause::{Clause, Form, materialise};
use crate::search::exec::scratch::{FEW, Scratch};
use crate::search::partition::Partition;
use crate::search::simd::kernels;

/// A way to check single documents.
pub(crate) struct Check<'p> {
    how: How<'p>,
    negate: bool,
}

enum How<'p> {
    /// The ordinal minus `low` is below `span`.
    Range(Column<'p>, u32, u32),
    /// The ordinal's bit is set in this bitset of the scratch.
    Set(Column<'p>, usize),
    /// Both ordinals are in the window.
    Window([Column<'p>; 2], Window),
    Mapped(Bitset<'p>),
    Bits(usize),
    Documents(u32, u32),
}

impl<'p> Check<'p> {
    /// The check of a clause for the documents in the window; it is turned into a bitset if there
    /// is no other way.
    pub(crate) fn new(
        clause: &Clause,
        part: &'p Partition,
        scratch: &mut Scratch,
        window: (u32, u32),
    ) -> Result<Check<'p>> {
        let negate = clause.negate;
        let how = match clause.form {
            Form::Bits(number) => How::Bits(number),
            Form::Documents(first, last) => How::Documents(first, last),
            Form::Window { pair: [a, b], window: of } => match (part.column(a)?, part.column(b)?) {
                (Some(a), Some(b)) => How::Window([a, b], of),
                _ => How::Bits(materialise(clause, part, scratch, window)?),
            },
            Form::Ordinals { field, first, last, multi } => {
                let column = part.meta(field).column_bits.is_some() && !multi;
                if let (true, Some(column)) = (column, part.column(field)?) {
                    if last == first + 1 {
                        let (start, end) = scratch.intervals[first];
                        How::Range(column, start, end - start)
                    } else {
                        let distinct = part.meta(field).distinct as usize;
                        let set = scratch.take_bits(distinct.div_ceil(64));
                        for i in first..last {
                            let (start, end) = scratch.intervals[i];
                            kernels::set_range(scratch.bits_mut(set), start, end);
                        }
                        How::Set(column, set)
                    }
                } else if let Some(mapped) = clause.mapped(part, scratch)? {
                    How::Mapped(mapped)
                } else {
                    How::Bits(materialise(clause, part, scratch, window)?)
                }
            }
        };
        Ok(Check { how, negate })
    }

    /// Whether a document passes.
    #[inline(always)]
    pub(crate) fn holds(&self, scratch: &Scratch, doc: u32) -> bool {
        let holds = match &self.how {
            How::Range(column, low, span) => column.get(doc).wrapping_sub(*low) < *span,
            How::Set(column, set) => is_set(scratch.bits(*set), column.get(doc)),
            How::Window(columns, window) => columns
                .iter()
                .zip(window)
                .all(|(column, (start, end))| (*start..*end).contains(&column.get(doc))),
            How::Mapped(bitset) => bitset.has(doc),
            How::Bits(number) => is_set(scratch.bits(*number), doc),
            How::Documents(first, last) => doc.wrapping_sub(*first) < last - first,
        };
        holds != self.negate
    }

    /// Adds a check to others. Many bitsets become one: a query of thousands of conditions would
    /// hold one for each of them. Those below `own` belong to the clauses and stay as they are.
    pub(crate) fn push(self, checks: &mut Vec<Check<'p>>, scratch: &mut Scratch, own: usize) {
        if let How::Bits(number) = self.how
            && number >= own
            && scratch.is_last(number)
            && checks.len() >= FEW
        {
            for check in checks.iter_mut().rev() {
                if let How::Bits(into) = check.how
                    && into >= own
                {
                    check.negate = scratch.fold((into, check.negate), (number, self.negate));
                    return;
                }
            }
        }
        checks.push(self);
    }

    /// Keeps the documents that pass.
    pub(crate) fn retain(&self, scratch: &Scratch, docs: &mut Vec<u32>) {
        // One loop for each way, so that the way is chosen once and not for each document.
        match &self.how {
            How::Range(Column::Single(ords), low, span) => {
                let (low, span, negate) = (*low, *span, self.negate);
                compact(docs, |doc| (ords.get(doc as usize).wrapping_sub(low) < span) != negate);
            }
            How::Mapped(bitset) => {
                let negate = self.negate;
                compact(docs, |doc| bitset.has(doc) != negate);
            }
            How::Set(Column::Single(ords), set) => {
                let (set, negate) = (scratch.bits(*set), self.negate);
                compact(docs, |doc| is_set(set, ords.get(doc as usize)) != negate);
            }
            How::Bits(number) => {
                let (bits, negate) = (scratch.bits(*number), self.negate);
                compact(docs, |doc| is_set(bits, doc) != negate);
            }
            How::Documents(first, last) => {
                let (first, span, negate) = (*first, last - first, self.negate);
                compact(docs, |doc| (doc.wrapping_sub(first) < span) != negate);
            }
            _ => compact(docs, |doc| self.holds(scratch, doc)),
        }
    }
}

/// Whether a bit is set in a bitset, which may be too short for it.
#[inline(always)]
fn is_set(bits: &[u64], i: u32) -> bool {
    bits.get(i as usize / 64).copied().unwrap_or(0) >> (i % 64) & 1 == 1
}

/// Keeps what passes, without a branch that depends on the data.
#[inline(always)]
fn compact(docs: &mut Vec<u32>, keep: impl Fn(u32) -> bool) {
    let mut kept = 0;
    for i in 0..docs.len() {
        let doc = docs[i];
        docs[kept] = doc;
        kept += usize::from(keep(doc));
    }
    docs.truncate(kept);
}
