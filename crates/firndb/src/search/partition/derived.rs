//! Structures that are not in the file and are derived on demand: the column of a field without
//! one, and the keys and offsets of a field whose points hold values.
//!
//! A derived column lives as long as the query that needs it. Keys and offsets are kept, because
//! deriving them sorts the values of all documents. Most queries on points do not need them
//! (`exec/windows.rs`).

use super::{FieldPart, Partition};
use crate::bytes::monotonic;
use crate::search::codec::column::Column;
use crate::search::codec::points::Points;
use crate::search::codec::postings::PostingsIter;
use crate::search::format::{FieldMeta, part};
use crate::{Error, Result};

/// The parts KEYS and OFFSETS of a field that has neither in the file.
pub(crate) struct Derived {
    keys: Vec<u8>,
    offsets: Vec<u8>,
}

impl Partition {
    /// KEYS or OFFSETS of a field whose points hold values, derived on the first call. Empty for
    /// other parts and other fields.
    #[cold]
    pub(crate) fn derived<'p>(&self, field: &'p FieldPart, part: u32) -> Result<&'p [u8]> {
        let Some(derived) = &field.derived else { return Ok(&[]) };
        if ![part::KEYS, part::OFFSETS].contains(&part) {
            return Ok(&[]);
        }
        if derived.get().is_none() {
            // Another thread may have set it first.
            let _ = derived.set(self.at_file(self.derive(field))?);
        }
        Ok(derived.get().map_or(&[], |derived| {
            if part == part::KEYS { &derived.keys } else { &derived.offsets }
        }))
    }

    fn derive(&self, field: &FieldPart) -> Result<Derived> {
        let sorted = self.sorted_values(field)?;
        let keys: Vec<u64> = keys_of(&field.meta, &sorted).collect();
        let ends = group_by_value(&sorted).scan(0, |end, group| {
            *end += group.len() as u64;
            Some(*end)
        });
        let offsets: Vec<u64> = std::iter::once(0).chain(ends).collect();
        let keys = monotonic::encode(keys.into_iter());
        Ok(Derived { keys, offsets: monotonic::encode(offsets.into_iter()) })
    }

    /// The values of a field in points, ascending: the value in the upper 32 bits, the document in
    /// the lower ones.
    fn sorted_values(&self, field: &FieldPart) -> Result<Vec<u64>> {
        let (meta, points) = (&field.meta, self.points_of(field)?);
        let (Some(of), Some((points, which))) = (meta.values(), points) else {
            return Err(Error::corrupt("a field by value has no points"));
        };
        let mut sorted = Vec::with_capacity(meta.present as usize);
        points.each_entry(|doc, at| {
            if at[which] < of.span {
                sorted.push(u64::from(at[which]) << 32 | u64::from(doc));
            }
        });
        sorted.sort_unstable();
        let found = (group_by_value(&sorted).count() as u64, sorted.len() as u64);
        if found != (meta.distinct.into(), meta.postings) {
            return Err(Error::corrupt(format!(
                "points have {} values in {} documents, the meta data of the field say {} and {}",
                found.0, found.1, meta.distinct, meta.postings
            )));
        }
        Ok(sorted)
    }

    /// The keys of a field whose points hold values, and the ordinals of all documents; documents
    /// without a value have the number of keys as ordinal. `None` for other fields.
    pub(crate) fn ranked(&self, field: usize) -> Result<Option<(Vec<u64>, Vec<u32>)>> {
        let (meta, field) = (self.meta(field), &self.fields[field]);
        if meta.values().is_none() {
            return Ok(None);
        }
        let sorted = self.at_file(self.sorted_values(field))?;
        let mut ords = vec![meta.distinct; self.documents as usize];
        for (ord, group) in (0..).zip(group_by_value(&sorted)) {
            for &value in group {
                if let Some(slot) = ords.get_mut(value as u32 as usize) {
                    *slot = ord;
                }
            }
        }
        Ok(Some((keys_of(meta, &sorted).collect(), ords)))
    }

    /// Whether the keys of a field have been derived.
    pub(crate) fn is_derived(&self, field: usize) -> bool {
        self.fields[field].derived.as_ref().is_some_and(|derived| derived.get().is_some())
    }

    /// The column of a field. If the file has none, derives one from the postings, which takes 4
    /// bytes per document.
    pub(crate) fn column_or_derived(&self, field: usize) -> Result<Column<'_>> {
        if let Some(column) = self.column(field)? {
            return Ok(column);
        }
        let f = &self.fields[field];
        let (n, distinct) = (self.documents as usize, f.meta.distinct);
        if let Some((_, ords)) = self.ranked(field)? {
            return Ok(Column::Derived(ords));
        }
        if let Some((points, which)) = self.points(field)? {
            return Ok(Column::Derived(self.ordinals_of(field, &points, which)));
        }
        let postings = self.postings(field)?;
        let mut block = Vec::new();
        let mut each = |visit: &mut dyn FnMut(u32, u32)| {
            let mut left = f.meta.postings;
            for ord in 0..distinct {
                let mut cursor = PostingsIter::new(postings.range(ord, ord + 1));
                while cursor.next(&postings, &mut block) {
                    let rest = left.checked_sub(block.len() as u64);
                    left = rest.ok_or_else(|| self.too_many(field))?;
                    block
                        .iter()
                        .filter(|&&doc| (doc as usize) < n)
                        .for_each(|&doc| visit(ord, doc));
                }
            }
            Ok(())
        };
        if !f.multi {
            let mut ords = vec![distinct; n];
            let whole = postings.slices.whole().filter(|_| f.meta.special_forms == 0);
            if let Some(slices) = whole {
                let mut docs = Vec::new();
                slices.decode(0, slices.len(), &mut docs);
                let mut start = 0;
                for ord in 0..distinct {
                    let end = postings.offsets.get(ord as usize + 1) as usize;
                    for &doc in docs.get(start..end).unwrap_or(&[]) {
                        if let Some(slot) = ords.get_mut(doc as usize) {
                            *slot = ord;
                        }
                    }
                    start = end;
                }
            } else {
                each(&mut |ord, doc| ords[doc as usize] = ord)?;
            }
            return Ok(Column::Derived(ords));
        }
        let mut starts = vec![0u32; n + 1];
        each(&mut |_, doc| starts[doc as usize + 1] += 1)?;
        for d in 0..n {
            starts[d + 1] += starts[d];
        }
        let mut next = starts.clone();
        let mut ords = vec![0; starts[n] as usize];
        each(&mut |ord, doc| {
            ords[next[doc as usize] as usize] = ord;
            next[doc as usize] += 1;
        })?;
        Ok(Column::DerivedMulti { starts, ords })
    }

    /// The ordinals of all documents, read from the points of a field.
    fn ordinals_of(&self, field: usize, points: &Points, which: usize) -> Vec<u32> {
        let distinct = self.meta(field).distinct;
        let mut ords = vec![distinct; self.documents as usize];
        points.each_entry(|doc, at| {
            if let Some(slot) = ords.get_mut(doc as usize) {
                *slot = at[which].min(distinct);
            }
        });
        ords
    }

    #[cold]
    fn too_many(&self, field: usize) -> Error {
        let name = &self.schema.fields[field].name;
        Error::corrupt(format!("field `{name}` has more postings than its counts say"))
            .in_file(self.file.path())
    }
}

/// Groups the output of [`Partition::sorted_values`] by value.
fn group_by_value(sorted: &[u64]) -> impl Iterator<Item = &[u64]> {
    sorted.chunk_by(|a, b| a >> 32 == b >> 32)
}

fn keys_of(meta: &FieldMeta, sorted: &[u64]) -> impl Iterator<Item = u64> {
    group_by_value(sorted).map(|group| meta.least + (group[0] >> 32))
}
