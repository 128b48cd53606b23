//! Tests single documents against a clause while another clause leads.

use crate::Result;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::column::Column;
use crate::search::codec::points::Window;
use crate::search::exec::clause::{Clause, materialise};
use crate::search::exec::scratch::{FEW, Scratch};
use crate::search::exec::source::{Access, Form};
use crate::search::partition::Partition;
use crate::search::simd::kernels;

/// A test of single documents.
pub(crate) struct Check<'p> {
    test: Test<'p>,
    negate: bool,
}

enum Test<'p> {
    /// The ordinal minus the first number is below the second.
    Range(Column<'p>, u32, u32),
    /// The bit of the ordinal is set in this bitset of the scratch.
    Set(Column<'p>, usize),
    /// Both ordinals are in the window.
    Window([Column<'p>; 2], Window),
    /// The document is in a bitset of the file.
    Mapped(Bitset<'p>),
    /// The document is in a bitset of the scratch.
    Bits(usize),
    /// The document is in the range.
    Documents(u32, u32),
}

impl<'p> Test<'p> {
    /// The test of a document by the columns of its fields, if there are any.
    fn by_column(
        form: Form,
        part: &'p Partition,
        scratch: &mut Scratch,
    ) -> Result<Option<Test<'p>>> {
        match form {
            Form::Window { pair: [a, b], window } => Ok(match (part.column(a)?, part.column(b)?) {
                (Some(a), Some(b)) => Some(Test::Window([a, b], window)),
                _ => None,
            }),
            Form::Ordinals { field, first, last, multi: false } => {
                if part.meta(field).column_bits.is_none() {
                    return Ok(None);
                }
                let Some(column) = part.column(field)? else { return Ok(None) };
                if last == first + 1 {
                    let (start, end) = scratch.intervals[first];
                    return Ok(Some(Test::Range(column, start, end - start)));
                }
                let distinct = part.meta(field).distinct as usize;
                let set = scratch.take_bits(distinct.div_ceil(64));
                for i in first..last {
                    let (start, end) = scratch.intervals[i];
                    kernels::set_range(scratch.bits_mut(set), start, end);
                }
                Ok(Some(Test::Set(column, set)))
            }
            _ => Ok(None),
        }
    }
}

impl<'p> Check<'p> {
    /// The test of a clause for documents in the window. Makes a bitset of the clause if there is
    /// no other way.
    pub(crate) fn new(
        clause: &Clause<'p>,
        part: &'p Partition,
        scratch: &mut Scratch,
        window: (u32, u32),
    ) -> Result<Check<'p>> {
        let negate = clause.negate;
        if let Some(test) = Test::by_column(clause.form, part, scratch)? {
            return Ok(Check { test, negate });
        }
        let test = match clause.source(part, scratch)?.access {
            Access::Bits(number) => Test::Bits(number),
            Access::Documents(first, last) => Test::Documents(first, last),
            Access::Bitset(bitset) => Test::Mapped(bitset),
            _ => Test::Bits(materialise(clause, part, scratch, window)?),
        };
        Ok(Check { test, negate })
    }

    /// Whether a document passes.
    #[inline(always)]
    pub(crate) fn holds(&self, scratch: &Scratch, doc: u32) -> bool {
        let holds = match &self.test {
            Test::Range(column, low, span) => column.get(doc).wrapping_sub(*low) < *span,
            Test::Set(column, set) => is_set(scratch.bits(*set), column.get(doc)),
            Test::Window(columns, window) => columns
                .iter()
                .zip(window)
                .all(|(column, (start, end))| (*start..*end).contains(&column.get(doc))),
            Test::Mapped(bitset) => bitset.has(doc),
            Test::Bits(number) => is_set(scratch.bits(*number), doc),
            Test::Documents(first, last) => doc.wrapping_sub(*first) < last - first,
        };
        holds != self.negate
    }

    /// Appends the check to `checks`. Beyond [`FEW`] checks, bitsets are combined: a query with
    /// thousands of conditions would hold one for each. Bitsets with numbers below `own` belong to
    /// the clauses and are not changed.
    pub(crate) fn push(self, checks: &mut Vec<Check<'p>>, scratch: &mut Scratch, own: usize) {
        if let Test::Bits(number) = self.test
            && number >= own
            && scratch.is_last(number)
            && checks.len() >= FEW
        {
            for check in checks.iter_mut().rev() {
                if let Test::Bits(into) = check.test
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
        // One loop for each kind of test, so that the match is outside of the loop.
        match &self.test {
            Test::Range(Column::Single(ords), low, span) => {
                let (low, span, negate) = (*low, *span, self.negate);
                compact(docs, |doc| (ords.get(doc as usize).wrapping_sub(low) < span) != negate);
            }
            Test::Mapped(bitset) => {
                let negate = self.negate;
                compact(docs, |doc| bitset.has(doc) != negate);
            }
            Test::Set(Column::Single(ords), set) => {
                let (set, negate) = (scratch.bits(*set), self.negate);
                compact(docs, |doc| is_set(set, ords.get(doc as usize)) != negate);
            }
            Test::Bits(number) => {
                let (bits, negate) = (scratch.bits(*number), self.negate);
                compact(docs, |doc| is_set(bits, doc) != negate);
            }
            Test::Documents(first, last) => {
                let (first, span, negate) = (*first, last - first, self.negate);
                compact(docs, |doc| (doc.wrapping_sub(first) < span) != negate);
            }
            _ => compact(docs, |doc| self.holds(scratch, doc)),
        }
    }
}

/// Whether bit `i` is set; bits beyond the end are not.
#[inline(always)]
fn is_set(bits: &[u64], i: u32) -> bool {
    bits.get(i as usize / 64).copied().unwrap_or(0) >> (i % 64) & 1 == 1
}

/// Keeps the documents that pass, without a branch that depends on the data.
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
