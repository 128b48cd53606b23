//! The one door to the disk.
use crate::Result;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// Everything FirnDB asks of a file system.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Creates a directory and its missing parents, durably.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Creates a file that only grows. Fails if it exists.
    fn create(&self, path: &Path) -> Result<Box<dyn Append>>;
    /// The bytes of a published file.
    fn map(&self, path: &Path) -> Result<Map>;
    /// Renames a file within a directory, replacing what was there.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the writer's lock: `Locked` if somebody else has it. Released when dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;
}

pub(crate) type DiskRef = Arc<dyn Disk>;

/// A file that only grows.
pub(crate) trait Append: Send {
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes everything appended so far durable. After a failure every later call fails too.
    fn sync(&mut self) -> Result<()>;
}

/// The bytes of a published file: a read-only map, or memory.
#[derive(Clone)]
pub(crate) struct Map(Arc<Vec<u8>>);

impl Map {
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Map { Map(Arc::new(bytes)) }
}
impl Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] { &self.0 }
}
