//! Directories that are held open while another process renames them.

use crate::disk::append_map::{AppendMap, AppendMapWriter, AppendMode};
use crate::disk::map::Map;
use crate::disk::paths::parent;
use crate::disk::sim::state::{Names, SimDisk, State};
use crate::disk::traits::{Append, Disk, DiskRef, Entry, FileId, Lock, ReadAt, replaced};
use crate::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

impl SimDisk {
    /// Renames directories as another process would: durably and without counting an operation.
    pub(crate) fn move_dirs(&self, moves: &[(&Path, &Path)]) {
        let mut state = self.state();
        moves.iter().for_each(|(from, to)| state.move_dir(from, to));
    }

    /// Renames directories before operation `n`, if it is one in a held directory.
    pub(crate) fn move_dirs_at(&self, n: usize, moves: &[(&Path, &Path)]) {
        let owned = |(from, to): &(&Path, &Path)| (from.to_path_buf(), to.to_path_buf());
        self.state().moves = Some((n, moves.iter().map(owned).collect()));
    }
}

/// Opens a directory of `disk`; see [`Disk::hold`].
pub(super) fn hold_dir(disk: Arc<SimDisk>, dir: &Path) -> Result<DiskRef> {
    let mut state = disk.state();
    state.move_if_due();
    if !state.is_dir(dir) {
        return Err(Error::io("open the directory", dir, io::ErrorKind::NotFound.into()));
    }
    let number = state.held.len();
    state.held.push(dir.to_path_buf());
    drop(state);
    Ok(Arc::new(HeldDir { disk, dir: dir.to_path_buf(), number }))
}

impl State {
    fn move_dir(&mut self, from: &Path, to: &Path) {
        assert!(self.is_dir(from) && !self.names.contains_key(to), "{from:?} to {to:?}");
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest == Path::new("") => to.to_path_buf(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_path_buf(),
        };
        let all =
            |names: Names| names.into_iter().map(|(path, node)| (moved(&path), node)).collect();
        self.names = all(std::mem::take(&mut self.names));
        self.durable = all(std::mem::take(&mut self.durable));
        for (path, _) in self.pending.iter_mut().flat_map(|change| &mut change.names) {
            *path = moved(path);
        }
        for path in &mut self.held {
            *path = moved(path);
        }
    }

    /// Performs the renames of another process that are due.
    fn move_if_due(&mut self) {
        let n = self.log.len();
        if let Some((_, moves)) = self.moves.take_if(|(at, _)| n >= *at) {
            moves.iter().for_each(|(from, to)| self.move_dir(from, to));
        }
    }
}

/// The disk, with the files of one directory at its current path.
#[derive(Debug)]
struct HeldDir {
    disk: Arc<SimDisk>,
    dir: PathBuf,
    number: usize,
}

impl HeldDir {
    /// The current path of a file that was in the directory when it was opened.
    fn at(&self, path: &Path) -> PathBuf {
        let mut state = self.disk.state();
        state.move_if_due();
        let now = state.held[self.number].clone();
        match path.file_name() {
            _ if path == self.dir => now,
            Some(name) if parent(path) == self.dir => now.join(name),
            _ => path.to_path_buf(),
        }
    }
}

#[rustfmt::skip]
impl Disk for HeldDir {
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef> { self.disk.clone().hold(dir) }
    fn check_held(&self) -> Result<()> {
        match self.at(&self.dir) == self.dir {
            true => Ok(()),
            false => Err(replaced(&self.dir)),
        }
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> { self.disk.create_dir_all(dir) }
    fn list(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list(&self.at(dir)) }
    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list_dirs(&self.at(dir)) }
    fn list_others(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list_others(&self.at(dir))
    }
    fn identity(&self, path: &Path) -> Result<FileId> { self.disk.identity(path) }
    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>> { self.disk.lineage(dir) }
    fn look(&self, path: &Path) -> Result<Entry> { self.disk.look(&self.at(path)) }
    fn resolve(&self, path: &Path) -> Result<PathBuf> { self.disk.resolve(path) }
    fn modified(&self, path: &Path) -> Result<SystemTime> { self.disk.modified(&self.at(path)) }
    fn create(&self, path: &Path) -> Result<Box<dyn Append>> { self.disk.create(&self.at(path)) }
    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        self.disk.create_unnamed(dir)
    }
    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> { self.disk.reopen(&self.at(path)) }
    fn map(&self, path: &Path) -> Result<Map> { self.disk.map(&self.at(path)) }
    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> { self.disk.open(&self.at(path)) }
    fn create_append_map(
        &self, path: &Path, capacity: usize, mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        self.disk.create_append_map(&self.at(path), capacity, mode)
    }
    fn open_append_map(
        &self, path: &Path, end: usize, mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        self.disk.open_append_map(&self.at(path), end, mode)
    }
    fn append_mode(&self, path: &Path) -> Result<AppendMode> {
        self.disk.append_mode(&self.at(path))
    }
    fn create_filler(&self, path: &Path, length: u64) -> Result<()> {
        self.disk.create_filler(&self.at(path), length)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.link(&self.at(from), &self.at(to))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(&self.at(from), &self.at(to))
    }
    fn remove(&self, path: &Path) -> Result<()> { self.disk.remove(&self.at(path)) }
    fn sync_file(&self, path: &Path) -> Result<()> { self.disk.sync_file(&self.at(path)) }
    fn sync_dir(&self, dir: &Path) -> Result<()> { self.disk.sync_dir(&self.at(dir)) }
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let lock = self.disk.lock(&self.at(path))?;
        let held = HeldDir { disk: self.disk.clone(), dir: self.dir.clone(), number: self.number };
        Ok(Box::new(HeldLock { lock, held }))
    }
}

/// A lock in a held directory.
struct HeldLock {
    lock: Box<dyn Lock>,
    held: HeldDir,
}

impl Lock for HeldLock {
    fn check(&self) -> Result<()> {
        self.held.check_held()?;
        self.lock.check()
    }
}
