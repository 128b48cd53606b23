//! Columns (doc values): document -> ordinals of its keys.
//!
//! A field has a column if it is sortable, stored or scanned, or if its ordinals have at most 8
//! bits. Such a narrow column is small, and lets queries verify a condition document by document or
//! scan for matches. An ordered field needs no column: the offsets of its postings determine the
//! ordinal of each document.

use crate::bytes::increasing::{self, Increasing};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::search::format::Ordered;

/// The ordinal of a document without a value while a partition is built.
pub(crate) const MISSING: u32 = u32::MAX;

/// The ordinals of a field's documents while a partition is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ordinals {
    /// One ordinal per document, or [`MISSING`].
    Single(Vec<u32>),
    /// The ordinals of document d are `ords[starts[d]..starts[d + 1]]`, strictly ascending.
    Multi { starts: Vec<u32>, ords: Vec<u32> },
}

impl Ordinals {
    /// The ordinals of document `doc`.
    pub(crate) fn of(&self, doc: usize) -> &[u32] {
        match self {
            Ordinals::Single(ords) if ords[doc] == MISSING => &[],
            Ordinals::Single(ords) => &ords[doc..=doc],
            Ordinals::Multi { starts, ords } => {
                &ords[starts[doc] as usize..starts[doc + 1] as usize]
            }
        }
    }

    /// How many documents have an ordinal.
    pub(crate) fn present(&self) -> u32 {
        let count = match self {
            Ordinals::Single(ords) => ords.iter().filter(|&&ord| ord != MISSING).count(),
            Ordinals::Multi { starts, .. } => starts.windows(2).filter(|w| w[0] != w[1]).count(),
        };
        count as u32
    }

    /// Whether the documents are sorted by key, those without a value last.
    pub(crate) fn ordered(&self) -> Ordered {
        let Ordinals::Single(ords) = self else { return Ordered::No };
        if ords.is_sorted() {
            return Ordered::Ascending;
        }
        let rank = |&ord: &u32| if ord == MISSING { MISSING } else { MISSING - 1 - ord };
        if ords.is_sorted_by_key(rank) { Ordered::Descending } else { Ordered::No }
    }

    /// Encodes the parts COLUMN, with `bits` bits per ordinal, and STARTS.
    pub(crate) fn encode(&self, distinct: usize, bits: u8) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut w = PackedWriter::new(bits);
        match self {
            Ordinals::Single(ords) => {
                let none = distinct as u32;
                ords.iter().for_each(|&ord| w.push(if ord == MISSING { none } else { ord }));
                (w.finish(), None)
            }
            Ordinals::Multi { starts, ords } => {
                ords.iter().for_each(|&ord| w.push(ord));
                let starts = starts.iter().enumerate().map(|(d, &s)| u64::from(s) + d as u64);
                (w.finish(), Some(increasing::encode(starts)))
            }
        }
    }
}

/// The width of a column with `distinct` keys. If `missing`, the number `distinct` must fit, too:
/// it stands for a missing value.
pub(crate) fn column_bits(distinct: usize, missing: bool) -> u8 {
    width((distinct as u64 + u64::from(missing)).saturating_sub(1))
}

/// Reads the ordinals of a field's documents. A document without a value has the ordinal
/// `distinct`.
#[derive(Clone)]
pub(crate) enum Column<'a> {
    Single(Packed<'a>),
    Multi {
        starts: Increasing<'a>,
        ords: Packed<'a>,
    },
    /// Documents `offsets[o]..offsets[o + 1]` have ordinal o.
    Ascending {
        offsets: Increasing<'a>,
        present: u32,
    },
    /// Documents `present - offsets[o + 1]..present - offsets[o]` have ordinal o.
    Descending {
        offsets: Increasing<'a>,
        present: u32,
    },
    /// Derived from the postings of a field without a column, for one query.
    Derived(Vec<u32>),
    /// The same for a multi-valued field.
    DerivedMulti {
        starts: Vec<u32>,
        ords: Vec<u32>,
    },
}

impl Column<'_> {
    /// The ordinal of a document in a single-valued field; an arbitrary number if `doc` is out of
    /// bounds.
    #[inline(always)]
    pub(crate) fn get(&self, doc: u32) -> u32 {
        match self {
            Column::Single(ords) => ords.get(doc as usize),
            Column::Derived(ords) => ords.get(doc as usize).copied().unwrap_or(0),
            Column::Ascending { offsets, present } if doc < *present => {
                offsets.lower_bound(u64::from(doc) + 1).max(1) as u32 - 1
            }
            Column::Descending { offsets, present } if doc < *present => {
                offsets.lower_bound(u64::from(present - doc)).max(1) as u32 - 1
            }
            Column::Ascending { offsets, .. } | Column::Descending { offsets, .. } => {
                (offsets.len() - 1) as u32
            }
            Column::Multi { .. } | Column::DerivedMulti { .. } => 0,
        }
    }

    /// Calls `each` with every ordinal of a document.
    #[inline]
    pub(crate) fn each(&self, doc: u32, distinct: u32, mut each: impl FnMut(u32)) {
        match self {
            Column::Multi { starts, ords } => {
                let (d, o) = (doc as usize, u64::from(doc));
                let start = starts.get(d).wrapping_sub(o) as usize;
                let end = (starts.get(d + 1).wrapping_sub(o + 1) as usize).min(ords.len());
                (start..end).for_each(|i| each(ords.get(i)));
            }
            Column::DerivedMulti { starts, ords } => {
                let d = doc as usize;
                let range = starts.get(d).zip(starts.get(d + 1));
                let slice = range.and_then(|(&s, &e)| ords.get(s as usize..e as usize));
                slice.unwrap_or(&[]).iter().for_each(|&ord| each(ord));
            }
            _ => {
                let ord = self.get(doc);
                if ord < distinct {
                    each(ord);
                }
            }
        }
    }
}
