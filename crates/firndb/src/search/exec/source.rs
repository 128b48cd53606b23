//! The documents of a clause: what the planner knows of postings.
//!
//! A clause chooses its source once per partition. From then on the planner compares the costs of
//! sources, and all documents are iterated over, put into bitsets and counted through sources.
//!
//! Costs are in tenths of a nanosecond on one core of a 2020s server, measured with warm caches;
//! only their ratios matter. They are multiplied by counts that are exact or upper bounds, never by
//! estimates.

use crate::Result;
use crate::bytes::packed::Packed;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::points::{Points, Window};
use crate::search::exec::scratch::Scratch;
use crate::search::format::Ordered;
use crate::search::partition::Partition;
use crate::search::simd::kernels;
use crate::search::simd::scan::{self, OrdinalSet};

/// Decoding one list entry.
const DECODE: u64 = 10;
/// Reading the ordinal of one document from a column.
pub(crate) const GATHER: u64 = 20;
/// Testing one bit of a bitset.
const PROBE: u64 = 10;
/// Combining one word of a bitset.
const WORD: u64 = 2;

/// What a clause is about, before a source is chosen for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Documents with an ordinal in `scratch.intervals[first..last]`.
    Ordinals { field: usize, first: usize, last: usize, multi: bool },
    /// Documents whose point over two fields is in a window.
    Window { pair: [usize; 2], window: Window },
    /// The documents `first..last`.
    Documents(u32, u32),
    /// Documents in a bitset of the scratch.
    Bits(usize),
}

/// In which order iteration over a source yields documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkOrder {
    /// Each document once, in ascending order.
    Ascending,
    /// Each document once, in any order.
    Distinct,
    /// The clause cannot lead: iteration would yield duplicates, or the clause is negated or a
    /// bitset.
    Unsupported,
}

impl WalkOrder {
    /// Whether a clause of this order can lead, given whether documents must ascend.
    pub(crate) fn leads(self, ascending: bool) -> bool {
        self == WalkOrder::Ascending || (self == WalkOrder::Distinct && !ascending)
    }
}

/// Where the documents of a clause come from, before negation.
pub(crate) struct Source<'p> {
    part: &'p Partition,
    pub(crate) access: Access<'p>,
    /// Cost of adding all documents to a bitset, without a pass over its words.
    cost: u64,
    /// Whether that takes less for a window, in proportion to its size.
    is_divisible: bool,
}

/// The ways to reach documents.
pub(crate) enum Access<'p> {
    /// The documents `first..last`.
    Documents(u32, u32),
    /// A bitset of the scratch.
    Bits(usize),
    /// A bitset of the file, of a single key.
    Bitset(Bitset<'p>),
    /// A scan of the column for some ordinals: some of their documents are in no list, or reading
    /// the lists costs more.
    Scan(Packed<'p>, OrdinalSet),
    /// Points in a window.
    Points(Points<'p>, Window),
    /// The postings of the ordinals in `scratch.intervals[first..last]`. They are opened when they
    /// are used: the first time that reads them all, to verify their checksum.
    Lists { field: usize, first: usize, last: usize, multi: bool },
}

impl<'p> Source<'p> {
    /// Chooses the source of a clause that `count` documents satisfy.
    pub(crate) fn new(
        form: Form,
        count: u64,
        part: &'p Partition,
        scratch: &Scratch,
    ) -> Result<Source<'p>> {
        let source = |access, cost| Source { part, access, cost, is_divisible: false };
        Ok(match form {
            Form::Documents(first, last) => source(Access::Documents(first, last), 0),
            Form::Bits(number) => source(Access::Bits(number), 0),
            Form::Window { pair, window } => match part.points(pair[0])? {
                Some((points, _)) => source(Access::Points(points, window), points.cost(count)),
                None => source(Access::Documents(0, 0), 0),
            },
            Form::Ordinals { field, first, last, multi } => {
                let intervals = &scratch.intervals[first..last];
                let single = matches!(intervals, [(start, end)] if *end == start + 1);
                let has_special_forms = part.meta(field).special_forms > 0;
                if single && has_special_forms {
                    let (postings, (start, end)) = (part.postings(field)?, intervals[0]);
                    if let Some(bitset) = postings.bitset(&postings.range(start, end)) {
                        return Ok(source(Access::Bitset(bitset), bitset.words() * WORD));
                    }
                }
                let (scan, cost) = scan(part, field, intervals, count)?;
                let is_divisible = scan.is_some() || (single && !has_special_forms);
                let access = match scan {
                    Some((column, ordinals)) => Access::Scan(column, ordinals),
                    None => Access::Lists { field, first, last, multi },
                };
                Source { part, access, cost, is_divisible }
            }
        })
    }

    /// Whether a scan of a column finds the documents.
    pub(crate) fn is_scan(&self) -> bool {
        matches!(self.access, Access::Scan(..))
    }

    /// The bitset of the file that the source is, if any.
    pub(crate) fn mapped(&self) -> Option<Bitset<'p>> {
        match self.access {
            Access::Bitset(bitset) => Some(bitset),
            _ => None,
        }
    }

    /// The share of the partition's documents that is in a window.
    fn share(&self, window: (u32, u32)) -> f64 {
        f64::from(window.1 - window.0) / f64::from(self.part.documents.max(1))
    }

    /// Cost of a bitset of the documents in a window.
    pub(crate) fn fill_cost(&self, window: (u32, u32)) -> u64 {
        let words = self.part.words() as u64 * WORD;
        match self.is_divisible {
            true => (self.cost as f64 * self.share(window)) as u64 + words,
            false => self.cost + words,
        }
    }

    /// Cost of combining the documents in a window with a bitset, which includes making a bitset of
    /// them unless the file has one.
    pub(crate) fn mask_cost(&self, window: (u32, u32)) -> u64 {
        match self.access {
            Access::Bitset(bitset) => (bitset.words() as f64 * self.share(window)) as u64 * WORD,
            _ => self.fill_cost(window),
        }
    }

    /// Cost of iterating over `docs` documents in a `share` of the partition.
    pub(crate) fn walk_cost(&self, docs: f64, share: f64) -> u64 {
        let scan = if self.is_scan() { self.cost } else { 0 };
        (scan as f64 * share + docs * DECODE as f64) as u64
    }

    /// Cost of testing one document; `None` if that needs a bitset made of the source.
    pub(crate) fn check_cost(&self) -> Option<u64> {
        match self.access {
            Access::Documents(..) => Some(PROBE / 2),
            Access::Bits(_) | Access::Bitset(_) => Some(PROBE),
            _ => None,
        }
    }

    /// In which order iteration yields documents.
    pub(crate) fn order(&self, scratch: &Scratch, negate: bool) -> Result<WalkOrder> {
        Ok(match self.access {
            Access::Scan(..) => WalkOrder::Ascending,
            _ if negate => WalkOrder::Unsupported,
            Access::Documents(..) | Access::Bitset(_) => WalkOrder::Ascending,
            Access::Points(..) => WalkOrder::Distinct,
            Access::Bits(_) => WalkOrder::Unsupported,
            Access::Lists { field, first, last, multi } => {
                let sorted = match scratch.intervals[first..last] {
                    [(start, end)] => self.part.postings(field)?.range(start, end).sorted,
                    _ => false,
                };
                match (sorted, multi) {
                    (true, _) => WalkOrder::Ascending,
                    (false, false) => WalkOrder::Distinct,
                    (false, true) => WalkOrder::Unsupported,
                }
            }
        })
    }

    /// Overwrites a bitset with the documents. Bits outside the window may be missing.
    pub(crate) fn fill(
        &self,
        scratch: &Scratch,
        window: (u32, u32),
        bits: &mut [u64],
    ) -> Result<()> {
        bits.fill(0);
        match &self.access {
            Access::Documents(first, last) => kernels::set_range(bits, *first, *last),
            Access::Bits(number) => kernels::or(bits, scratch.bits(*number)),
            Access::Bitset(bitset) => bitset.or(bits),
            Access::Scan(column, ordinals) => {
                let to = (window.1 as usize).div_ceil(64).min(bits.len());
                let from = (window.0 as usize / 64).min(to);
                scan::fill(*column, ordinals, from, &mut bits[from..to]);
            }
            Access::Points(points, window) => points.add(*window, bits),
            Access::Lists { field, first, last, .. } => {
                let postings = self.part.postings(*field)?;
                for &(start, end) in &scratch.intervals[*first..*last] {
                    let range = postings.range(start, end);
                    let all = window == (0, self.part.documents);
                    postings.add(if all { range } else { postings.within(range, window) }, bits);
                }
            }
        }
        Ok(())
    }

    /// Whether [`Source::count_in`] gives a count.
    pub(crate) fn is_countable(&self) -> bool {
        match self.access {
            Access::Scan(..) => true,
            Access::Lists { first, last, multi, .. } => last == first + 1 && !multi,
            _ => false,
        }
    }

    /// The number of documents in a bitset that are (negated: are not) among those of the source,
    /// counted without making a bitset of these; `None` if that is not possible.
    pub(crate) fn count_in(
        &self,
        scratch: &Scratch,
        negate: bool,
        bits: &[u64],
    ) -> Result<Option<u64>> {
        Ok(match &self.access {
            Access::Scan(column, ordinals) => {
                Some(scan::count(*column, &signed(ordinals, negate), bits))
            }
            Access::Lists { field, first, .. } if self.is_countable() => {
                let (start, end) = scratch.intervals[*first];
                let count = self.part.postings(*field)?.count_in(start, end, bits);
                Some(if negate { kernels::count(bits).saturating_sub(count) } else { count })
            }
            _ => None,
        })
    }
}

/// The ordinals, or all others, which include that of documents without a value.
pub(crate) fn signed(ordinals: &OrdinalSet, negate: bool) -> OrdinalSet {
    if negate { ordinals.complement() } else { ordinals.clone() }
}

/// The column to scan for some ordinals and the cost of the scan; or no column, if lists have all
/// documents and cost less, and the cost of these.
fn scan<'p>(
    part: &'p Partition,
    field: usize,
    intervals: &[(u32, u32)],
    count: u64,
) -> Result<(Option<(Packed<'p>, OrdinalSet)>, u64)> {
    let column = part.scanned(field)?;
    let lists = || lists_cost(part, field, intervals, count, column.is_some());
    // The ordinals of an ordered field are ranges of documents: they need no scan.
    let Some(column) = column.filter(|_| part.meta(field).ordered == Ordered::No) else {
        return Ok((None, lists()?));
    };
    let ordinals = OrdinalSet::new(intervals, column.raw().1);
    let pass = part.words() as u64 * scan::cost_of(column, &ordinals);
    let postings = part.postings(field)?;
    let listed = !intervals.iter().any(|&(start, end)| postings.is_scanned(start, end));
    Ok(match listed.then(lists).transpose()? {
        Some(cost) if cost <= pass => (None, cost),
        _ => (Some((column, ordinals)), pass),
    })
}

/// Cost of adding the documents of some ordinals to a bitset from their lists. The choice between
/// lists and a scan (`scannable`) justifies reading the size of each list.
fn lists_cost(
    part: &Partition,
    field: usize,
    intervals: &[(u32, u32)],
    count: u64,
    scannable: bool,
) -> Result<u64> {
    let cost = match part.points(field)? {
        Some((points, _)) => points.cost(count),
        None if scannable => {
            let postings = part.postings(field)?;
            let work = intervals.iter().map(|&(start, end)| postings.work(start, end));
            return Ok(work.map(|(entries, words)| entries * DECODE + words * WORD).sum());
        }
        None => count * DECODE,
    };
    Ok(match part.meta(field).special_forms {
        0 => cost,
        _ => cost.min(part.words() as u64 * WORD * 8 + cost / 2),
    })
}

/// The number of list entries whose decoding costs as much as one scan of a column of this width.
pub(crate) fn pass(part: &Partition, bits: u8) -> u64 {
    part.words() as u64 * scan::cost(bits.into()) / DECODE
}

/// Cost of decoding a list of this many documents and testing each by a column.
pub(crate) fn cost_of_list(documents: u64) -> u64 {
    documents.saturating_mul(DECODE + GATHER)
}
