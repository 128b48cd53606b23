//! The lists of a field as its sections have them: documents by key, values by document, documents
//! by bin. Read here by other code than queries use, so that neither hides a mistake of the
//! other.

use super::field::FieldCheck;
use super::{ensure, within};
use crate::bytes::increasing::Increasing;
use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::packed::Packed;
use crate::search::bins::Bins;
use crate::search::column::Column;
use crate::search::format::{Ordered, part};
use crate::search::postings_build::{EXCEPTION, IN_COLUMN};
use crate::{Error, Result};

/// The documents of the keys, key after key.
pub(super) struct Lists<'p> {
    ordered: Ordered,
    present: u64,
    words: usize,
    slices: Packed<'p>,
    highs: Highs<'p>,
    /// Entries of the slices that were read.
    at: usize,
    exceptions: &'p [u8],
    count: usize,
    /// Exceptions that were read, and their documents.
    next: usize,
    removed: u64,
    bitsets: &'p [u8],
    runs: &'p [u8],
    /// What the column has of each key, if some keys have no list; and which these are beside
    /// exceptions.
    in_column: InColumn,
    scanned: (u32, u32),
}

impl<'p> Lists<'p> {
    pub(super) fn new(check: &'p FieldCheck) -> Result<Lists<'p>> {
        let (meta, count) = (check.meta, check.meta.exceptions as usize);
        let exceptions = check.bytes(part::EXCEPTIONS)?;
        let size = if count > 0 { (count + 1) * EXCEPTION } else { 0 };
        ensure(exceptions.len() == size, || "its exceptions have a wrong size".into())?;
        let removed = u64_at(exceptions, count * EXCEPTION + 16);
        let slices = if meta.has_lists() {
            let too_many = || Error::corrupt("it has more exceptions than postings");
            let (first, end) = (meta.scanned.0 as usize, meta.scanned.1 as usize);
            let sums = check.part.sums(check.i)?;
            let removed = removed + sums.get(end).saturating_sub(sums.get(first));
            let len = meta.postings.checked_sub(removed).ok_or_else(too_many)?;
            Packed::new(check.bytes(part::SLICES)?, meta.slice_bits, len as usize)
        } else {
            Packed::new(&[0; 8], 0, 0)
        };
        Ok(Lists {
            ordered: meta.ordered,
            present: meta.present.into(),
            words: check.part.words(),
            slices: slices.map_err(|e| within("slices", e))?,
            highs: Highs::new(check)?,
            at: 0,
            exceptions,
            count,
            next: 0,
            removed: 0,
            bitsets: check.bytes(part::BITSETS)?,
            runs: check.bytes(part::RUNS)?,
            in_column: InColumn::new(check, exceptions)?,
            scanned: meta.scanned,
        })
    }

    /// Visits the documents of the next key, which the sums put at `low..high` of all postings.
    pub(super) fn each(
        &mut self,
        ord: u32,
        (low, high): (u64, u64),
        mut visit: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let all = self.present;
        match self.ordered {
            Ordered::Ascending => return (low..high).try_for_each(|doc| visit(doc as u32)),
            Ordered::Descending => {
                return (all - high..all - low).try_for_each(|doc| visit(doc as u32));
            }
            Ordered::No if (self.scanned.0..self.scanned.1).contains(&ord) => {
                return self.in_column.of(ord).iter().try_for_each(|&doc| visit(doc));
            }
            Ordered::No => {}
        }
        let entry = self.next * EXCEPTION;
        if self.next == self.count || u32_at(self.exceptions, entry) != ord {
            let start = self.at;
            self.at += (high - low) as usize;
            ensure(self.at <= self.slices.len(), || format!("the slice of key {ord} is cut"))?;
            for i in start..self.at {
                visit(self.highs.next(ord)? | self.slices.get(i))?;
            }
            return self.highs.end_key(ord);
        }
        let (removed, says) = (self.removed, u64_at(self.exceptions, entry + 16));
        ensure(removed == says, || {
            format!("exceptions before key {ord} have {removed} documents, not {says}")
        })?;
        self.removed += high - low;
        self.next += 1;
        let runs = u32_at(self.exceptions, entry + 4) as usize;
        let offset = u64_at(self.exceptions, entry + 8) as usize;
        if runs == IN_COLUMN as usize {
            ensure(offset == 0, || format!("key {ord} is in the column at offset {offset}"))?;
            return self.in_column.of(ord).iter().try_for_each(|&doc| visit(doc));
        }
        let (area, size) = match runs {
            0 => (self.bitsets, self.words * 8),
            n => (self.runs, n * 8),
        };
        let bytes = offset.checked_add(size).and_then(|end| area.get(offset..end));
        let bytes = bytes.ok_or_else(|| {
            Error::corrupt(format!("the bitset or the runs of key {ord} are not in their section"))
        })?;
        match runs {
            0 => each_bit(bytes, visit),
            _ => bytes.chunks(8).try_for_each(|run| {
                let (first, len) = (u64::from(u32_at(run, 0)), u64::from(u32_at(run, 4)));
                (first..first + len).try_for_each(|doc| visit(doc.min(u32::MAX.into()) as u32))
            }),
        }
    }

    /// Everything was read.
    pub(super) fn finish(self) -> Result<()> {
        let (next, end) = (self.next, self.count * EXCEPTION);
        let sentinel = self.count == 0
            || (u32_at(self.exceptions, end), u64_at(self.exceptions, end + 16))
                == (u32::MAX, self.removed);
        ensure(next == self.count && sentinel, || {
            format!("of {} exceptions {next} are in the order of the keys", self.count)
        })?;
        self.highs.finish()?;
        let (at, len) = (self.at, self.slices.len());
        ensure(at == len, || format!("{at} of the {len} documents in its slices belong to a key"))
    }
}

/// For each key the documents that the column of a field says.
#[derive(Default)]
struct InColumn {
    /// The documents of key o are `docs[ends[o]..ends[o + 1]]`, ascending.
    ends: Vec<u32>,
    docs: Vec<u32>,
}

impl InColumn {
    /// Of nothing, unless the field or an exception calls for it.
    fn new(check: &FieldCheck, exceptions: &[u8]) -> Result<InColumn> {
        let mut entries = exceptions.chunks_exact(EXCEPTION);
        if !check.meta.is_scanned() && !entries.any(|entry| u32_at(entry, 4) == IN_COLUMN) {
            return Ok(InColumn::default());
        }
        let column = check.part.scanned(check.i)?;
        let column =
            column.ok_or_else(|| Error::corrupt("it has no column that can be scanned"))?;
        let ords = (0..check.part.documents).map(|doc| column.get(doc as usize));
        // A field of one value has no more keys than documents; a damaged one may say so.
        let distinct = check.meta.distinct.min(check.part.documents) as usize;
        let mut ends = vec![0; distinct + 1];
        let present = |ord: &u32| (*ord as usize) < distinct;
        ords.clone().filter(present).for_each(|ord| ends[ord as usize + 1] += 1);
        for ord in 0..distinct {
            ends[ord + 1] += ends[ord];
        }
        let (mut next, mut docs) = (ends.clone(), vec![0; ends[distinct] as usize]);
        for (doc, ord) in (0..).zip(ords).filter(|(_, ord)| present(ord)) {
            docs[next[ord as usize] as usize] = doc;
            next[ord as usize] += 1;
        }
        Ok(InColumn { ends, docs })
    }

    fn of(&self, ord: u32) -> &[u32] {
        match self.ends.get(ord as usize..ord as usize + 2) {
            Some(&[start, end]) => &self.docs[start as usize..end as usize],
            _ => &[],
        }
    }
}

/// The high bits of the slices, read bit by bit.
struct Highs<'p> {
    bytes: &'p [u8],
    /// Bits of the low numbers.
    low: u8,
    /// Buckets of a key; 0 if there are no high bits.
    buckets: usize,
    at: usize,
    bucket: usize,
}

impl<'p> Highs<'p> {
    fn new(check: &'p FieldCheck) -> Result<Highs<'p>> {
        let (bytes, low) = (check.bytes(part::HIGHS)?, check.meta.slice_bits);
        let step = 1u64.checked_shl(low.into()).unwrap_or(u64::MAX);
        let buckets = match bytes {
            [] => 0,
            _ => u64::from(check.part.documents).div_ceil(step) as usize,
        };
        Ok(Highs { bytes, low, buckets, at: 0, bucket: 0 })
    }

    fn bit(&self) -> bool {
        self.bytes.get(self.at / 8).is_some_and(|byte| byte >> (self.at % 8) & 1 == 1)
    }

    /// Those of the next entry, where they belong in a number.
    fn next(&mut self, ord: u32) -> Result<u32> {
        if self.buckets == 0 {
            return Ok(0);
        }
        while !self.bit() {
            (self.at, self.bucket) = (self.at + 1, self.bucket + 1);
            ensure(self.bucket < self.buckets, || format!("the slice of key {ord} is cut"))?;
        }
        self.at += 1;
        Ok((self.bucket << self.low) as u32)
    }

    /// Behind the entries of a key its buckets end.
    fn end_key(&mut self, ord: u32) -> Result<()> {
        for _ in self.bucket..self.buckets {
            ensure(!self.bit(), || format!("the slice of key {ord} has more documents"))?;
            self.at += 1;
        }
        self.bucket = 0;
        Ok(())
    }

    /// Nothing but zeros follows, up to the end of the word.
    fn finish(&self) -> Result<()> {
        let rest =
            (self.at..self.bytes.len() * 8).find(|at| self.bytes[at / 8] >> (at % 8) & 1 == 1);
        let end = self.at.div_ceil(64) * 8;
        ensure(rest.is_none() && end == self.bytes.len(), || {
            format!("its high bits end at {}, not at {}", self.bytes.len() * 8, self.at)
        })
    }
}

fn each_bit(bitset: &[u8], mut visit: impl FnMut(u32) -> Result<()>) -> Result<()> {
    for (i, bytes) in bitset.chunks(8).enumerate() {
        let mut word = u64_at(bytes, 0);
        while word != 0 {
            visit(i as u32 * 64 + word.trailing_zeros())?;
            word &= word - 1;
        }
    }
    Ok(())
}

/// The column of a field beside its postings, which come by key after key.
pub(super) enum Back<'p> {
    /// There is none.
    None,
    Single {
        ords: Packed<'p>,
        distinct: u32,
    },
    Multi {
        starts: Increasing<'p>,
        ords: Packed<'p>,
        /// For each document the entry that comes next.
        next: Vec<u32>,
    },
}

impl<'p> Back<'p> {
    pub(super) fn new(check: &'p FieldCheck) -> Result<Back<'p>> {
        let meta = check.meta;
        if meta.column_bits.is_none() {
            return Ok(Back::None);
        }
        Ok(match check.part.column(check.i)? {
            Some(Column::Single(ords)) => Back::Single { ords, distinct: meta.distinct },
            Some(Column::Multi { starts, ords }) => {
                check_starts(&starts, meta.postings)?;
                let first = |doc: u32| (starts.get(doc as usize) - u64::from(doc)) as u32;
                let next = (0..check.part.documents).map(first).collect();
                Back::Multi { starts, ords, next }
            }
            _ => Back::None,
        })
    }

    /// The next posting.
    pub(super) fn take(&mut self, ord: u32, doc: u32) -> Result<()> {
        let d = doc as usize;
        let there = match self {
            Back::None => true,
            Back::Single { ords, .. } => ords.get(d) == ord,
            Back::Multi { starts, ords, next } => {
                let at = next[d];
                next[d] += 1;
                let end = starts.get(d + 1) - u64::from(doc) - 1;
                u64::from(at) < end && ords.get(at as usize) == ord
            }
        };
        ensure(there, || format!("document {doc} has key {ord}, but not in the column"))
    }

    /// A document without postings. (Several values need no look: there are as many entries as
    /// postings, and each of these found its own.)
    pub(super) fn nothing(&self, doc: u32) -> Result<()> {
        let Back::Single { ords, distinct } = self else { return Ok(()) };
        let ord = ords.get(doc as usize);
        ensure(ord == *distinct, || format!("document {doc} has key {ord} in the column alone"))
    }
}

/// The values of each document begin where those of the one before end.
pub(super) fn check_starts(starts: &Increasing, postings: u64) -> Result<()> {
    starts.verify().map_err(|e| within("starts", e))?;
    let documents = starts.len() as u64 - 1;
    let (first, last) = (starts.get(0), starts.get(documents as usize));
    ensure(first == 0 && last.checked_sub(documents) == Some(postings), || {
        format!("its starts go from {first} to {last}, not from 0 to {postings} + {documents}")
    })
}

/// The bins of a field.
pub(super) struct BinsCheck<'p> {
    bins: Bins<'p>,
    distinct: u32,
}

impl<'p> BinsCheck<'p> {
    pub(super) fn new(check: &'p FieldCheck) -> Result<BinsCheck<'p>> {
        let meta = check.meta;
        let bins = Bins::new(check.bytes(part::BINS)?, meta.bounds, check.part.documents)?;
        let bounds: Vec<u64> = (0..bins.len()).map(|i| bins.bound(i)).collect();
        let ascending = bounds.is_sorted_by(|a, b| a < b);
        ensure(ascending && bounds.iter().all(|&bound| bound <= meta.distinct.into()), || {
            format!("the bounds of its bins are not ascending ordinals: {bounds:?}")
        })?;
        ensure(bins.ends_in_zeros(), || "its bins go on behind the last document".into())?;
        Ok(BinsCheck { bins, distinct: meta.distinct })
    }

    /// A document with a key.
    pub(super) fn take(&self, ord: u32, doc: u32) -> Result<()> {
        let (bin, mut bounds) = (self.bins.of(doc) as usize, 0..self.bins.len());
        let expected = bounds.find(|&i| self.bins.bound(i) > ord.into());
        let expected = expected.unwrap_or(self.bins.len());
        ensure(bin == expected, || {
            format!("document {doc} of key {ord} is in bin {bin}, not in bin {expected}")
        })
    }

    /// A document without one.
    pub(super) fn nothing(&self, doc: u32) -> Result<()> {
        if self.bins.is_empty() {
            return Ok(());
        }
        let (bin, last) = (self.bins.of(doc) as usize, self.bins.len());
        let bound = self.bins.bound(last - 1) == u64::from(self.distinct);
        ensure(bin == last && bound, || format!("document {doc} has no key, but is in bin {bin}"))
    }
}
