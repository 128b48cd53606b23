//! A simulated disk on which something happens just before a file is looked at: what another
//! process may do between two calls of this one.

use super::{Append, Disk, Map, ReadAt, SimDisk, Tape, TapeWriter};
use crate::Result;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Shows each file that is to be opened or mapped to `before`, and then opens or maps it.
pub(crate) struct Restless<F> {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) before: F,
}

impl<F> fmt::Debug for Restless<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

#[rustfmt::skip]
impl<F: Fn(&Path) + Send + Sync> Disk for Restless<F> {
    fn create_dir_all(&self, dir: &Path) -> Result<()> { self.disk.create_dir_all(dir) }
    fn list(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list(dir) }
    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> { self.disk.list_dirs(dir) }
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
    fn create_tape(&self, path: &Path, capacity: usize) -> Result<(Arc<Tape>, TapeWriter)> {
        self.disk.create_tape(path, capacity)
    }
    fn open_tape(&self, path: &Path, end: usize) -> Result<(Arc<Tape>, TapeWriter)> {
        self.disk.open_tape(path, end)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> { self.disk.link(from, to) }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> { self.disk.rename(from, to) }
    fn remove(&self, path: &Path) -> Result<()> { self.disk.remove(path) }
    fn sync_file(&self, path: &Path) -> Result<()> { self.disk.sync_file(path) }
    fn sync_dir(&self, dir: &Path) -> Result<()> { self.disk.sync_dir(dir) }
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> { self.disk.lock(path) }
}
