//! Reading a checkpoint and loading it into the index: see `format/checkpoint.rs`.

use crate::disk::Disk;
use crate::disk::envelope::Kind;
use crate::log::format::checkpoint::{BITS, Checkpoint, CoveredSegment, META};
use crate::log::format::hint_entries::{Entries, Iter};
use crate::log::format::names::CHECKPOINT;
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::log::index::sorted_entries::SortedEntries;
use crate::log::index::writer::IndexWriter;
use crate::log::options::Access;
use crate::log::segments::segment::Segment;
use crate::log::state::lookup::index_full;
use crate::{Error, Result};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

/// Threads load ranges of hashes, each with about this many entries, which stay in the cache while
/// they are sorted. In tests a store of 100,000 keys has several ranges per thread.
const RANGE: u64 = if cfg!(test) { 1 << 14 } else { 1 << 17 };
/// The largest number of threads that read. More would wait for the one that fills the index.
const THREADS: usize = 8;
/// Below this many bytes of bits, ranges and threads are not worth it.
const SMALL: usize = 4096;

/// Opens the checkpoint of a directory. A reader next to a writer must open it before the segments:
/// a bit may be clear because of a record that was written later.
pub(crate) fn open(disk: &dyn Disk, access: Access, dir: &Path) -> Result<Checkpoint> {
    let path = dir.join(CHECKPOINT);
    let file = access.open(disk, &path, Kind::LogCheckpoint)?;
    let section = |id: u32| -> Result<&[u8]> {
        let at = file.find(id).ok_or_else(|| Error::corrupt("a section is missing"))?;
        file.section(at)
    };
    Checkpoint::decode(section(META)?, section(BITS)?).map_err(|e| e.in_file(&path))
}

/// Puts the live entries of these segments into the index. `Corrupt` if a segment has no hint, or
/// one that does not match the checkpoint.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    segments: &[Arc<Segment>],
    index: &Index,
    writer: &mut IndexWriter,
) -> Result<()> {
    let mut sources = Vec::new();
    for segment in segments {
        let (Some(covered), Some(hint)) =
            (checkpoint.segments.get(&segment.number), segment.hint.get())
        else {
            return Err(Error::corrupt("a segment of the checkpoint has no hint"));
        };
        let puts = hint.puts()?;
        if puts.len() != covered.entries || covered.live_bytes > hint.meta.put_bytes {
            return Err(Error::corrupt("a hint and the checkpoint disagree"));
        }
        sources.push(Source { slot: segment.slot, puts, covered });
    }
    if checkpoint.size() < SMALL {
        let mut all = Reader::new(checkpoint, &sources, 0);
        let sorted = SortedEntries::new(index, &all.entries_up_to(u64::MAX));
        return writer.fill(index, &sorted).map_err(|_| index_full());
    }
    let live = |source: &Source| checkpoint.count(source.covered) as u64;
    let entries: u64 = sources.iter().map(live).sum();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS) as u64;
    // There are at most as many ranges as shards: a range begins and ends with one.
    let ranges = (entries / RANGE).max(threads).next_power_of_two();
    let bits = ranges.ilog2().min(index.pages.base());
    std::thread::scope(|scope| {
        // One thread prepares memory, others read and sort, and this one fills the index.
        scope.spawn(|| index.pages.prepare_for(entries));
        let (send, receive) = std::sync::mpsc::sync_channel(4);
        for thread in 0..threads {
            let part = |thread: u64| (thread << bits) / threads;
            let (mut ranges, send) = (part(thread)..part(thread + 1), send.clone());
            let first = move |range: u64| range.checked_shl(u64::BITS - bits).unwrap_or(0);
            let mut reader = Reader::new(checkpoint, &sources, first(ranges.start));
            scope.spawn(move || {
                // An error means that the receiver has stopped.
                ranges.try_for_each(|range| {
                    let entries = reader.entries_up_to(first(range) | u64::MAX >> bits);
                    send.send(SortedEntries::new(index, &entries))
                })
            });
        }
        drop(send);
        receive.into_iter().try_for_each(|sorted| writer.fill(index, &sorted))
    })
    .map_err(|_| index_full())
}

/// A segment that the checkpoint covers.
struct Source<'a> {
    slot: usize,
    puts: Entries<'a>,
    covered: &'a CoveredSegment,
}

/// Reads the live entries of segments in the order of their hashes, range by range.
struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    cursors: Vec<Cursor<'a>>,
}

/// Reads the entries of one segment.
struct Cursor<'a> {
    source: &'a Source<'a>,
    next: Option<(u64, u64)>,
    rest: Iter<'a>,
}

impl<'a> Reader<'a> {
    /// A reader of the entries from this hash on.
    fn new(checkpoint: &'a Checkpoint, sources: &'a [Source<'a>], from: u64) -> Reader<'a> {
        let cursor = |source: &'a Source<'a>| {
            let mut rest = source.puts.iter_from_hash(from);
            Cursor { source, next: rest.next(), rest }
        };
        Reader { checkpoint, cursors: sources.iter().map(cursor).collect() }
    }

    /// Hashes and locations of the next entries, of each segment in order.
    fn entries_up_to(&mut self, end: u64) -> Vec<(u64, RecordLocation)> {
        let mut found = Vec::new();
        for cursor in &mut self.cursors {
            let Source { slot, covered, .. } = cursor.source;
            // The compiler keeps copies in registers.
            let (mut next, mut rest) = (cursor.next, cursor.rest.clone());
            while let Some((hash, offset)) = next.filter(|entry| entry.0 <= end) {
                if self.checkpoint.is_live(covered, rest.index() - 1) {
                    found.push((hash, RecordLocation::new(*slot, offset)));
                }
                next = rest.next();
            }
            (cursor.next, cursor.rest) = (next, rest);
        }
        found
    }
}
