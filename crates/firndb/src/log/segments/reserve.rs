//! Reserved disk space, so that deletes and compaction work on a full disk.
//!
//! Freeing space takes space: a delete is a record, compaction copies live records before it
//! removes a segment, and both may need a new segment and hints. Two files hold space for that:
//! `reserve-delete`, as large as a segment, and `reserve-compact`, as large as two (or half of that
//! while segments larger than 1 MiB are growing). A write that only fills the disk ([`Need::Fill`])
//! requires both files and fails without them. On a full disk a delete removes the first file and
//! uses its space, a hint the second, and compaction and opening both if they must. So compaction
//! can always begin, however much is deleted. A file is created again when twice its size is free,
//! so that it does not take the space that it has just provided.
//!
//! A store of at most 1 MiB has no reserve, so that many small stores do not take three times their
//! size: see [`Reserve::waive`]. It gets one before the segment that makes it larger.
//!
//! The files are empty and nothing depends on them after a crash: they are created and removed
//! without a sync.

use crate::disk::{AppendMap, AppendMapWriter, AppendMode, Disk};
use crate::log::failpoints::Failpoint;
use crate::log::format::names::{
    RESERVE_COMPACT, RESERVE_DELETE, RESERVE_PROBE, RESERVE_TEMPORARY,
};
use crate::log::segments::segment::SEGMENT_MIN;
use crate::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The files and their lengths, in segments as large as the next one.
const FILES: [(&str, u64); 2] = [(RESERVE_DELETE, 1), (RESERVE_COMPACT, 2)];

/// What an operation needs disk space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A write that takes space.
    Fill,
    /// A delete, which lets compaction free space.
    Delete,
    /// A hint, which compaction needs.
    Hint,
    /// Compaction, which frees space.
    Compact,
}

impl Need {
    /// The files that may be given up for it, in this order.
    fn files(self) -> &'static [&'static str] {
        match self {
            Need::Fill => &[],
            Need::Delete => &[RESERVE_DELETE],
            Need::Hint => &[RESERVE_COMPACT],
            Need::Compact => &[RESERVE_COMPACT, RESERVE_DELETE],
        }
    }
}

/// The state of the reserve files.
#[derive(Default)]
pub(crate) struct Reserve {
    /// Whether both files were there, and large enough, at the last check, or none is necessary.
    is_held: AtomicBool,
    /// Whether the store was too small for a reserve at the last check.
    is_waived: AtomicBool,
    /// Their lengths in bytes; `None` if not known.
    lengths: Mutex<Option<[u64; 2]>>,
}

impl Reserve {
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Whether the store was too small for a reserve: [`Reserve::hold`] may be necessary before the
    /// next segment.
    #[inline]
    pub(crate) fn is_waived(&self) -> bool {
        self.is_waived.load(Ordering::Acquire)
    }

    /// Lets a small store fill the disk without a reserve. Files that are there stay.
    pub(crate) fn waive(&self) {
        self.is_waived.store(true, Ordering::Release);
        self.is_held.store(true, Ordering::Release);
    }

    /// Creates the files if they are missing or too small for segments of `segment` bytes. If the
    /// disk is too full, returns an error that says what to do.
    pub(crate) fn hold(&self, disk: &dyn Disk, dir: &Path, segment: u64) -> Result<()> {
        self.is_waived.store(false, Ordering::Release);
        if Failpoint::KeepNoReserve.is_on() {
            self.is_held.store(true, Ordering::Release);
            return Ok(());
        }
        let mut known = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lengths = known.take().map_or_else(|| lengths(disk, dir), Ok)?;
        for ((name, segments), length) in FILES.iter().zip(&mut lengths) {
            let wanted = segments * segment;
            // A file is not replaced whenever the store grows a little, as long as smaller segments
            // can be created instead.
            let least = if segment > SEGMENT_MIN { wanted / 2 } else { wanted };
            if *length < least {
                create(disk, dir, name, wanted, *length == 0).inspect_err(|_| {
                    *known = None;
                    self.is_held.store(false, Ordering::Release);
                })?;
                *length = wanted;
            }
        }
        *known = Some(lengths);
        self.is_held.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes one file that may be given up for this need. Returns whether there was one.
    fn give_up(&self, disk: &dyn Disk, dir: &Path, need: Need) -> Result<bool> {
        let mut known = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        *known = None;
        for name in need.files() {
            self.is_held.store(false, Ordering::Release);
            if remove_if_there(disk, &dir.join(name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `act`. If the disk is full, gives up reserve files and calls it again.
    pub(crate) fn spend<T>(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        need: Need,
        mut act: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match act() {
                Err(e) if e.is_disk_full() && self.give_up(disk, dir, need)? => {}
                done => return done,
            }
        }
    }

    /// Creates the file of a segment of `usual` bytes, or more if it `needs` more. If there is no
    /// other way to free space, creates a smaller one.
    pub(crate) fn create_segment(
        &self,
        disk: &dyn Disk,
        path: &Path,
        mode: AppendMode,
        (needs, usual): (u64, u64),
        need: Need,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let dir = crate::disk::parent(path);
        let usual = needs.max(usual);
        let small = needs.max(SEGMENT_MIN).next_multiple_of(4096).min(usual);
        let create = |length: u64| disk.create_append_map(path, length as usize, mode);
        match self.spend(disk, dir, need, || create(usual)) {
            Err(e) if e.is_disk_full() && need == Need::Fill => Err(disk_full(dir, usual)),
            Err(e) if e.is_disk_full() && small < usual => create(small),
            created => created,
        }
    }
}

fn lengths(disk: &dyn Disk, dir: &Path) -> Result<[u64; 2]> {
    // An earlier process may have died while it created one.
    remove_if_there(disk, &dir.join(RESERVE_TEMPORARY))?;
    remove_if_there(disk, &dir.join(RESERVE_PROBE))?;
    Ok(FILES.map(|(name, _)| {
        let file = disk.open(&dir.join(name));
        file.and_then(|file| file.len()).unwrap_or(0)
    }))
}

/// Creates a file of this length and replaces the one that is there. If `is_missing`, does so only
/// if as much space again is left.
fn create(disk: &dyn Disk, dir: &Path, name: &str, length: u64, is_missing: bool) -> Result<()> {
    let [made, probe] = [RESERVE_TEMPORARY, RESERVE_PROBE].map(|name| dir.join(name));
    let full = |e: Error| if e.is_disk_full() { disk_full(dir, 2 * length) } else { e };
    disk.create_filler(&made, length).map_err(full)?;
    let has_more = match is_missing {
        true => disk.create_filler(&probe, length),
        false => Ok(()),
    };
    remove_if_there(disk, &probe)?;
    if let Err(e) = has_more {
        remove_if_there(disk, &made)?;
        return Err(full(e));
    }
    disk.rename(&made, &dir.join(name))
}

/// Removes a file. Returns whether there was one.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.remove(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// The error of a write that takes space on a full disk.
pub(crate) fn disk_full(dir: &Path, length: u64) -> Error {
    let action = format!(
        "write more on a full disk until records are removed and compacted, or {length} bytes are \
         free for"
    );
    Error::io(&action, dir, std::io::ErrorKind::StorageFull.into())
}
