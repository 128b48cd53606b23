//! Verifies one field: its keys, offsets, postings and column, and that they are consistent.

use super::lists::{ColumnCheck, Lists, check_starts};
use super::{ensure, within};
use crate::bytes::increasing::Increasing;
use crate::search::codec::column::Column;
use crate::search::codec::points::Points;
use crate::search::format::PointValues;
use crate::search::format::{FieldMeta, Ordered, part};
use crate::search::model::schema::Field;
use crate::search::model::types::Type;
use crate::search::model::value::{f64_to_key, key_to_f64};
use crate::search::partition::Partition;
use crate::{Error, Result};

/// The checks of one field.
pub(crate) struct FieldCheck<'p> {
    pub(crate) part: &'p Partition,
    pub(crate) i: usize,
    pub(crate) field: &'p Field,
    pub(crate) meta: &'p FieldMeta,
}

impl FieldCheck<'_> {
    pub(crate) fn all(&self) -> Result<()> {
        let (meta, documents) = (self.meta, self.part.documents);
        let lacking = documents - meta.present;
        ensure(self.field.nullable || lacking == 0, || {
            format!("{lacking} documents have no value, but it is not declared nullable")
        })?;
        self.keys()?;
        let roles = self.field.roles;
        if (roles.sortable || roles.stored) && meta.ordered == Ordered::No {
            let readable = meta.column_bits.is_some();
            ensure(readable, || "its values cannot be read back without a column".into())?;
        }
        if !roles.filterable && !roles.sortable && meta.ordered == Ordered::No {
            return self.column_alone();
        }
        let (single, listed) = (!self.field.multi, meta.special_forms > 0);
        if !meta.has_lists() || meta.is_scanned() {
            let present = u64::from(meta.present) == meta.postings;
            let alone = single && present && !listed;
            ensure(alone, || {
                "what is in document order, in points or scanned has no lists beside".into()
            })?;
            ensure(!meta.is_scanned() || self.field.scanned, || {
                "it is scanned, but not declared so".into()
            })?;
        }
        let offsets = self.part.offsets(self.i)?;
        offsets.verify().map_err(|e| within("offsets", e))?;
        let (first, last) = (offsets.get(0), offsets.get(meta.distinct as usize));
        ensure((first, last) == (0, meta.postings), || {
            format!("its offsets go from {first} to {last}, not from 0 to {}", meta.postings)
        })?;
        match self.part.points(self.i)? {
            Some((points, which)) => self.points(&points, which),
            None => self.postings(),
        }
    }

    /// A part of the field, from the file or derived; empty if the field lacks it.
    pub(crate) fn bytes(&self, part: u32) -> Result<&[u8]> {
        self.part.part_of(self.i, part)
    }

    /// Keys ascend, and each is valid for the type.
    fn keys(&self) -> Result<()> {
        let (ty, distinct) = (self.field.ty, self.meta.distinct);
        let dictionary = self.part.dictionary(self.i)?;
        let entries = distinct as usize + usize::from(!ty.is_fixed());
        let sequence = Increasing::new(self.bytes(part::KEYS)?, entries)?;
        sequence.verify().map_err(|e| within("keys", e))?;
        if ty.is_fixed() {
            for ord in 0..distinct {
                let key = dictionary.fixed_key(ord);
                let possible = match ty {
                    Type::Bool => key <= 1,
                    // NaN and negative zero have no key.
                    Type::F64 => f64_to_key(key_to_f64(key)) == Some(key),
                    _ => true,
                };
                ensure(possible, || format!("key {ord} is no value of type {}", ty.name()))?;
            }
            return Ok(());
        }
        ensure(sequence.get(0) == 0, || "its first key does not begin its section".into())?;
        let mut last: Option<&[u8]> = None;
        for ord in 0..distinct {
            let key = dictionary.bytes_key(ord);
            ensure(last.is_none_or(|last| last < key), || format!("key {ord} is not ascending"))?;
            let text = ty != Type::String || std::str::from_utf8(key).is_ok();
            ensure(text, || format!("key {ord} is not valid UTF-8"))?;
            last = Some(key);
        }
        Ok(())
    }

    /// Calls `visit(ordinal, document)` for all postings, by key. Checks that the documents of each
    /// key ascend, and that their number matches the offsets.
    fn walk(&self, mut visit: impl FnMut(u32, u32) -> Result<()>) -> Result<()> {
        let (documents, meta) = (self.part.documents, self.meta);
        self.part.postings(self.i)?; // checks sizes
        let offsets = self.part.offsets(self.i)?;
        let mut lists = Lists::new(self)?;
        for ord in 0..meta.distinct {
            let (low, high) = (offsets.get(ord as usize), offsets.get(ord as usize + 1));
            let (mut next, mut found) = (0, 0);
            lists.each(ord, (low, high), |doc| {
                ensure(doc >= next && doc < documents, || {
                    let bounds = format!("at least {next}, below {documents}");
                    format!("document {doc} of key {ord} is out of place: {bounds}")
                })?;
                (next, found) = (doc + 1, found + 1);
                visit(ord, doc)
            })?;
            let count = high - low;
            ensure(found == count, || {
                format!("key {ord} has {found} documents, its offsets say {count}")
            })?;
        }
        lists.finish()
    }

    /// Postings, column and counts are consistent.
    fn postings(&self) -> Result<()> {
        let mut seen = vec![0u64; self.part.words()];
        let mut check = ColumnCheck::new(self)?;
        let multi = self.field.multi;
        self.walk(|ord, doc| {
            let (word, bit) = (doc as usize / 64, 1 << (doc % 64));
            let again = seen[word] & bit != 0;
            ensure(multi || !again, || format!("document {doc} has two values"))?;
            seen[word] |= bit;
            check.posting(ord, doc)
        })?;
        let present: u32 = seen.iter().map(|word| word.count_ones()).sum();
        ensure(present == self.meta.present, || {
            format!("{present} documents have a value, its meta data say {}", self.meta.present)
        })?;
        let missing = |doc: &u32| seen[*doc as usize / 64] >> (doc % 64) & 1 == 0;
        (0..self.part.documents).filter(missing).try_for_each(|doc| check.no_posting(doc))
    }

    /// Points, column and counts are consistent.
    fn points(&self, points: &Points, which: usize) -> Result<()> {
        let (part, distinct) = (self.part, self.meta.distinct);
        if let Some(pair) = part.schema.points.iter().find(|pair| pair[0] == self.i) {
            let missing = |meta: &FieldMeta| meta.values().map_or(meta.distinct, |of| of.span);
            let checked = points.verify(part.documents, pair.map(|i| missing(part.meta(i))));
            checked.map_err(|e| within("points", e))?;
        }
        if let Some(of) = self.meta.values() {
            return self.values(of);
        }
        let mut ords = vec![distinct; part.documents as usize];
        let mut counts = vec![0u32; distinct as usize];
        points.each_entry(|doc, at| {
            if let (Some(slot), ord) = (ords.get_mut(doc as usize), at[which]) {
                *slot = ord;
                counts.get_mut(ord as usize).into_iter().for_each(|count| *count += 1);
            }
        });
        let offsets = part.offsets(self.i)?;
        for (ord, found) in counts.into_iter().enumerate() {
            let count = offsets.get(ord + 1) - offsets.get(ord);
            ensure(u64::from(found) == count, || {
                format!("key {ord} has {found} documents, its offsets say {count}")
            })?;
        }
        let present = ords.iter().filter(|&&ord| ord != distinct).count();
        ensure(present == self.meta.present as usize, || {
            format!("{present} documents have a value, its meta data say {}", self.meta.present)
        })?;
        let mut check = ColumnCheck::new(self)?;
        (0..part.documents).zip(ords).try_for_each(|(doc, ord)| match ord == distinct {
            true => check.no_posting(doc),
            false => check.posting(ord, doc),
        })
    }

    /// The smallest and the largest value occur. Deriving keys and offsets has already checked the
    /// numbers of keys and documents.
    fn values(&self, of: PointValues) -> Result<()> {
        let (dictionary, distinct) = (self.part.dictionary(self.i)?, self.meta.distinct);
        let found = [0, distinct - 1].map(|ord| dictionary.fixed_key(ord));
        let said = [of.least, of.least + u64::from(of.span - 1)];
        ensure(found == said, || {
            let ([a, b], [c, d]) = (found, said);
            format!("its values go from {a} to {b}, its meta data say {c} to {d}")
        })
    }

    /// The column of a field without postings is consistent with keys and counts.
    fn column_alone(&self) -> Result<()> {
        let meta = self.meta;
        let column = self.part.column(self.i)?.ok_or_else(|| Error::corrupt("it has no column"))?;
        if let Column::Multi { starts, .. } = &column {
            check_starts(starts, meta.postings)?;
        }
        let (mut used, mut postings, mut present) = (vec![false; meta.distinct as usize], 0, 0u32);
        for doc in 0..self.part.documents {
            let (mut next, mut ascending) = (0, true);
            let mut add = |ord: u32| {
                ascending &= ord >= next && ord < meta.distinct;
                next = ord.saturating_add(1);
                postings += 1;
                if let Some(used) = used.get_mut(ord as usize) {
                    *used = true;
                }
            };
            match &column {
                Column::Single(ords) if ords.get(doc as usize) == meta.distinct => {}
                Column::Single(ords) => add(ords.get(doc as usize)),
                column => column.each(doc, meta.distinct, &mut add),
            }
            ensure(ascending, || {
                format!("document {doc} has values that cannot be in its column")
            })?;
            present += u32::from(next > 0);
        }
        let unused = used.iter().filter(|used| !**used).count();
        ensure(unused == 0, || format!("{unused} of its keys have no document"))?;
        ensure((postings, present) == (meta.postings, meta.present), || {
            format!(
                "its column has {present} documents with {postings} values, not {} and {}",
                meta.present, meta.postings
            )
        })
    }
}
