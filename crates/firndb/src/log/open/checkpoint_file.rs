//! Reading a checkpoint and loading it into the index: see `format/checkpoint.rs`.

use crate::disk::Disk;
use crate::disk::envelope::Kind;
use crate::log::format::checkpoint::{BITS, Checkpoint, META};
use crate::log::format::names::CHECKPOINT;
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::log::index::writer::IndexWriter;
use crate::log::options::Access;
use crate::log::segments::segment::Segment;
use crate::log::state::lookup::index_full;
use crate::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The hashes are loaded in this many ranges, so that the part of the index being filled stays in
/// the cache.
const RANGES: u64 = 1 << RANGE_BITS;
const RANGE_BITS: u32 = 9;
/// Below this many bytes of bits, ranges and a second thread are not worth it.
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
    let mut cursors = Vec::new();
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
        cursors.push((segment.slot, puts.iter().enumerate().peekable(), covered));
    }
    let drop = u64::BITS - index.width();
    let mut range = |end: u64| {
        let mut found = Vec::new();
        for (slot, puts, covered) in &mut cursors {
            while let Some((i, (hash, offset))) = puts.next_if(|entry| entry.1.0 <= end) {
                if checkpoint.is_live(covered, i) {
                    found.push((hash >> drop, RecordLocation::new(*slot, offset)));
                }
            }
        }
        found
    };
    if checkpoint.size() < SMALL {
        return writer.fill(index, &range(u64::MAX)).map_err(|_| index_full());
    }
    // One thread reads the hints, another fills the index.
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::sync_channel(4);
        scope.spawn(move || {
            let ends = (0..RANGES).map(|n| n << (u64::BITS - RANGE_BITS) | u64::MAX >> RANGE_BITS);
            // An error means that the receiver has stopped.
            ends.map(&mut range).try_for_each(|found| send.send(found))
        });
        receive.into_iter().try_for_each(|found| writer.fill(index, &found))
    })
    .map_err(|_| index_full())
}
