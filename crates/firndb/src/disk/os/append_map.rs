//! Append maps over files of the operating system, and the choice of their mode.

#![expect(unsafe_code, reason = "pages are unmapped during a sync: see the SAFETY note")]

use crate::disk::append_map::{AppendMap, AppendMapFile, AppendMapWriter, AppendMode, PIECE};
use crate::disk::os::space::file_size_limit;
use crate::{Error, ErrorKind, Result};
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

/// An append map over a whole file whose bytes before `end` are in use. `mode` is not `Auto`.
pub(super) fn append_map(
    file: File,
    end: usize,
    mode: AppendMode,
    path: &Path,
) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
    let length = file.metadata().map_err(|e| Error::io("look at", path, e))?.len();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut options = MmapOptions::new();
    let map = match mode {
        AppendMode::Map => options.len(length).map_raw(&file),
        _ => options.len(length).map_raw_read_only(&file),
    };
    let map = map.map_err(|e| Error::io("map", path, e))?;
    let limit = file_size_limit();
    let file = OsAppendMap { path: path.into(), file: Mutex::new(Some(Arc::new(file))), limit };
    Ok(AppendMap::new(map, end, Box::new(file), mode, path))
}

/// The mode that [`AppendMode::Auto`] selects for a file.
pub(super) fn auto_mode(file: &File) -> AppendMode {
    if is_safe_to_store(file) { AppendMode::Map } else { AppendMode::Write }
}

/// Whether a store into a map of this file always finds the space that was reserved for it. This
/// holds where blocks are never relocated by a write: on tmpfs, and on ext4 in files with extents.
/// Copy-on-write file systems (btrfs, XFS after a reflink) need new blocks, and SIGBUS is the only
/// way in which a map can report that there are none.
#[cfg(target_os = "linux")]
fn is_safe_to_store(file: &File) -> bool {
    const EXT4: rustix::fs::FsWord = 0xEF53;
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let Ok(found) = rustix::fs::fstatfs(file) else { return false };
    match found.f_type {
        TMPFS => true,
        EXT4 => rustix::fs::ioctl_getflags(file)
            .is_ok_and(|flags| flags.bits() & EXTENTS != 0 && is_allocated(file)),
        _ => false,
    }
}

/// The flag of ext4 files that use extents (`FS_EXTENT_FL`).
#[cfg(target_os = "linux")]
const EXTENTS: u32 = 0x0008_0000;

/// Whether blocks are allocated for the whole length of a file.
#[cfg(target_os = "linux")]
fn is_allocated(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|found| found.blocks() * 512 >= found.len())
}

#[cfg(not(target_os = "linux"))]
fn is_safe_to_store(_: &File) -> bool {
    false
}

struct OsAppendMap {
    path: PathBuf,
    /// `None` after [`AppendMapFile::close`].
    file: Mutex<Option<Arc<File>>>,
    /// Largest length that this process may give the file.
    limit: u64,
}

impl OsAppendMap {
    fn open(&self) -> Result<Arc<File>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || Error::new(ErrorKind::Failed, "this file was closed").in_file(&self.path);
        file.ok_or_else(closed)
    }
}

impl AppendMapFile for OsAppendMap {
    fn prepare(&self, from: usize, to: usize) -> Result<()> {
        static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE]);
        (from..to)
            .step_by(PIECE)
            .try_for_each(|at| self.write(&ZEROS[..PIECE.min(to - at)], at, &mut 0))
    }

    fn write(&self, bytes: &[u8], at: usize, written: &mut usize) -> Result<()> {
        let failed = |e| Error::io("write to", &self.path, e);
        let file = self.open()?;
        if (at + bytes.len()) as u64 > self.limit {
            return Err(failed(io::ErrorKind::FileTooLarge.into())); // Instead of SIGXFSZ.
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write_at(rest, (at + bytes.len() - rest.len()) as u64) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest = &rest[count..];
                    *written += count;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }

    fn sync(&self, map: &MmapRaw, from: usize, to: usize, mode: AppendMode) -> Result<()> {
        let file = self.open()?;
        if mode == AppendMode::Map && to - from >= PIECE {
            // SAFETY: this is a shared map of a file, so its bytes are in the page cache, and both
            // readers and the writer fault them in again when they need them. `AppendMap::sync`
            // keeps both ends inside the map. The kernel may ignore the advice.
            let _ =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from) };
            #[cfg(target_os = "linux")] // 5.14 and later.
            let _ = map.advise_range(memmap2::Advice::PopulateRead, from, to - from);
        }
        let synced = if cfg!(target_os = "macos") {
            // On macOS, `msync` leaves the bytes in the drive's cache; `sync_data` is F_FULLFSYNC.
            map.flush_range(from, to - from).and_then(|()| file.sync_data())
        } else {
            file.sync_data()
        };
        synced.map_err(|e| Error::io("sync", &self.path, e))?;
        if mode == AppendMode::Map {
            // The time is not part of what a sync guarantees, so failures are ignored.
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(())
    }

    fn close(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
