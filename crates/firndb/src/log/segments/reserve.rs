//! Space kept in reserve, so that a full disk is no dead end.
//!
//! To free space takes space: a delete is a record, compaction copies what is live before it
//! removes a segment, and both may need a new segment and hints. Two files keep it:
//! `reserve-delete` as large as a segment, and `reserve-compact` as large as two (or half of it,
//! while segments of more than 1 MiB get larger). What only fills the disk ([`Need::Fill`]) needs
//! both to be there, and gets an error if one is not; a delete removes the first when the disk is
//! full and goes on in its place, a hint the second, and compaction and opening both if they must.
//! So however much is deleted, compaction has what it needs to begin. A file is made again when
//! there is twice its size, so that it does not take what it has just given.
//!
//! Nothing is ever in these files, and nothing depends on them after a crash: they are made and
//! removed without a sync.

use crate::disk::{AppendMap, AppendMapWriter};
use crate::log::failpoints::Failpoint;
use crate::log::format::record::Kind;
use crate::log::open::store::{SEGMENT_MIN, Shared};
use crate::log::write::writer::Frame;
use crate::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file and its length, in segments as large as the next one.
const FILES: [(&str, u64); 2] = [("reserve-delete", 1), ("reserve-compact", 2)];
/// One on its way, and what shows whether there is space to spare.
const MADE: &str = ".reserve.tmp";
const PROBE: &str = ".reserve.probe";

/// What is written, as to the space on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It takes some.
    Fill,
    /// It lets compaction give some back.
    Delete,
    /// It tells compaction what is in a segment.
    Hint,
    /// It gives some back.
    Compact,
}

impl Need {
    /// Of a write.
    pub(crate) fn of(frames: &[Frame]) -> Need {
        let is_delete = |frame: &Frame| frame.record.kind == Kind::Delete;
        if frames.iter().all(is_delete) { Need::Delete } else { Need::Fill }
    }

    /// The files that may be given up for it, in their order.
    fn files(self) -> &'static [&'static str] {
        match self {
            Need::Fill => &[],
            Need::Delete => &[FILES[0].0],
            Need::Hint => &[FILES[1].0],
            Need::Compact => &[FILES[1].0, FILES[0].0],
        }
    }
}

/// Whether this is the name of a file of the reserve.
pub(crate) fn is_reserve(name: &str) -> bool {
    FILES.iter().any(|(file, _)| *file == name) || [MADE, PROBE].contains(&name)
}

/// What is known of the files.
#[derive(Default)]
pub(crate) struct Reserve {
    /// They are there, as large as they had to be when somebody looked last.
    is_held: AtomicBool,
    /// Their lengths in bytes; `None` if nobody looked since the store was opened.
    lengths: Mutex<Option<[u64; 2]>>,
}

impl Reserve {
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Sees to it that there is a reserve; an error that says what to do if the disk is too full.
    pub(crate) fn hold_reserve(&self) -> Result<()> {
        if Failpoint::KeepNoReserve.is_on() {
            self.reserve.is_held.store(true, Ordering::Release);
            return Ok(());
        }
        let mut known = self.reserve.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        // As large as those that deletes and compaction begin on the full disk, after the next.
        let segment = self.capacity_for(self.table.load().in_order().len() + 3);
        let mut lengths = known.take().map_or_else(|| self.reserve_lengths(), Ok)?;
        for ((name, segments), length) in FILES.iter().zip(&mut lengths) {
            let wanted = segments * segment;
            // Made anew when the store has outgrown it, not whenever it grew, as long as smaller
            // segments can be made instead.
            let least = if segment > SEGMENT_MIN { wanted / 2 } else { wanted };
            if *length < least {
                self.make_reserve(name, wanted, *length == 0).inspect_err(|_| {
                    *known = None;
                    self.reserve.is_held.store(false, Ordering::Release);
                })?;
                *length = wanted;
            }
        }
        *known = Some(lengths);
        self.reserve.is_held.store(true, Ordering::Release);
        Ok(())
    }

    fn reserve_lengths(&self) -> Result<[u64; 2]> {
        // An earlier process may have died while it made one.
        self.remove_if_there(&self.dir.join(MADE))?;
        self.remove_if_there(&self.dir.join(PROBE))?;
        Ok(FILES.map(|(name, _)| {
            let file = self.disk.open(&self.dir.join(name));
            file.and_then(|file| file.len()).unwrap_or(0)
        }))
    }

    /// Makes a file of this length in the place of the one that is there, if any; and if there
    /// `is_none`, only where it leaves as much again.
    fn make_reserve(&self, name: &str, length: u64, is_none: bool) -> Result<()> {
        let [made, probe] = [MADE, PROBE].map(|name| self.dir.join(name));
        let full = |e: Error| if e.is_disk_full() { self.full(2 * length) } else { e };
        self.disk.create_filler(&made, length).map_err(full)?;
        let has_more = match is_none {
            true => self.disk.create_filler(&probe, length),
            false => Ok(()),
        };
        self.remove_if_there(&probe)?;
        if let Err(e) = has_more {
            self.remove_if_there(&made)?;
            return Err(full(e));
        }
        self.disk.rename(&made, &self.dir.join(name))
    }

    /// Gives one file up; whether there was one that may be for this.
    fn give_up_reserve(&self, need: Need) -> Result<bool> {
        let mut known = self.reserve.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        *known = None;
        for name in need.files() {
            self.reserve.is_held.store(false, Ordering::Release);
            if self.remove_if_there(&self.dir.join(name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn remove_if_there(&self, path: &Path) -> Result<bool> {
        match self.disk.remove(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// Does something, on a full disk in place of as much of the reserve as it may have.
    pub(crate) fn with_reserve<T>(
        &self,
        need: Need,
        mut act: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match act() {
                Err(e) if e.is_disk_full() && self.give_up_reserve(need)? => {}
                done => return done,
            }
        }
    }

    /// Makes the file of a segment: of `least` bytes, or more if it `needs` more. If there is no
    /// other way to free space, a smaller one has to do.
    pub(crate) fn new_segment(
        &self,
        path: &Path,
        needs: u64,
        least: u64,
        need: Need,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let usual = needs.max(least);
        let small = needs.max(SEGMENT_MIN).next_multiple_of(4096).min(usual);
        let create = |length: u64| {
            self.disk.create_append_map(path, length as usize, self.options.append_mode)
        };
        match self.with_reserve(need, || create(usual)) {
            Err(e) if e.is_disk_full() && need == Need::Fill => Err(self.full(usual)),
            Err(e) if e.is_disk_full() && small < usual => create(small),
            made => made,
        }
    }

    /// The error of a write that takes space.
    pub(crate) fn full(&self, length: u64) -> Error {
        let action = format!(
            "write more on a full disk until records are removed and compacted, or {length} bytes \
             are free for"
        );
        Error::io(&action, &self.dir, std::io::ErrorKind::StorageFull.into())
    }
}
