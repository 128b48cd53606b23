//! Reads the sections of a field sequentially: documents by key, and values by document. This code
//! is independent of what queries use, so that a bug in one does not hide a bug in the other.

use super::field::FieldCheck;
use super::{ensure, within};
use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::monotonic::Monotonic;
use crate::bytes::packed::Packed;
use crate::search::codec::column::Column;
use crate::search::codec::postings::build::{IN_COLUMN, SPECIAL_FORM};
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::format::{Ordered, part};
use crate::{Error, Result};

/// Reads the postings of a field, one key after another.
pub(crate) struct Lists<'p> {
    ordered: Ordered,
    present: u64,
    documents: usize,
    slices: Slices<'p>,
    special_forms: &'p [u8],
    count: usize,
    /// The number of special forms already read, and of their documents.
    next: usize,
    removed: u64,
    bitsets: Area<'p>,
    runs: Area<'p>,
    /// The documents of each key according to the column, if some keys are only there.
    in_column: InColumn,
    /// The ordinals without lists.
    scanned: (u32, u32),
}

impl<'p> Lists<'p> {
    pub(crate) fn new(check: &'p FieldCheck) -> Result<Lists<'p>> {
        let (meta, count) = (check.meta, check.meta.special_forms as usize);
        let special_forms = check.bytes(part::SPECIAL_FORMS)?;
        let size = if count > 0 { (count + 1) * SPECIAL_FORM } else { 0 };
        ensure(special_forms.len() == size, || "its special forms have a wrong size".into())?;
        let removed = u64_at(special_forms, count * SPECIAL_FORM + 16);
        let slices = if meta.has_lists() {
            let too_many = || Error::corrupt("it has more special forms than postings");
            let (first, end) = (meta.scanned.0 as usize, meta.scanned.1 as usize);
            let offsets = check.part.offsets(check.i)?;
            let removed = removed + offsets.get(end).saturating_sub(offsets.get(first));
            let len = meta.postings.checked_sub(removed).ok_or_else(too_many)?;
            Slices::new(check, len as usize)?
        } else {
            Slices::Whole { numbers: Packed::new(&[0; 8], 0, 0)?, at: 0 }
        };
        Ok(Lists {
            ordered: meta.ordered,
            present: meta.present.into(),
            documents: check.part.documents as usize,
            slices,
            special_forms,
            count,
            next: 0,
            removed: 0,
            bitsets: Area { bytes: check.bytes(part::BITSETS)?, read: 0 },
            runs: Area { bytes: check.bytes(part::RUNS)?, read: 0 },
            in_column: InColumn::new(check, special_forms)?,
            scanned: meta.scanned,
        })
    }

    /// Visits the documents of the next key, whose postings are `low..high` according to the
    /// offsets.
    pub(crate) fn each(
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
        let entry = self.next * SPECIAL_FORM;
        if self.next == self.count || u32_at(self.special_forms, entry) != ord {
            let cut = || format!("the slice of key {ord} is cut");
            return self.slices.each((high - low) as usize, cut, visit);
        }
        let (removed, says) = (self.removed, u64_at(self.special_forms, entry + 16));
        ensure(removed == says, || {
            format!("special forms before key {ord} have {removed} documents, not {says}")
        })?;
        self.removed += high - low;
        self.next += 1;
        let runs = u32_at(self.special_forms, entry + 4) as usize;
        let offset = u64_at(self.special_forms, entry + 8) as usize;
        if runs == IN_COLUMN as usize {
            ensure(offset == 0, || format!("key {ord} is in the column at offset {offset}"))?;
            return self.in_column.of(ord).iter().try_for_each(|&doc| visit(doc));
        }
        let is_runs = runs != 0;
        let Area { bytes: area, read } = if is_runs { &mut self.runs } else { &mut self.bitsets };
        ensure(offset == *read, || format!("key {ord} is at offset {offset}, not at {read}"))?;
        let size = if is_runs { runs * 8 } else { self.documents.div_ceil(64) * 8 };
        *read += size;
        let bytes = area.get(offset..*read).ok_or_else(|| {
            Error::corrupt(format!("the bitset or the runs of key {ord} are not in their section"))
        })?;
        if !is_runs {
            return each_bit(bytes, visit);
        }
        bytes.chunks(8).try_for_each(|run| {
            let (first, len) = (u64::from(u32_at(run, 0)), u64::from(u32_at(run, 4)));
            (first..first + len).try_for_each(|doc| visit(doc.min(u32::MAX.into()) as u32))
        })
    }

    /// Checks that everything has been read.
    pub(crate) fn finish(self) -> Result<()> {
        let (next, end) = (self.next, self.count * SPECIAL_FORM);
        let sentinel = self.count == 0
            || (u32_at(self.special_forms, end), u64_at(self.special_forms, end + 16))
                == (u32::MAX, self.removed);
        ensure(next == self.count && sentinel, || {
            format!("of {} special forms {next} are in the order of the keys", self.count)
        })?;
        let ends = [self.bitsets, self.runs].iter().all(|area| area.read == area.bytes.len());
        ensure(ends, || "its bitsets or runs go on behind the last".into())?;
        self.slices.finish()
    }
}

/// A section of consecutive bitsets or runs, and the number of bytes already read.
struct Area<'p> {
    bytes: &'p [u8],
    read: usize,
}

/// The documents of each key according to the column of a field.
#[derive(Default)]
struct InColumn {
    /// The documents of key o are `docs[ends[o]..ends[o + 1]]`, ascending.
    ends: Vec<u32>,
    docs: Vec<u32>,
}

impl InColumn {
    /// Empty unless the field is scanned or a special form refers to the column.
    fn new(check: &FieldCheck, special_forms: &[u8]) -> Result<InColumn> {
        let mut entries = special_forms.chunks_exact(SPECIAL_FORM);
        if !check.meta.is_scanned() && !entries.any(|entry| u32_at(entry, 4) == IN_COLUMN) {
            return Ok(InColumn::default());
        }
        let column = check.part.scanned(check.i)?;
        let column =
            column.ok_or_else(|| Error::corrupt("it has no column that can be scanned"))?;
        let ords = (0..check.part.documents).map(|doc| column.get(doc as usize));
        // A single-valued field has no more keys than documents, but a corrupt file may claim more.
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

/// Reads the slices of a field, one key after another.
enum Slices<'p> {
    /// Fixed-width documents; `at` entries have been read.
    Whole { numbers: Packed<'p>, at: usize },
    /// Elias-Fano lists; `key` lists, the bytes before `at`, have been read.
    Divided { lists: &'p [u8], places: Monotonic<'p>, documents: usize, key: usize, at: usize },
}

impl<'p> Slices<'p> {
    /// `len` is the expected number of entries.
    fn new(check: &'p FieldCheck, len: usize) -> Result<Slices<'p>> {
        let (bytes, bits) = (check.bytes(part::SLICES)?, check.meta.slice_bits);
        if bits != ELIAS_FANO {
            let numbers = Packed::new(bytes, bits, len).map_err(|e| within("slices", e))?;
            return Ok(Slices::Whole { numbers, at: 0 });
        }
        let scanned = (check.meta.scanned.1 - check.meta.scanned.0) as usize;
        let keys = (check.meta.distinct as usize)
            .checked_sub(check.meta.special_forms as usize + scanned)
            .filter(|keys| *keys > 0)
            .ok_or_else(|| Error::corrupt("it has divided lists, but no key has one"))?;
        let places = Monotonic::new(check.bytes(part::LIST_OFFSETS)?, keys + 1)
            .and_then(|places| places.verify().map(|()| places))
            .map_err(|e| within("places", e))?;
        let documents = check.part.documents as usize;
        Ok(Slices::Divided { lists: bytes, places, documents, key: 0, at: 0 })
    }

    /// Visits the `len` documents of the next key; `cut` is the message if there are fewer.
    fn each(
        &mut self,
        len: usize,
        cut: impl Fn() -> String,
        mut visit: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let (lists, documents, at) = match self {
            Slices::Whole { numbers, at } => {
                let start = *at;
                *at += len;
                ensure(*at <= numbers.len(), cut)?;
                return (start..*at).try_for_each(|i| visit(numbers.get(i)));
            }
            Slices::Divided { lists, places, documents, key, at } => {
                let fits = *key + 1 < places.len() && places.get(*key) == *at as u64;
                ensure(fits && u32_at(lists, *at) as usize == len, &cut)?;
                *key += 1;
                (*lists, *documents, at)
            }
        };
        // The number of low bits is floor(log2(documents / len)).
        let low = (documents / len.max(1)).max(1).ilog2() as usize;
        let lows = *at + 4;
        let highs = lows + (len * low).div_ceil(8);
        *at = highs + (len + documents.div_ceil(1 << low)).div_ceil(8);
        ensure(*at + 8 <= lists.len(), &cut)?;
        let bit = |bit: usize| usize::from(lists[bit / 8] >> (bit % 8) & 1);
        let mut entry = 0;
        for high in highs * 8..*at * 8 {
            if bit(high) == 0 {
                continue;
            }
            ensure(entry < len, || format!("{}: there are more", cut()))?;
            let bucket = high - highs * 8 - entry;
            let number = |sum, i| sum | bit(lows * 8 + entry * low + i) << i;
            visit((bucket << low | (0..low).fold(0, number)) as u32)?;
            entry += 1;
        }
        let rest = (lows * 8 + len * low..highs * 8).find(|&at| bit(at) != 0);
        ensure(entry == len && rest.is_none(), cut)
    }

    /// Checks that nothing follows.
    fn finish(self) -> Result<()> {
        match self {
            Slices::Whole { numbers, at } => ensure(at == numbers.len(), || {
                let all = numbers.len();
                format!("{at} of the {all} documents in its slices belong to a key")
            }),
            Slices::Divided { lists, places, key, at, .. } => {
                let ends = key + 1 == places.len() && places.get(key) == at as u64;
                ensure(ends && lists[at..] == [0; 8], || {
                    format!("its lists end at {}, not at {at}", lists.len())
                })
            }
        }
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

/// Compares the column of a field with its postings, which are passed in by key.
pub(crate) enum ColumnCheck<'p> {
    /// The field has no column.
    None,
    Single {
        ords: Packed<'p>,
        distinct: u32,
    },
    Multi {
        starts: Monotonic<'p>,
        ords: Packed<'p>,
        /// For each document, the entry to compare next.
        next: Vec<u32>,
    },
}

impl<'p> ColumnCheck<'p> {
    pub(crate) fn new(check: &'p FieldCheck) -> Result<ColumnCheck<'p>> {
        let meta = check.meta;
        if meta.column_bits.is_none() {
            return Ok(ColumnCheck::None);
        }
        Ok(match check.part.column(check.i)? {
            Some(Column::Single(ords)) => ColumnCheck::Single { ords, distinct: meta.distinct },
            Some(Column::Multi { starts, ords }) => {
                check_starts(&starts, meta.postings)?;
                let first = |doc: u32| (starts.get(doc as usize) - u64::from(doc)) as u32;
                let next = (0..check.part.documents).map(first).collect();
                ColumnCheck::Multi { starts, ords, next }
            }
            _ => ColumnCheck::None,
        })
    }

    /// Checks the next posting against the column.
    pub(crate) fn posting(&mut self, ord: u32, doc: u32) -> Result<()> {
        let d = doc as usize;
        let there = match self {
            ColumnCheck::None => true,
            ColumnCheck::Single { ords, .. } => ords.get(d) == ord,
            ColumnCheck::Multi { starts, ords, next } => {
                let at = next[d];
                next[d] += 1;
                let end = starts.get(d + 1) - u64::from(doc) - 1;
                u64::from(at) < end && ords.get(at as usize) == ord
            }
        };
        ensure(there, || format!("document {doc} has key {ord}, but not in the column"))
    }

    /// Checks that a document without postings has no value in the column. A multi-valued column
    /// needs no check: it has as many entries as there are postings, and each posting has matched
    /// one.
    pub(crate) fn no_posting(&self, doc: u32) -> Result<()> {
        let ColumnCheck::Single { ords, distinct } = self else { return Ok(()) };
        let ord = ords.get(doc as usize);
        ensure(ord == *distinct, || format!("document {doc} has key {ord} in the column alone"))
    }
}

/// The value lists of documents are contiguous and cover all postings.
pub(crate) fn check_starts(starts: &Monotonic, postings: u64) -> Result<()> {
    starts.verify().map_err(|e| within("starts", e))?;
    let documents = starts.len() as u64 - 1;
    let (first, last) = (starts.get(0), starts.get(documents as usize));
    ensure(first == 0 && last.checked_sub(documents) == Some(postings), || {
        format!("its starts go from {first} to {last}, not from 0 to {postings} + {documents}")
    })
}
