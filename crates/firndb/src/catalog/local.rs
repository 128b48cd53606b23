//! An origin in a local directory: each object is a file.
//!
//! Objects are created by a hard link, which fails if the name exists; that makes `create` atomic.
//! A rename would replace the existing object. Published files of the same file system are linked,
//! too, and not copied. The file system must support hard links.
//!
//! A source file may be replaced at any moment. Therefore it is first linked or copied to a
//! temporary name, then verified, and only then linked to the name of the object. So the name of an
//! object always refers to a file with the content that the name states.

use super::origin::{Content, Origin};
use crate::disk::{self, Append, DiskRef, Entry};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;

/// Attempts to create a temporary file, which a clean-up may remove as a leftover.
const ATTEMPTS: u32 = 16;

/// The stated content of an object.
struct Expected<'a> {
    bytes: u64,
    /// Unknown if the source is another object.
    blake3: Option<&'a str>,
}

/// The directory of the objects.
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

    /// Creates `path` with the bytes that `write` appends. The content is durable, the name is not.
    /// `AlreadyExists` if `path` exists.
    fn write(&self, path: &Path, write: impl FnOnce(&mut dyn Append) -> Result<()>) -> Result<()> {
        self.write_temporary(path, write, |temporary| self.disk.link(temporary, path))
    }

    /// Writes a temporary file next to `path`; `name` then gives it a name.
    fn write_temporary(
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
                // A clean-up has removed the file before its writer had locked it.
                Err(e) if e.kind() == ErrorKind::Locked && attempt < ATTEMPTS => {}
                created => break (temporary, created?),
            }
        };
        let written = write(&mut *file).and_then(|()| file.sync()).and_then(|()| name(&temporary));
        // Best effort: `sweep` removes what remains.
        let _ = self.disk.remove(&temporary);
        written
    }

    fn copy(&self, from: &Path, to: &Path, expected: &Expected) -> Result<()> {
        let map = self.disk.map(from)?;
        let write =
            |out: &mut dyn Append| map.chunks(PIECE).try_for_each(|piece| out.append(piece));
        self.write_temporary(to, write, |temporary| self.give_name(temporary, from, to, expected))
    }

    /// Creates `to` with the content of a file that is never modified. The content is durable, the
    /// name is not.
    fn link_or_copy(&self, from: &Path, to: &Path, expected: &Expected) -> Result<()> {
        // The creator of the file may not have synced it.
        self.disk.sync_file(from)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let temporary = temporary(to);
            let linked = match self.disk.link(from, &temporary) {
                Ok(()) => self.give_name(&temporary, from, to, expected),
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
                // The file is on another file system, or belongs to another user.
                Err(_) => return self.copy(from, to, expected),
            };
            // Best effort: `sweep` removes what remains.
            let _ = self.disk.remove(&temporary);
            match linked {
                // A clean-up has removed the link as a leftover, because links are not locked.
                Err(e)
                    if e.kind() == ErrorKind::NotFound
                        && e.file() == Some(&temporary)
                        && attempt < ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// Links a temporary file to its final name after verifying it. An existing file of that name
    /// is replaced only if it does not match.
    fn give_name(
        &self,
        temporary: &Path,
        from: &Path,
        to: &Path,
        expected: &Expected,
    ) -> Result<()> {
        if !self.matches(temporary, expected)? {
            let message = "the file was replaced or changed while it was being published";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(from));
        }
        match self.disk.link(temporary, to) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => match self.matches(to, expected) {
                // Stored by an earlier attempt, or by another publisher of the same file.
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => self.disk.rename(temporary, to),
            },
            named => named,
        }
    }

    /// Whether a file has the expected content. Compares every byte by the hash.
    fn matches(&self, path: &Path, expected: &Expected) -> Result<bool> {
        if self.disk.look(path)? != Entry::File(expected.bytes) {
            return Ok(false);
        }
        let Some(blake3) = expected.blake3 else { return Ok(true) };
        let map = self.disk.map(path)?;
        Ok(map.len() as u64 == expected.bytes && *blake3::hash(&map).to_hex() == *blake3)
    }

    /// Creates `to` with the content of the object `from`.
    fn copy_object(&self, from: &str, to: &Path, bytes: u64) -> Result<()> {
        let path = self.path(from);
        let expected = Expected { bytes, blake3: None };
        if !self.matches(&path, &expected)? {
            let message = format!("this is not a regular file of {bytes} bytes, as it should be");
            return Err(Error::corrupt(message).in_file(&path));
        }
        self.link_or_copy(&path, to, &expected)
    }

    /// The names that `list` returns; none if the directory is missing.
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
                    self.link_or_copy(from, &path, &expected)?;
                    progress(*bytes);
                }
                Content::Object { from, bytes } => {
                    self.copy_object(from, &path, *bytes)?;
                    progress(0);
                }
            }
        }
        // Includes existing objects: a run that died before this sync may have created their names.
        dirs.iter().try_for_each(|dir| self.disk.sync_dir(dir))
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(object);
        let name = |temporary: &Path| self.disk.rename(temporary, &path);
        self.write_temporary(&path, |out| out.append(bytes), name)?;
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
        let is_temporary = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
        for name in self.names(folder, |dir| self.disk.list(dir), is_temporary)? {
            let path = self.path(folder).join(name);
            // Writers hold a lock on their file. Links are not locked, and may be removed here.
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

/// A random name next to `path`, of the pattern that `sweep` removes.
fn temporary(path: &Path) -> PathBuf {
    let unique = RandomState::new().hash_one(std::process::id());
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{last}.{unique:016x}.tmp"))
}

/// `NotFound` if the directory does not exist.
pub(super) fn require(disk: &DiskRef, dir: &Path) -> Result<()> {
    match disk.list(dir) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::NotFound, "there is no catalog here").in_file(dir))
        }
        Err(e) => Err(e),
    }
}

/// `AlreadyExists` if a directory is used for something else: it has contents other than empty
/// folders, and no folder in it has the versions, files or staged files of a name.
pub(super) fn check_unused(disk: &DiskRef, dir: &Path) -> Result<()> {
    let folders = match disk.list_dirs(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        folders => folders?,
    };
    let mut others = [disk.list(dir)?, disk.list_others(dir)?].concat();
    for folder in folders {
        let inside = dir.join(&folder);
        let within = disk.list_dirs(&inside)?;
        if within.iter().any(|name| [VERSIONS, FILES, STAGED].contains(&name.as_str())) {
            return Ok(());
        }
        // An empty folder may be the first step of a concurrent publisher.
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

/// The folders of a name, see `format.rs`.
const VERSIONS: &str = "versions";
const FILES: &str = "files";
const STAGED: &str = "staged";
