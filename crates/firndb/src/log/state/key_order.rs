//! The keys of an ordered store in their order: which sorted sources have them.
//!
//! A sealed segment is covered by a key run, and runs of consecutive segments are merged into
//! longer ones. A segment without a run has a tail in memory. The sources of one moment have an
//! entry for every record that was current then; entries of other records are skipped by scans,
//! which ask the index. A snapshot keeps the sources of its moment.

use crate::log::format::record::Kind;
use crate::log::index::slot::{OFFSETS, RecordLocation};
use crate::log::segments::key_merge::KeyMerge;
use crate::log::segments::key_run_file::{KeyRun, KeyRunIter};
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource};
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::tail::{Tail, TailIter};
use crate::sync::Swap;
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The sources of an open store.
pub(crate) struct KeyOrder {
    sources: Swap<Sources>,
    /// Held while the sources are replaced.
    changing: Mutex<()>,
    /// Held while runs are written.
    pub(crate) working: Mutex<Refused>,
}

/// The segments of the runs for whose merge there was no space on the disk.
pub(crate) type Refused = Vec<(u64, u64)>;

/// The sources at one moment.
#[derive(Default)]
pub(crate) struct Sources {
    /// Ordered by their segments, which do not overlap.
    pub(crate) runs: Vec<Arc<KeyRun>>,
    /// Ordered by segment. The active segment of a store that was opened has two: for the records
    /// from before and for those since.
    pub(crate) tails: Vec<SegmentTail>,
    /// Segments of runs that a reader gave up because they are damaged. It looks for better ones
    /// when it is refreshed.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// Number and slot of the segments, in the order of numbers.
    slots: OnceLock<Box<[(u64, usize)]>>,
}

impl Clone for Sources {
    fn clone(&self) -> Sources {
        let Sources { runs, tails, damaged, slots: _ } = self;
        let (runs, tails, damaged) = (runs.clone(), tails.clone(), damaged.clone());
        Sources { runs, tails, damaged, slots: OnceLock::new() }
    }
}

/// A tail that puts fill, or the first scan that needs it.
#[derive(Default)]
pub(crate) struct LazyTail {
    /// The offset of a damaged record, if there is one in the segment.
    filled: OnceLock<std::result::Result<Tail, u64>>,
    /// Held while a scan fills it, so that others do not do the same.
    filling: Mutex<()>,
    /// Whether puts fill it.
    is_of_puts: bool,
}

impl LazyTail {
    /// An empty tail for puts.
    fn of_puts() -> LazyTail {
        LazyTail { filled: Ok(Tail::default()).into(), is_of_puts: true, ..LazyTail::default() }
    }

    /// The keys, if they are in memory.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Tail> {
        self.filled.get()?.as_ref().ok()
    }
}

/// The tail of a segment.
#[derive(Clone)]
pub(crate) struct SegmentTail {
    pub(crate) segment: Arc<Segment>,
    /// Where the records end that the tail is filled with.
    pub(crate) end: u64,
    pub(crate) tail: Arc<LazyTail>,
}

/// A source of a scan.
pub(crate) type ScanMerge = KeyMerge<Source>;

impl KeyOrder {
    pub(crate) fn new(sources: Sources) -> KeyOrder {
        let (changing, working) = Default::default();
        KeyOrder { sources: Swap::from_pointee(sources), changing, working }
    }

    /// The sources as they are now. Exact for the holder of the writer's lock.
    pub(crate) fn sources(&self) -> Arc<Sources> {
        self.sources.load_full()
    }

    /// Adds a segment that begins now. Returns the tail for its records.
    pub(crate) fn begin(&self, segment: &Arc<Segment>) -> Arc<LazyTail> {
        let tail = Arc::new(LazyTail::of_puts());
        let (segment, its) = (Arc::clone(segment), Arc::clone(&tail));
        self.change(|sources| sources.tails.push(SegmentTail { segment, end: 0, tail: its }));
        tail
    }

    /// Forgets the tails of a segment that is no longer part of the store.
    pub(crate) fn forget(&self, number: u64) {
        self.change(|sources| sources.tails.retain(|tail| tail.segment.number != number));
    }

    /// Replaces the tails of a segment by its run.
    pub(crate) fn add_run(&self, run: Arc<KeyRun>) {
        self.change(|sources| {
            let (first, last) = (run.meta.first, run.meta.last);
            sources.tails.retain(|tail| !(first..=last).contains(&tail.segment.number));
            let at = sources.runs.partition_point(|other| other.meta.first < first);
            sources.runs.insert(at, run);
        });
    }

    /// Frees the memory of the tails of these segments, which are full. Tails that are filled when
    /// they are needed replace them.
    pub(crate) fn empty_tails(&self, numbers: RangeInclusive<u64>) {
        self.change(|sources| {
            let is_full = |tail: &&SegmentTail| numbers.contains(&tail.segment.number);
            let full = sources.tails.iter().filter(is_full).filter(|tail| tail.is_filled());
            let full: BTreeMap<u64, SegmentTail> =
                full.map(|tail| (tail.segment.number, SegmentTail::of(&tail.segment))).collect();
            sources.tails.retain(|tail| !full.contains_key(&tail.segment.number));
            sources.tails.extend(full.into_values());
            sources.tails.sort_by_key(|tail| tail.segment.number);
        });
    }

    /// Replaces runs by the one that they were merged into.
    pub(crate) fn replace_runs(&self, old: &[Arc<KeyRun>], new: Arc<KeyRun>) {
        self.change(|sources| {
            let is_old = |run: &Arc<KeyRun>| old.iter().any(|other| Arc::ptr_eq(run, other));
            sources.runs.retain(|run| !is_old(run));
            let at = sources.runs.partition_point(|other| other.meta.first < new.meta.first);
            sources.runs.insert(at, new);
        });
    }

    /// Replaces runs by tails of those of these segments that they covered.
    pub(crate) fn give_up(&self, damaged: &[Arc<KeyRun>], segments: &[Arc<Segment>]) {
        self.change(|sources| {
            let is_damaged = |run: &Arc<KeyRun>| damaged.iter().any(|its| Arc::ptr_eq(run, its));
            sources.runs.retain(|run| !is_damaged(run));
            let covered = |segment: &&Arc<Segment>| {
                let covers =
                    |run: &Arc<KeyRun>| (run.meta.first..=run.meta.last).contains(&segment.number);
                damaged.iter().any(covers)
            };
            let new = segments.iter().filter(covered).map(SegmentTail::of);
            sources.tails.extend(new);
            sources.tails.sort_by_key(|tail| tail.segment.number);
        });
    }

    /// Replaces damaged runs of a reader by tails of those of these segments that they covered. No
    /// refresh changes the segments meanwhile.
    pub(crate) fn give_up_in_reader(&self, segments: &[Arc<Segment>]) {
        self.change(|sources| {
            let followed = sources.followed_by(sources.intact_runs(), segments);
            // It reads no records of tails that are as long as before.
            followed.into_iter().for_each(|followed| *sources = followed);
        });
    }

    /// Replaces all sources.
    pub(crate) fn store(&self, sources: Sources) {
        self.change(|old| *old = sources);
    }

    fn change(&self, change: impl FnOnce(&mut Sources)) {
        let _one_at_a_time = lock(&self.changing);
        let mut sources = Sources::clone(&self.sources.load());
        change(&mut sources);
        self.sources.store(Arc::new(sources));
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sources {
    /// The sources of a store whose other segments have these runs.
    pub(crate) fn of(runs: Vec<Arc<KeyRun>>, segments: &[Arc<Segment>]) -> Sources {
        let mut sources = Sources { runs, ..Sources::default() };
        for segment in segments {
            if sources.has_run(segment.number) {
                continue;
            }
            sources.tails.push(SegmentTail::of(segment));
        }
        sources
    }

    /// The runs in which no damage was found.
    pub(crate) fn intact_runs(&self) -> Vec<Arc<KeyRun>> {
        self.runs.iter().filter(|run| !run.is_damaged()).cloned().collect()
    }

    /// The sources of a reader after a refresh, which has these runs and segments now. Tails that
    /// are filled are kept, and get the keys of new records.
    pub(crate) fn followed_by(
        &self,
        runs: Vec<Arc<KeyRun>>,
        segments: &[Arc<Segment>],
    ) -> Result<Sources> {
        let mut sources = Sources::of(runs, segments);
        for new in &mut sources.tails {
            let number = new.segment.number;
            let at = self.tails.partition_point(|old| old.segment.number < number);
            let Some(old) = self.tails.get(at).filter(|old| old.segment.number == number) else {
                continue;
            };
            if old.end < new.end {
                // Asked once: another thread may fill it now, without the new keys.
                let Some(tail) = old.tail.get() else { continue };
                let contents = new.segment.contents()?;
                add_keys(tail, &new.segment, &contents, (old.end, new.end))?;
            }
            new.tail = Arc::clone(&old.tail);
        }
        let damaged = self.runs.iter().filter(|run| run.is_damaged());
        let damaged = damaged.map(|run| (run.meta.first, run.meta.last));
        let mut damaged: Vec<_> = self.damaged.iter().copied().chain(damaged).collect();
        damaged.retain(|&(first, _)| !sources.has_run(first));
        sources.damaged = damaged;
        Ok(sources)
    }

    /// The same for a forked child, with these segments. A thread of the parent may have held a
    /// lock of a tail at the time of the fork, so the child fills tails of its own.
    pub(crate) fn of_child(&self, segments: &[Arc<Segment>]) -> Sources {
        Sources::of(self.runs.clone(), segments)
    }

    /// Whether a run covers the segment of this number.
    pub(crate) fn has_run(&self, number: u64) -> bool {
        let at = self.runs.partition_point(|run| run.meta.last < number);
        self.runs.get(at).is_some_and(|run| run.meta.first <= number)
    }

    /// All entries from a bound on.
    pub(crate) fn scan(&self, bound: Bound<&[u8]>, direction: Direction) -> Result<ScanMerge> {
        let mut all = Vec::with_capacity(self.runs.len() + 4 * self.tails.len());
        for run in &self.runs {
            all.push(Source::Run(run.seek(bound, direction)?));
        }
        for tail in &self.tails {
            all.extend(tail.seek(bound, direction)?.into_iter().map(Source::Tail));
        }
        Ok(KeyMerge::new(all, direction))
    }

    /// Where the record of an entry is, in the segment table that belongs to these sources; `None`
    /// if its segment is gone.
    pub(crate) fn location(
        &self,
        table: &SegmentTable<Segment>,
        entry: KeyEntry<'_>,
    ) -> Option<RecordLocation> {
        let slots = self.slots.get_or_init(|| {
            let mut slots: Vec<(u64, usize)> =
                table.iter().map(|segment| (segment.number, segment.slot)).collect();
            slots.sort_unstable();
            slots.into()
        });
        let at = slots.binary_search_by_key(&entry.segment, |slot| slot.0).ok()?;
        let slot = slots[at].1;
        let is_same = table.get(slot).is_some_and(|segment| segment.number == entry.segment);
        (is_same && entry.offset < OFFSETS).then(|| RecordLocation::new(slot, entry.offset))
    }
}

impl SegmentTail {
    /// The tail of the records that a segment has now.
    fn of(segment: &Arc<Segment>) -> SegmentTail {
        let (segment, tail) = (Arc::clone(segment), Arc::default());
        SegmentTail { end: segment.end(), segment, tail }
    }

    /// Whether the keys are in memory.
    pub(crate) fn is_filled(&self) -> bool {
        self.tail.get().is_some()
    }

    /// Whether puts filled it.
    pub(crate) fn is_of_puts(&self) -> bool {
        self.tail.is_of_puts
    }

    /// Bytes of memory; 0 if it is not filled.
    pub(crate) fn memory(&self) -> u64 {
        self.tail.get().map_or(0, |tail| tail.memory() as u64)
    }

    /// The entries from a bound on, in a few parts.
    pub(crate) fn seek(
        &self,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Vec<TailIter<Segment>>> {
        let (segment, number) = (&self.segment, self.segment.number);
        // Records appended later belong to no snapshot that is using the tail now.
        let end = segment.align(segment.end()) >> segment.alignment_log2;
        self.tail()?.seek(segment, number, end, bound, direction)
    }

    /// The tail, filled. `Corrupt` if a record of the segment is damaged.
    fn tail(&self) -> Result<&Tail> {
        let LazyTail { filled, filling, .. } = &*self.tail;
        let filled = match filled.get() {
            Some(filled) => filled,
            None => {
                let _one_at_a_time = lock(filling);
                match filled.get() {
                    Some(filled) => filled,
                    None => {
                        let found = self.fill()?;
                        filled.get_or_init(|| found)
                    }
                }
            }
        };
        filled.as_ref().map_err(|&offset| self.segment.damage(offset))
    }

    /// A tail of the segment's records; the offset of the first damaged one, if there is one.
    fn fill(&self) -> Result<std::result::Result<Tail, u64>> {
        let (tail, contents) = (Tail::default(), self.segment.contents()?);
        match add_keys(&tail, &self.segment, &contents, (0, self.end)) {
            Err(e) if e.kind() == ErrorKind::Corrupt => Ok(Err(e.offset().unwrap_or(0))),
            added => added.map(|()| Ok(tail)),
        }
    }
}

/// Adds the keys of the puts between two bytes of a segment with these contents.
fn add_keys(tail: &Tail, segment: &Segment, contents: &[u8], (from, to): (u64, u64)) -> Result<()> {
    let bytes = contents.get(..to as usize).unwrap_or(contents);
    for item in segment.records_from(bytes, from) {
        let (offset, record, _) = item?;
        if record.kind == Kind::Put {
            tail.push(record.key, (offset >> segment.alignment_log2) as u32);
        }
    }
    Ok(())
}

/// A sorted source of entries.
#[expect(clippy::large_enum_variant, reason = "a scan has 10 to 40 of them")]
pub(crate) enum Source {
    Run(KeyRunIter),
    Tail(TailIter<Segment>),
}

impl KeySource for Source {
    #[inline]
    fn current(&self) -> Option<KeyEntry<'_>> {
        match self {
            Source::Run(run) => run.current(),
            Source::Tail(tail) => tail.current(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Run(run) => run.advance(),
            Source::Tail(tail) => tail.advance(),
        }
    }
}
