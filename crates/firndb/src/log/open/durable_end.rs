//! How far the log was durable at the latest close or checkpoint.
//!
//! Behind the last link an opening cannot tell a torn write from a byte that went bad later: both
//! are records that do not check. What is certain is that a log never ends before a place that was
//! durable once. `end.firn` keeps such a place, so that damage before it is an error and not a
//! loss. Without the file, damage in the last segment counts as a torn end.
//!
//! `end.firn` is a frozen file of kind 7:
//! ```text
//! SECTION 1  u64 store, u64 number of the segment, u64 byte in it
//! ```

use crate::bytes::frozen::{Frozen, FrozenWriter, Kind};
use crate::bytes::int::{Decoder, Encoder};
use crate::disk::{Append, Disk};
use crate::log::maintenance::checkpoint;
use crate::log::open::store::Shared;
use crate::log::segments::segment::file_name;
use crate::log::write::group_commit::Position;
use crate::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::PoisonError;

pub(crate) const FILE: &str = "end.firn";
const META: u32 = 1;

/// A place up to which the log of a store was durable.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) store: u64,
    pub(crate) position: Position,
}

impl End {
    /// What the file says; `None` if it is not there or damaged. Beside a writer it must be read
    /// before the segments are, or it could be ahead of them.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<End>> {
        match Self::decode(disk, &dir.join(FILE)) {
            Ok(end) => Ok(Some(end)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn decode(disk: &dyn Disk, path: &Path) -> Result<End> {
        let file = Frozen::load(disk, path, Kind::LogEnd)?;
        let at = file.find(META).ok_or_else(|| Error::corrupt("a section is missing"))?;
        let mut meta = Decoder::new(file.section(at)?);
        let end = End { store: meta.u64()?, position: (meta.u64()?, meta.u64()?) };
        meta.finish()?;
        Ok(end)
    }

    pub(crate) fn encode(self, out: &mut dyn Append) -> Result<()> {
        let mut meta = Encoder::default();
        let numbers = [self.store, self.position.0, self.position.1];
        numbers.into_iter().for_each(|number| meta.u64(number));
        let mut w = FrozenWriter::new(out, Kind::LogEnd)?;
        w.section(META, &meta.0)?;
        w.finish().map(|_| ())
    }

    /// The place, if it is one in this store's log.
    pub(crate) fn position(self, store: u64) -> Option<Position> {
        (self.store == store).then_some(self.position)
    }
}

/// `Corrupt` if a log that was durable up to `known` ends at `last` already.
pub(crate) fn check(known: Option<Position>, last: Position, dir: &Path) -> Result<()> {
    let Some(known) = known.filter(|&known| last < known) else { return Ok(()) };
    let (number, offset) = if last == (0, 0) { (known.0, 0) } else { last };
    let message = format!(
        "damaged from here on: the log was durable up to byte {} of {} once; `firn log repair` \
         takes what is whole into a new store",
        known.1,
        file_name(known.0)
    );
    Err(Error::corrupt(message).at(offset).in_file(&dir.join(file_name(number))))
}

/// `Corrupt` if there are files that no store has before its first segment is durable. Called when
/// no segment can be read: without this a damaged store would be taken for a new one.
pub(crate) fn check_new(names: &[String], has_hints: bool, dir: &Path) -> Result<()> {
    let is_later = |name: &&String| *name == FILE || *name == checkpoint::FILE;
    if !has_hints && !names.iter().any(|name| is_later(&name)) {
        return Ok(());
    }
    let message = "a log store of which no segment can be read: bring its segment files back, or \
                   let `firn log repair` take what is whole into a new store";
    Err(Error::corrupt(message).in_file(dir))
}

impl Shared {
    /// Writes down that the log is durable up to here, unless that is known already.
    pub(crate) fn record_end(&self, position: Position) -> Result<()> {
        let mut recorded = self.recorded_end.lock().unwrap_or_else(PoisonError::into_inner);
        if position <= *recorded {
            return Ok(());
        }
        self.publish(FILE, |out| End { store: self.id, position }.encode(out))?;
        *recorded = position;
        Ok(())
    }
}
