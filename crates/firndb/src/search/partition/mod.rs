//! An open partition: the structures of each field, as views over the mapped file.
//!
//! Opening reads the footer, the section directory and the meta section. The checksum of a section
//! is verified when the section is first used. This file opens partitions and returns views of
//! their structures; `field_view` reads values by document, `derived` computes structures that are
//! not in the file. `set` is the list of partitions that queries run on, `verify/` checks a
//! partition completely.

pub(crate) mod set;
pub(crate) mod verify;

mod derived;
mod field_view;

use crate::bytes::monotonic::{self, Monotonic};
use crate::bytes::packed::Packed;
use crate::bytes::prefetch::prefetch;
use crate::disk::Disk;
use crate::disk::envelope::{Envelope, Kind};
use crate::search::codec::column::Column;
use crate::search::codec::dictionary::Dictionary;
use crate::search::codec::payload::{Payloads, Step};
use crate::search::codec::points::{CoordinateKind, Points};
use crate::search::codec::postings::{Parts, Postings};
use crate::search::format::limits::{SCAN_BITS, SMALL_DOCUMENTS};
use crate::search::format::{FieldMeta, Ordered, decode_meta, global, part, section};
use crate::search::model::schema::Schema;
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::partition::derived::Derived;
use crate::{Error, Result};
pub(crate) use field_view::FieldView;
use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A partition file, open for queries.
pub(crate) struct Partition {
    pub(crate) file: Envelope,
    pub(crate) documents: u32,
    pub(crate) schema: Arc<Schema>,
    fields: Box<[FieldPart]>,
    /// Offset and length of the fields' sections.
    places: Box<[(u64, u64)]>,
    /// All checksums have been verified, so that sections can be read without a check.
    checked: AtomicBool,
    pub(crate) payloads: Payloads,
    /// The original numbers of documents that were reordered when partitions were merged in memory.
    /// They break ties in the order of queries.
    pub(crate) origins: Option<Arc<[u32]>>,
}

/// A field of an open partition. Its sections are consecutive, one per bit of `parts`: they start
/// at `first` in `Partition::places` and at `section` in the section directory of the file.
pub(crate) struct FieldPart {
    meta: FieldMeta,
    ty: Type,
    multi: bool,
    first: u32,
    section: u32,
    parts: u16,
    /// If the field is stored in points: the first field of the point, and whether this field is
    /// the second.
    point: Option<(u32, bool)>,
    /// If the points hold values: the keys and offsets, derived on demand.
    derived: Option<Box<OnceLock<Derived>>>,
}

/// The parts of postings that few fields have.
const RARE_PARTS: u16 =
    1 << part::SPECIAL_FORMS | 1 << part::BITSETS | 1 << part::RUNS | 1 << part::LIST_OFFSETS;

impl Partition {
    /// Whether the partition has at most [`SMALL_DOCUMENTS`]. Tests can override it.
    #[inline(always)]
    pub(crate) fn is_small(&self) -> bool {
        #[cfg(test)]
        if crate::search::testing::FORCED.get().large {
            return false;
        }
        self.documents <= SMALL_DOCUMENTS
    }

    /// Opens a partition file. If its schema equals that of `like`, both share one copy.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        like: Option<&Partition>,
    ) -> Result<Partition> {
        let file = Envelope::open(disk.map(path)?, path, Kind::Partition)?;
        Self::parse(file, like).map_err(|e| e.in_file(path))
    }

    /// Opens the partition in an open file; see [`Partition::open`] for `like`.
    pub(crate) fn parse(file: Envelope, like: Option<&Partition>) -> Result<Partition> {
        let meta = file.find(global::META).ok_or_else(|| Error::corrupt("no meta section"))?;
        let (documents, schema, metas) = decode_meta(file.section(meta)?)?;
        let schema = match like {
            Some(like) if *like.schema == schema => like.schema.clone(),
            _ => Arc::new(schema),
        };
        let mut fields = Vec::with_capacity(metas.len());
        let mut places = Vec::with_capacity(file.entries());
        let mut at = 0;
        for (i, meta) in metas.into_iter().enumerate() {
            while at < file.entries() && file.entry(at).id < section(i, 0) {
                at += 1;
            }
            let (first, section_at, mut parts) = (places.len() as u32, at as u32, 0u16);
            while at < file.entries() && file.entry(at).id < section(i, 16) {
                let entry = file.entry(at);
                parts |= 1 << (entry.id & 15);
                places.push((entry.offset, entry.len));
                at += 1;
            }
            let field = &schema.fields[i];
            let (ty, multi) = (field.ty, field.multi);
            // The size of the keys bounds their number: readers allocate memory in proportion to
            // it.
            let has_keys = parts >> part::KEYS & 1 == 1;
            let bytes = if has_keys { places[first as usize].1 } else { 0 };
            if meta.distinct > documents
                && bytes < monotonic::min_size(meta.distinct as usize) as u64
            {
                let message = format!("field {i} has no {} keys", meta.distinct);
                return Err(Error::corrupt(message));
            }
            let point = schema.part_of_point(i).filter(|_| meta.in_points);
            let point = point.map(|(first, which)| (first as u32, which == 1));
            let derived = meta.values().map(|_| Box::default());
            if derived.is_some() && parts & (1 << part::KEYS | 1 << part::OFFSETS) != 0 {
                return Err(Error::corrupt(format!("field {i} has keys beside its values")));
            }
            let section = section_at;
            fields.push(FieldPart { meta, ty, multi, first, section, parts, point, derived });
        }
        let payloads = Payloads::open(&file, schema.payload, documents)?;
        let (fields, places) = (fields.into(), places.into());
        let checked = AtomicBool::new(false);
        let origins = None;
        Ok(Partition { file, documents, schema, fields, places, checked, payloads, origins })
    }

    pub(crate) fn meta(&self, field: usize) -> &FieldMeta {
        &self.fields[field].meta
    }

    /// The number of a document as users see it: see [`Partition::origins`].
    #[inline(always)]
    pub(crate) fn origin(&self, doc: u32) -> u32 {
        match &self.origins {
            None => doc,
            Some(origins) => origins.get(doc as usize).copied().unwrap_or(doc),
        }
    }

    /// The number of words of a bitset over the documents.
    pub(crate) fn words(&self) -> usize {
        (self.documents as usize).div_ceil(64)
    }

    /// A part of a field, from the file or derived; empty if the field lacks it.
    #[inline(always)]
    fn part<'p>(&'p self, field: &'p FieldPart, part: u32) -> Result<&'p [u8]> {
        if field.parts >> part & 1 == 0 {
            return if field.derived.is_some() { self.derived(field, part) } else { Ok(&[]) };
        }
        let before = (field.parts & ((1 << part) - 1)).count_ones();
        if self.checked.load(Ordering::Acquire) {
            let (offset, len) = self.places[(field.first + before) as usize];
            return Ok(self.file.bytes(offset, len));
        }
        self.file.section((field.section + before) as usize)
    }

    /// A part of a field by its number, from the file or derived; empty if the field lacks it.
    pub(crate) fn part_of(&self, field: usize, part: u32) -> Result<&[u8]> {
        self.part(&self.fields[field], part)
    }

    /// Verifies the checksums of all structures, unless this has been done. For small partitions,
    /// this is cheaper than keeping track of each section. The `ready_*` methods require it.
    pub(crate) fn ready(&self) -> Result<()> {
        if !self.checked.load(Ordering::Acquire) {
            self.file.warm()?;
            for (field, part) in self.fields.iter().enumerate() {
                if part.derived.is_some() {
                    self.points(field)?;
                    continue;
                }
                self.dictionary(field)?;
                if part.parts >> part::OFFSETS & 1 == 1 {
                    self.postings(field)?;
                }
            }
            self.checked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Adds the path of the file to an error.
    pub(crate) fn at_file<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|e| e.in_file(self.file.path()))
    }

    /// Whether [`Partition::ready`] has succeeded.
    pub(crate) fn is_ready(&self) -> bool {
        self.checked.load(Ordering::Acquire)
    }

    /// A part of a field that exists in the file. Requires [`Partition::ready`].
    #[inline(always)]
    fn ready_part(&self, field: &FieldPart, part: u32) -> &[u8] {
        let before = (field.parts & ((1 << part) - 1)).count_ones();
        match self.places.get((field.first + before) as usize) {
            Some(&(offset, len)) => self.file.bytes(offset, len),
            None => &[],
        }
    }

    /// The ordinals `start..end` of the 64-bit keys in `low..=high`. Requires [`Partition::ready`].
    #[inline(always)]
    pub(crate) fn ready_range(&self, field: usize, low: u64, high: u64) -> (u32, u32) {
        let f = &self.fields[field];
        let distinct = f.meta.distinct;
        let keys = Monotonic::trusted(self.ready_part(f, part::KEYS), distinct as usize);
        match high.checked_add(1) {
            _ if low > high => (0, 0),
            Some(end) => {
                let (start, end) = keys.lower_bounds(low, end);
                (start as u32, end as u32)
            }
            None => (keys.lower_bound(low) as u32, distinct),
        }
    }

    /// Adds the documents of the ordinals `start..end` to a bitset. Returns the number of their
    /// postings, clamped to that of the field because corrupt offsets are arbitrary. Requires
    /// [`Partition::ready`].
    #[inline(always)]
    pub(crate) fn ready_add(
        &self,
        field: usize,
        start: u32,
        end: u32,
        bits: &mut [u64],
    ) -> Result<u64> {
        let f = &self.fields[field];
        if f.parts & RARE_PARTS != 0 || f.meta.is_scanned() || !f.meta.has_lists() {
            let postings = self.postings(field)?;
            postings.add_to(start, end, bits);
            return Ok(postings.count(start, end).min(f.meta.postings));
        }
        let offsets = self.ready_part(f, part::OFFSETS);
        let offsets = Monotonic::trusted(offsets, f.meta.distinct as usize + 1);
        let all = f.meta.postings as usize;
        let slices = Packed::trusted(self.ready_part(f, part::SLICES), f.meta.slice_bits, all);
        let (first, last) =
            (offsets.get(start as usize) as usize, offsets.get(end as usize) as usize);
        slices.for_each(first, last.min(all), |doc| {
            if let Some(word) = bits.get_mut(doc as usize / 64) {
                *word |= 1 << (doc % 64);
            }
        });
        Ok((last.saturating_sub(first) as u64).min(f.meta.postings))
    }

    /// Adds the documents of some ordinals to a bitset, and returns the number of their postings.
    /// Requires [`Partition::ready`].
    #[inline(always)]
    pub(crate) fn ready_add_each(
        &self,
        field: usize,
        ords: &[u32],
        bits: &mut [u64],
    ) -> Result<u64> {
        let f = &self.fields[field];
        if ords.is_empty() || (f.parts & RARE_PARTS == 0 && !f.meta.is_scanned()) {
            let mut entries = 0;
            for &ord in ords {
                entries += self.ready_add(field, ord, ord + 1, bits)?;
            }
            return Ok(entries);
        }
        let postings = self.postings(field)?;
        ords.iter().for_each(|&ord| postings.add_to(ord, ord + 1, bits));
        let most = self.fields[field].meta.postings;
        Ok(ords.iter().map(|&ord| postings.count(ord, ord + 1).min(most)).sum())
    }

    /// Prefetches what a look-up in a small field reads first: the heads of the keys (if `keys`)
    /// and of the offsets.
    pub(crate) fn prefetch(&self, field: usize, keys: bool) {
        let f = &self.fields[field];
        if keys {
            prefetch(self.ready_part(f, part::KEYS), 5);
        }
        prefetch(self.ready_part(f, part::OFFSETS), 2);
    }

    /// The dictionary of a field.
    pub(crate) fn dictionary(&self, field: usize) -> Result<Dictionary<'_>> {
        let f = &self.fields[field];
        let distinct = f.meta.distinct as usize;
        let keys = self.part(f, part::KEYS)?;
        self.at_file(match f.ty.is_fixed() {
            true => Dictionary::fixed(keys, distinct),
            false => Dictionary::bytes(keys, self.part(f, part::KEY_BYTES)?, distinct),
        })
    }

    /// The postings of a filterable or sortable field.
    pub(crate) fn postings(&self, field: usize) -> Result<Postings<'_>> {
        let f = &self.fields[field];
        let mut parts = Parts {
            offsets: self.part(f, part::OFFSETS)?,
            slices: self.part(f, part::SLICES)?,
            ..Parts::default()
        };
        if f.parts & RARE_PARTS != 0 || f.meta.is_scanned() {
            parts.places = self.part(f, part::LIST_OFFSETS)?;
            parts.special_forms = self.part(f, part::SPECIAL_FORMS)?;
            parts.bitsets = self.part(f, part::BITSETS)?;
            parts.runs = self.part(f, part::RUNS)?;
            parts.column = self.scanned(field)?;
        }
        parts.points = self.points(field)?;
        if let Some(of) = f.meta.values()
            && let Dictionary::Fixed(keys) = self.dictionary(field)?
        {
            parts.values = Some((keys, of.least));
        }
        self.at_file(Postings::new(&f.meta, self.documents, parts))
    }

    /// The column of a single-valued field, if queries may scan it: it is narrow, or some keys have
    /// no postings lists.
    pub(crate) fn scanned(&self, field: usize) -> Result<Option<Packed<'_>>> {
        let f = &self.fields[field];
        let narrow = f.meta.column_bits.is_some_and(|bits| bits <= SCAN_BITS);
        if f.multi || !(narrow || f.meta.is_scanned()) {
            return Ok(None);
        }
        Ok(match self.column(field)? {
            Some(Column::Single(column)) => Some(column),
            _ => None,
        })
    }

    /// The points of a field, and the position (0 or 1) of the field in them; `None` if it has
    /// none.
    pub(crate) fn points(&self, field: usize) -> Result<Option<(Points<'_>, usize)>> {
        self.points_of(&self.fields[field])
    }

    fn points_of<'p>(&'p self, field: &'p FieldPart) -> Result<Option<(Points<'p>, usize)>> {
        let Some((first, other)) = field.point else { return Ok(None) };
        let bytes = self.part(&self.fields[first as usize], part::POINTS)?;
        let of =
            if field.derived.is_some() { CoordinateKind::Values } else { CoordinateKind::Ordinals };
        Ok(Some((self.at_file(Points::new(bytes, self.documents, of))?, usize::from(other))))
    }

    /// The offsets of a field's postings: entry i is the number of postings of the keys before i.
    pub(crate) fn offsets(&self, field: usize) -> Result<Monotonic<'_>> {
        let f = &self.fields[field];
        let offsets = self.part(f, part::OFFSETS)?;
        self.at_file(Monotonic::new(offsets, f.meta.distinct as usize + 1))
    }

    /// The range of documents with the ordinals `start..end` of an ordered field; `None` if the
    /// field is not ordered.
    pub(crate) fn ordered_range(
        &self,
        field: usize,
        start: u32,
        end: u32,
    ) -> Result<Option<(u32, u32)>> {
        let meta = self.fields[field].meta;
        if meta.ordered == Ordered::No {
            return Ok(None);
        }
        let offsets = self.offsets(field)?;
        let all = u64::from(meta.present);
        let (low, high) =
            (offsets.get(start as usize).min(all), offsets.get(end as usize).min(all));
        let (first, last) = match meta.ordered {
            Ordered::Descending => (all - high, all - low),
            _ => (low, high),
        };
        Ok(Some((first as u32, last.max(first) as u32)))
    }

    /// The column of a field; `None` if it has none. Ordered fields have one, computed from the
    /// offsets.
    pub(crate) fn column(&self, field: usize) -> Result<Option<Column<'_>>> {
        let f = &self.fields[field];
        let present = f.meta.present;
        let Some(bits) = f.meta.column_bits else {
            return Ok(match f.meta.ordered {
                Ordered::No => None,
                Ordered::Ascending => {
                    Some(Column::Ascending { offsets: self.offsets(field)?, present })
                }
                Ordered::Descending => {
                    Some(Column::Descending { offsets: self.offsets(field)?, present })
                }
            });
        };
        let bytes = self.part(f, part::COLUMN)?;
        if !f.multi {
            let ords = self.at_file(Packed::new(bytes, bits, self.documents as usize))?;
            return Ok(Some(Column::Single(ords)));
        }
        let ords = self.at_file(Packed::new(bytes, bits, f.meta.postings as usize))?;
        let starts = Monotonic::new(self.part(f, part::STARTS)?, self.documents as usize + 1);
        Ok(Some(Column::Multi { starts: self.at_file(starts)?, ords }))
    }

    /// Prefetches a payload: see [`Payloads::fetch`].
    pub(crate) fn fetch_payload(&self, doc: u32, step: Step) -> Result<()> {
        self.check(doc)?;
        self.payloads.fetch(&self.file, doc, step)
    }

    /// The payload of a document.
    pub(crate) fn payload(&self, doc: u32) -> Result<Cow<'_, [u8]>> {
        self.check(doc)?;
        self.payloads.get(&self.file, doc)
    }

    /// All values of a document in a stored or sortable field, ascending.
    pub(crate) fn values(&self, field: usize, doc: u32) -> Result<Vec<Value>> {
        self.check(doc)?;
        let Some(column) = self.column(field)? else { return Ok(Vec::new()) };
        let (dictionary, ty) = (self.dictionary(field)?, self.fields[field].ty);
        let mut ords = Vec::new();
        column.each(doc, self.meta(field).distinct, |ord| ords.push(ord));
        let values = ords.into_iter().map(|ord| dictionary.value(ty, ord)).collect();
        self.at_file(values)
    }

    /// The smallest value of a document in a stored or sortable field; `None` if it has none.
    pub(crate) fn value(&self, field: usize, doc: u32) -> Result<Option<Value>> {
        FieldView::new(self, field)?.value(doc)
    }

    /// The column and the keys of a single-valued field with 64-bit keys; `None` for other fields
    /// and fields without a column.
    #[inline(always)]
    pub(crate) fn fixed(&self, field: usize) -> Result<Option<(Packed<'_>, Monotonic<'_>)>> {
        let f = &self.fields[field];
        let (Some(bits), false, true) = (f.meta.column_bits, f.multi, f.ty.is_fixed()) else {
            return Ok(None);
        };
        let (ords, keys) = (self.part(f, part::COLUMN)?, self.part(f, part::KEYS)?);
        let ords = self.at_file(Packed::new(ords, bits, self.documents as usize))?;
        let keys = self.at_file(Monotonic::new(keys, f.meta.distinct as usize))?;
        Ok(Some((ords, keys)))
    }

    /// `InvalidArgument` if the partition has no such document.
    #[inline(always)]
    pub(crate) fn check(&self, doc: u32) -> Result<()> {
        if doc < self.documents { Ok(()) } else { self.refuse(doc) }
    }

    #[cold]
    fn refuse(&self, doc: u32) -> Result<()> {
        let n = self.documents;
        Err(Error::invalid(format!("there is no document {doc}; the partition has {n}")))
    }

    /// Verifies the checksums of all structures that queries read.
    pub(crate) fn warm(&self) -> Result<()> {
        self.ready()
    }

    /// Verifies the checksums that were verified in `other`, and derives the keys that were derived
    /// there. Does nothing if `other` has other fields.
    pub(crate) fn warm_like(&self, other: &Partition) -> Result<()> {
        if self.schema.fields != other.schema.fields {
            return Ok(());
        }
        if other.is_ready() {
            self.ready()?;
        }
        self.file.warm_like(&other.file)?;
        for field in (0..self.fields.len()).filter(|&field| other.is_derived(field)) {
            self.dictionary(field)?;
        }
        Ok(())
    }
}
