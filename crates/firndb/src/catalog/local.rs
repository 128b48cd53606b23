//! A catalog in a directory: objects are files, and come into being by a hard link.
//!
//! A link to a name that is taken fails, which is what makes `create` atomic; a rename would
//! replace. What is published from the same file system is linked as well, and not copied. The file
//! system must have hard links.
//!
//! The file that is to be published may be replaced at any moment. So it is linked or copied under
//! a temporary name, checked there, and only then given its name: under the name of an object there
//! is never anything but a file of the content that the name states.

use super::origin::{Content, Origin};
use crate::disk::{self, Append, DiskRef, Entry};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;

/// How often a temporary file is made anew that a clean-up took for a leftover.
const ATTEMPTS: u32 = 16;

/// What an object must be.
struct Expected<'a> {
    bytes: u64,
    /// Not known of what is copied within the catalog.
    blake3: Option<&'a str>,
}

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
        let mut attempt = 0;
        let (temporary, mut file) = loop {
            attempt += 1;
            let temporary = temporary(path);
            match self.disk.create(&temporary) {
                // A clean-up took it for a leftover before its lock was taken: that one is lost.
                Err(e) if e.kind() == ErrorKind::Locked && attempt < ATTEMPTS => {}
                created => break (temporary, created?),
            }
        };
        let written = write(&mut *file).and_then(|()| file.sync()).and_then(|()| name(&temporary));
        // Best effort: what stays is swept later.
        let _ = self.disk.remove(&temporary);
        written
    }

    fn copy(&self, from: &Path, to: &Path, expected: &Expected) -> Result<()> {
        let map = self.disk.map(from)?;
        let write =
            |out: &mut dyn Append| map.chunks(PIECE).try_for_each(|piece| out.append(piece));
        self.write_aside(to, write, |temporary| self.name(temporary, from, to, expected))
    }

    /// Gives `to` the content of a file that should never change, durably but for the name.
    fn take(&self, from: &Path, to: &Path, expected: &Expected) -> Result<()> {
        // Whoever made the file may not have synced it.
        self.disk.sync_file(from)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let temporary = temporary(to);
            let taken = match self.disk.link(from, &temporary) {
                Ok(()) => self.name(&temporary, from, to, expected),
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
                // Another file system, or somebody else's file.
                Err(_) => return self.copy(from, to, expected),
            };
            // Best effort: what stays is swept later.
            let _ = self.disk.remove(&temporary);
            match taken {
                // Nothing locks a link, so a clean-up takes it for a leftover.
                Err(e)
                    if e.kind() == ErrorKind::NotFound
                        && e.file() == Some(&temporary)
                        && attempt < ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// Gives a file its name if it is what it should be. What has this name already is replaced
    /// only if it is not.
    fn name(&self, temporary: &Path, from: &Path, to: &Path, expected: &Expected) -> Result<()> {
        if !self.is(temporary, expected)? {
            let message = "the file was replaced or changed while it was being published";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(from));
        }
        match self.disk.link(temporary, to) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => match self.is(to, expected) {
                // An earlier attempt, or another publisher of the same file.
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => self.disk.rename(temporary, to),
            },
            named => named,
        }
    }

    /// Whether a file is what it should be, every byte.
    fn is(&self, path: &Path, expected: &Expected) -> Result<bool> {
        if self.disk.look(path)? != Entry::File(expected.bytes) {
            return Ok(false);
        }
        let Some(blake3) = expected.blake3 else { return Ok(true) };
        let map = self.disk.map(path)?;
        Ok(map.len() as u64 == expected.bytes && *blake3::hash(&map).to_hex() == *blake3)
    }

    /// Gives `to` the content of the object `from`.
    fn take_object(&self, from: &str, to: &Path, bytes: u64) -> Result<()> {
        let path = self.path(from);
        let expected = Expected { bytes, blake3: None };
        if !self.is(&path, &expected)? {
            let message = format!("this is not a regular file of {bytes} bytes, as it should be");
            return Err(Error::corrupt(message).in_file(&path));
        }
        self.take(&path, to, &expected)
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
            match content {
                Content::File { path: from, bytes, blake3 } => {
                    let expected = Expected { bytes: *bytes, blake3: Some(blake3) };
                    self.take(from, &path, &expected)?;
                    progress(*bytes);
                }
                Content::Object { from, bytes } => {
                    self.take_object(from, &path, *bytes)?;
                    progress(0);
                }
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

    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        let is_intact = |(object, bytes): &(String, u64)| match self.disk.look(&self.path(object)) {
            Ok(found) => Ok(found == Entry::File(*bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        };
        objects.iter().map(is_intact).collect()
    }

    fn file(&self, object: &str) -> Option<PathBuf> {
        Some(self.path(object))
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        let is_left = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
        for name in self.names(folder, |dir| self.disk.list(dir), is_left)? {
            let path = self.path(folder).join(name);
            // Whoever is writing it holds its lock; but nobody that of a link, which may be gone.
            if let Ok(_lock) = self.disk.lock(&path) {
                match self.disk.remove(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// A name beside `path` that nobody else has, of what `sweep` removes.
fn temporary(path: &Path) -> PathBuf {
    let unique = RandomState::new().hash_one(std::process::id());
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{last}.{unique:016x}.tmp"))
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

/// `AlreadyExists` if a directory is in use for something else: there is more in it than empty
/// folders, and no folder has the versions or the files of a name.
pub(super) fn check_place(disk: &DiskRef, dir: &Path) -> Result<()> {
    let folders = match disk.list_dirs(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        folders => folders?,
    };
    let mut others = [disk.list(dir)?, disk.list_others(dir)?].concat();
    for folder in folders {
        let inside = dir.join(&folder);
        let within = disk.list_dirs(&inside)?;
        if within.iter().any(|name| [VERSIONS, FILES].contains(&name.as_str())) {
            return Ok(());
        }
        // An empty one may be the first step of another publisher.
        let is_empty = within.is_empty()
            && disk.list(&inside)?.is_empty()
            && disk.list_others(&inside)?.is_empty();
        if !is_empty {
            others.push(folder);
        }
    }
    let Some(name) = others.first() else { return Ok(()) };
    let message = format!("the directory has `{name}` in it and is no catalog; choose another one");
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}

/// The folders of a name: see `format.rs`.
const VERSIONS: &str = "versions";
const FILES: &str = "files";
