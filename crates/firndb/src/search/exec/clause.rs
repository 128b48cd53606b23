//! A condition bound to one partition: bounds on the number of its documents, and their source.

use crate::Result;
use crate::search::exec::scratch::Scratch;
use crate::search::exec::source::{Form, GATHER, Source, WalkOrder};
use crate::search::partition::Partition;
use std::cell::OnceCell;

/// A condition on the documents of one partition.
pub(crate) struct Clause<'p> {
    pub(crate) form: Form,
    pub(crate) negate: bool,
    /// Upper and lower bound on the documents that satisfy `form`, before negation. They differ for
    /// multi-valued fields, whose lists have more entries than documents.
    pub(crate) count: u64,
    pub(crate) least: u64,
    /// Chosen when it is first needed: many counts need none.
    source: OnceCell<Source<'p>>,
}

impl<'p> Clause<'p> {
    /// A clause whose `form` exactly `count` documents satisfy.
    pub(crate) fn new(form: Form, negate: bool, count: u64) -> Clause<'p> {
        Clause { form, negate, count, least: count, source: OnceCell::new() }
    }

    /// Upper bound on the documents that satisfy the clause, negation included.
    pub(crate) fn at_most(&self, documents: u32) -> u64 {
        let n = u64::from(documents);
        if self.negate { n.saturating_sub(self.least) } else { self.count.min(n) }
    }

    /// Intersects the range `docs` with the clause; `None` if the clause is no range of documents.
    pub(crate) fn narrowed(&self, docs: (u32, u32), documents: u32) -> Option<(u32, u32)> {
        match (self.form, self.negate) {
            (Form::Documents(a, b), false) => Some((docs.0.max(a), docs.1.min(b))),
            (Form::Documents(0, b), true) => Some((docs.0.max(b), docs.1)),
            (Form::Documents(a, b), true) if b >= documents => Some((docs.0, docs.1.min(a))),
            _ => None,
        }
    }

    /// Where the documents come from, before negation.
    pub(crate) fn source(&self, part: &'p Partition, scratch: &Scratch) -> Result<&Source<'p>> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let source = Source::new(self.form, self.count, part, scratch)?;
        Ok(self.source.get_or_init(|| source))
    }

    /// In which order iteration over the clause yields documents.
    pub(crate) fn walk_order(&self, part: &'p Partition, scratch: &Scratch) -> Result<WalkOrder> {
        self.source(part, scratch)?.order(scratch, self.negate)
    }

    /// Cost of testing one document; `None` if that needs a bitset made of the clause. Columns are
    /// read where there are any.
    pub(crate) fn check_cost(&self, part: &'p Partition, scratch: &Scratch) -> Result<Option<u64>> {
        let has_column = |field: &usize| part.meta(*field).column_bits.is_some();
        match self.form {
            Form::Ordinals { field, multi: false, .. } if has_column(&field) => Ok(Some(GATHER)),
            Form::Window { pair, .. } if pair.iter().all(has_column) => Ok(Some(2 * GATHER)),
            _ => Ok(self.source(part, scratch)?.check_cost()),
        }
    }
}

/// Makes a bitset of a clause, before negation, in the scratch and returns its number. Bits outside
/// the window may be missing.
pub(crate) fn materialise<'p>(
    clause: &Clause<'p>,
    part: &'p Partition,
    scratch: &mut Scratch,
    window: (u32, u32),
) -> Result<usize> {
    if let Form::Bits(number) = clause.form {
        return Ok(number);
    }
    let number = scratch.take_any_bits(part.words());
    let mut bits = std::mem::take(scratch.bits_mut(number));
    let source = clause.source(part, scratch);
    let filled = source.and_then(|source| source.fill(scratch, window, &mut bits));
    *scratch.bits_mut(number) = bits;
    filled.map(|()| number)
}
