//! A simulated disk that calls a function just before a file is opened or mapped, so that a test
//! can do what another process may do between two calls.

use crate::Result;
use crate::disk::append_map::{AppendMap, AppendMapWriter, AppendMode};
use crate::disk::map::Map;
use crate::disk::sim::state::SimDisk;
use crate::disk::traits::{Append, Disk, DiskRef, Entry, FileId, Lock, ReadAt};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Calls `before` with the path of each file before it is opened or mapped.
pub(crate) struct HookDisk<F> {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) before: F,
}

impl<F> fmt::Debug for HookDisk<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

#[rustfmt::skip]
impl<F: Fn(&Path) + Send + Sync + 'static> Disk for HookDisk<F> {
    fn hold(self: Arc<Self>, _: &Path) -> Result<DiskRef> { Ok(self) }
    fn check_held(&self) -> Result<()> { self.disk.check_held() }
    fn create_dir_all(&self, dir: &Path) -> Result<()> { self.disk.create_dir_all(dir) }
    fn list(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list(dir) }
    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list_dirs(dir) }
    fn list_others(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list_others(dir) }
    fn identity(&self, path: &Path) -> Result<FileId> { self.disk.identity(path) }
    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>> { self.disk.lineage(dir) }
    fn look(&self, path: &Path) -> Result<Entry> { self.disk.look(path) }
    fn resolve(&self, path: &Path) -> Result<PathBuf> { self.disk.resolve(path) }
    fn modified(&self, path: &Path) -> Result<SystemTime> { self.disk.modified(path) }
    fn create(&self, path: &Path) -> Result<Box<dyn Append>> { self.disk.create(path) }
    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        self.disk.create_unnamed(dir)
    }
    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> { self.disk.reopen(path) }
    fn map(&self, path: &Path) -> Result<Map> {
        (self.before)(path);
        self.disk.map(path)
    }
    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        (self.before)(path);
        self.disk.open(path)
    }
    fn create_append_map(
        &self, path: &Path, capacity: usize, mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        self.disk.create_append_map(path, capacity, mode)
    }
    fn open_append_map(
        &self, path: &Path, end: usize, mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        self.disk.open_append_map(path, end, mode)
    }
    fn append_mode(&self, path: &Path) -> Result<AppendMode> { self.disk.append_mode(path) }
    fn create_filler(&self, path: &Path, length: u64) -> Result<()> {
        self.disk.create_filler(path, length)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> { self.disk.link(from, to) }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> { self.disk.rename(from, to) }
    fn remove(&self, path: &Path) -> Result<()> { self.disk.remove(path) }
    fn sync_file(&self, path: &Path) -> Result<()> { self.disk.sync_file(path) }
    fn sync_dir(&self, dir: &Path) -> Result<()> { self.disk.sync_dir(dir) }
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> { self.disk.lock(path) }
}
