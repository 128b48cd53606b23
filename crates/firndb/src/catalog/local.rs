//! A catalog in a directory: objects are files, and come into being by a hard link.
//!
//! A link to a name that is taken fails, which is what makes `create` atomic; a rename would
//! replace. What is published from the same file system is linked as well, and not copied. The file
//! system must have hard links.

use super::origin::{Content, Origin};
use crate::disk::{self, Append, DiskRef};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;

/// A directory of objects.
#[derive(Debug)]
pub(super) struct LocalOrigin {
    disk: DiskRef,
    dir: PathBuf,
}

impl LocalOrigin {
    pub(super) fn new(disk: DiskRef, dir: &Path) -> LocalOrigin {
        LocalOrigin { disk, dir: dir.to_path_buf() }
    }

    fn path(&self, object: &str) -> PathBuf {
        self.dir.join(object)
    }

    /// Gives `path` the bytes that `write` appends, durably but for the name: `AlreadyExists` if it
    /// has some.
    fn write(&self, path: &Path, write: impl FnOnce(&mut dyn Append) -> Result<()>) -> Result<()> {
        self.write_aside(path, write, |temporary| self.disk.link(temporary, path))
    }

    /// Writes a file beside `path`, which `name` then gives its name.
    fn write_aside(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Append) -> Result<()>,
        name: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let unique = RandomState::new().hash_one(std::process::id());
        let last = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{last}.{unique:016x}.tmp"));
        let mut file = self.disk.create(&temporary)?;
        let written = write(&mut *file).and_then(|()| file.sync()).and_then(|()| name(&temporary));
        // Best effort: what stays is swept later.
        let _ = self.disk.remove(&temporary);
        written
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let map = self.disk.map(from)?;
        self.write(to, |out| map.chunks(PIECE).try_for_each(|piece| out.append(piece)))
    }

    /// Gives `to` the content of a file that never changes, durably but for the name.
    fn take(&self, from: &Path, to: &Path) -> Result<()> {
        // Whoever made the file may not have synced it.
        self.disk.sync_file(from)?;
        match self.disk.link(from, to) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Err(e),
            // Another file system, or somebody else's file.
            Err(_) => self.copy(from, to),
        }
    }

    /// The names that `list` gives; none if there is no directory.
    fn names(
        &self,
        folder: &str,
        list: impl Fn(&Path) -> Result<Vec<String>>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        match list(&self.path(folder)) {
            Ok(names) => Ok(names.into_iter().filter(|name| is_wanted(name)).collect()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

impl Origin for LocalOrigin {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(object);
        let dir = disk::parent(&path);
        self.disk.create_dir_all(dir)?;
        self.write(&path, |out| out.append(bytes))?;
        self.disk.sync_dir(dir)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
        for (object, content) in objects {
            let path = self.path(object);
            let dir = disk::parent(&path).to_path_buf();
            if !dirs.contains(&dir) {
                self.disk.create_dir_all(&dir)?;
                dirs.insert(dir);
            }
            let (stored, bytes) = match content {
                Content::File(file, bytes) => (self.take(file, &path), *bytes),
                Content::Object(from) => (self.disk.link(&self.path(from), &path), 0),
            };
            match stored {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => progress(bytes),
            }
        }
        // Also what was there already: its name may be the work of a run that died before this.
        dirs.iter().try_for_each(|dir| self.disk.sync_dir(dir))
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(object);
        let name = |temporary: &Path| self.disk.rename(temporary, &path);
        self.write_aside(&path, |out| out.append(bytes), name)?;
        self.disk.sync_dir(disk::parent(&path))
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        let file = self.disk.open(&self.path(object))?;
        let there = file.len()?.saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(len).min(len)];
        file.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.names(folder, |dir| self.disk.list(dir), |name| !name.starts_with('.'))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.names(folder, |dir| self.disk.list_dirs(dir), |name| !name.starts_with('.'))
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
        for object in objects {
            let path = self.path(object);
            match self.disk.remove(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => drop(dirs.insert(disk::parent(&path).to_path_buf())),
            }
        }
        for dir in dirs {
            match self.disk.sync_dir(&dir) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&self, object: &str) -> Option<PathBuf> {
        Some(self.path(object))
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        let is_left = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
        for name in self.names(folder, |dir| self.disk.list(dir), is_left)? {
            let path = self.path(folder).join(name);
            // Whoever is writing it holds its lock.
            if let Ok(_lock) = self.disk.lock(&path) {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }
}

/// The error of a directory that is no catalog.
pub(super) fn require(disk: &DiskRef, dir: &Path) -> Result<()> {
    match disk.list(dir) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::NotFound, "there is no catalog here").in_file(dir))
        }
        Err(e) => Err(e),
    }
}

/// `AlreadyExists` if a directory is in use for something else: it is not empty, and no folder in
/// it has the versions or the files of a name.
pub(super) fn check_place(disk: &DiskRef, dir: &Path) -> Result<()> {
    let folders = match disk.list_dirs(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        folders => folders?,
    };
    for folder in &folders {
        let inside = disk.list_dirs(&dir.join(folder))?;
        if inside.iter().any(|name| [VERSIONS, FILES].contains(&name.as_str())) {
            return Ok(());
        }
    }
    let others = [disk.list(dir)?, disk.list_others(dir)?].concat();
    let Some(name) = folders.iter().chain(&others).next() else { return Ok(()) };
    let message = format!("the directory has `{name}` in it and is no catalog; choose another one");
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}

/// The folders of a name: see `format.rs`.
const VERSIONS: &str = "versions";
const FILES: &str = "files";
