//! The files of a reader on its own disk: fetched, checked, and removed when no longer needed.
//!
//! ```text
//! firndb-cache            marks the directory as a cache; its text is always the same
//! BLAKE3.firn             a file, whole: named so once its bytes were found to have this hash
//! .BLAKE3.part            one that is being fetched; the next attempt goes on where this one ended
//! version-NUMBER.json     the manifest of the version that was opened last
//! lock                    empty: its lock is the reader's
//! ```
//! Nothing else is ever removed, and nothing at all is written to a directory that is neither empty
//! nor marked. The directory is held open: if its path names another one, that one is not touched.
//!
//! `NUMBER` has 20 digits. From a catalog in a directory of the same file system, files are
//! hard-linked: they cost no space until the catalog has cleaned them away.

use super::cache_dir::{
    WHOLE, claim, hash_file, is_own, manifest_name, manifest_number, part_name, whole_name,
};
use super::format::{Version, VersionFile, decode, encode};
use super::origin::Origin;
use super::share::Share;
use crate::disk::{self, DiskRef, Entry, Lock};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a thread asks for at a time.
const PIECE: usize = 1 << 22;

const LOCK: &str = "lock";

/// What was fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// How files are fetched.
#[derive(Clone, Copy)]
pub(super) struct Fetch<'a> {
    pub(super) origin: &'a dyn Origin,
    pub(super) threads: usize,
    /// Is told of bytes as they arrive.
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

/// A directory of files, locked for one reader.
pub(super) struct Cache {
    /// Finds the directory by its descriptor, which holds a lock on it.
    disk: DiskRef,
    /// Finds it, too, and holds no lock: for what may outlive the reader.
    reading: DiskRef,
    dir: PathBuf,
    /// The most bytes that files may take, of the version that is open and the next together.
    limit: u64,
    /// Who is told of files that come.
    share: Option<Share>,
    /// BLAKE3 of the files whose bytes were compared with it since the cache was opened.
    checked: Mutex<HashSet<String>>,
    lock: Box<dyn Lock>,
}

impl Cache {
    /// Opens the cache in a directory. One that is missing or empty becomes a cache;
    /// `AlreadyExists` if the directory is used for anything else.
    pub(super) fn open(disk: &DiskRef, dir: &Path, limit: u64) -> Result<Cache> {
        disk.create_dir_all(dir)?;
        let disk = disk.clone().hold(dir)?;
        claim(&disk, dir)?;
        Cache::lock(disk, dir, LOCK, limit)
    }

    /// A cache without a mark in a directory of which the caller knows what is in it; the file
    /// `lock` is its lock.
    pub(super) fn unmarked(disk: &DiskRef, dir: &Path, lock: &str) -> Result<Cache> {
        disk.create_dir_all(dir)?;
        let disk = disk.clone().hold(dir)?;
        let cache = Cache::lock(disk, dir, lock, u64::MAX)?;
        // The caller tells its leftovers by the lock.
        cache.disk.sync_dir(dir)?;
        Ok(cache)
    }

    fn lock(disk: DiskRef, dir: &Path, lock: &str, limit: u64) -> Result<Cache> {
        let lock = disk.lock(&dir.join(lock))?;
        let reading = disk.clone().hold(dir)?;
        let (dir, checked) = (dir.to_path_buf(), Mutex::default());
        let cache = Cache { disk, reading, dir, limit, share: None, checked, lock };
        // The same directory was held each time.
        cache.check_place()?;
        cache.reading.check_held()?;
        Ok(cache)
    }

    /// `Failed` if the path of the cache names another directory now.
    pub(super) fn check_place(&self) -> Result<()> {
        self.disk.check_held()?;
        self.lock.check()
    }

    /// A disk that finds the directory wherever it was moved, for files that are to be read.
    pub(super) fn reading(&self) -> &DiskRef {
        &self.reading
    }

    /// Lets others read the files, too.
    pub(super) fn share(&mut self, name: &str, share: Share) -> Result<()> {
        share.begin(name, &self.reading, &self.dir)?;
        self.share = Some(share);
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a file is once it is there.
    pub(super) fn path(&self, file: &VersionFile) -> PathBuf {
        self.dir.join(whole_name(file))
    }

    /// Fetches the files of a version that are not there or are damaged, `open` being the version
    /// that is to stay. What belongs to neither is removed first: it takes space.
    pub(super) fn fill(
        &self,
        version: &Version,
        open: Option<&Version>,
        fetch: Fetch<'_>,
    ) -> Result<Fetched> {
        self.check_place()?;
        self.check_limit(version, open)?;
        let stay: Vec<&Version> = open.into_iter().chain([version]).collect();
        self.remove_others(&stay, Some(version))?;
        let there: HashSet<String> = self.disk.list(&self.dir)?.into_iter().collect();
        // Two files of a version may be equal.
        let files: BTreeMap<&str, &VersionFile> =
            version.files.iter().map(|file| (file.blake3.as_str(), file)).collect();
        let files: Vec<&VersionFile> = files.into_values().collect();
        let mut missing = self.missing(&files, fetch.threads);
        missing.sort_by_key(|file| !fetch.origin.is_awaited(&version.object(file)));
        if let Some(share) = &self.share {
            share.expect(version.number, missing.iter().map(|file| file.blake3.as_str()));
        }
        if missing.is_empty() {
            return Ok(Fetched::default());
        }
        fetch.origin.begin();
        let fetched = self.fetch_all(version, &missing, &there, fetch);
        self.share.iter().for_each(Share::rest);
        fetched?;
        self.disk.sync_dir(&self.dir)?;
        let bytes = missing.iter().map(|file| file.bytes).sum();
        Ok(Fetched { files: missing.len() as u64, bytes })
    }

    fn fetch_all(
        &self,
        version: &Version,
        missing: &[&VersionFile],
        there: &HashSet<String>,
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let workers = fetch.threads.clamp(1, missing.len());
        let lanes = (fetch.threads / missing.len()).max(1);
        let is_resumed = |file: &VersionFile| there.contains(&part_name(file));
        let work = || {
            while let Some(file) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.fetch_one(version, file, lanes, is_resumed(file), fetch) {
                    Ok(()) => self.share.iter().for_each(|share| share.came(&file.blake3)),
                    Err(error) => {
                        next.store(missing.len(), Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (1..workers).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn check_limit(&self, version: &Version, open: Option<&Version>) -> Result<()> {
        let all = version.files.iter().chain(open.iter().flat_map(|open| &open.files));
        let sizes: BTreeMap<&str, u64> = all.map(|f| (f.blake3.as_str(), f.bytes)).collect();
        let bytes = sizes.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        if bytes <= self.limit {
            return Ok(());
        }
        let message = format!(
            "version {} of `{}` beside the one that is open takes {bytes} bytes of disk, and {} \
             are allowed",
            version.number, version.name, self.limit
        );
        Err(Error::invalid(message).in_file(&self.dir))
    }

    fn fetch_one(
        &self,
        version: &Version,
        file: &VersionFile,
        lanes: usize,
        is_resumed: bool,
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let object = version.object(file);
        let path = self.path(file);
        if let Some(local) = fetch.origin.file(&object)
            && self.link(&disk::follow(&*self.disk, &local)?, file)?
        {
            self.note_checked(file);
            (fetch.progress)(file.bytes);
            return Ok(());
        }
        let part = self.dir.join(part_name(file));
        let download = || {
            let done = self.download(&object, file, &part, lanes, fetch);
            if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
                self.disk.remove(&part)?; // What is there is not what should be.
            }
            done
        };
        let mut done = download();
        // A power cut may have torn what an earlier attempt had left.
        let mut is_torn = is_resumed;
        while done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt)
            && (std::mem::take(&mut is_torn) || fetch.origin.reject(&object))
        {
            done = download();
        }
        done?;
        self.disk.rename(&part, &path)?;
        self.note_checked(file);
        Ok(())
    }

    /// Takes a file of this machine by a hard link; false if that cannot be. The name of the local
    /// file may be given to another one at any moment, so the link is what is checked.
    fn link(&self, local: &Path, file: &VersionFile) -> Result<bool> {
        let path = self.path(file);
        let linked = match self.disk.link(local, &path) {
            // A damaged one: a good one would not have been asked for.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                self.disk.remove(&path)?;
                self.disk.link(local, &path)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
            Err(_) => return Ok(false),
        }
        let checked = hash_file(&self.disk, &path);
        let checked = checked.and_then(|(bytes, hash)| check(file, bytes, &hash));
        if let Err(e) = checked {
            self.disk.remove(&path)?;
            return Err(e.in_file(local));
        }
        Ok(true)
    }

    /// Fetches what is missing at the end of `part`, and checks the whole.
    fn download(
        &self,
        object: &str,
        file: &VersionFile,
        part: &Path,
        lanes: usize,
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let mut hash = blake3::Hasher::new();
        let (mut out, mut at) = match self.disk.create(part) {
            Ok(out) => (out, 0),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let there = self.disk.map(part)?;
                hash.update(&there);
                (self.disk.reopen(part)?, there.len() as u64)
            }
            Err(e) => return Err(e),
        };
        (fetch.progress)(at);
        while at < file.bytes {
            for piece in read_pieces(fetch.origin, object, at, file.bytes, lanes)? {
                hash.update(&piece);
                out.append(&piece)?;
                at += piece.len() as u64;
                (fetch.progress)(piece.len() as u64);
                self.share.iter().for_each(Share::moved);
            }
        }
        check(file, at, &hash.finalize()).map_err(|e| e.in_file(object.as_ref()))?;
        out.sync()
    }

    /// Those of the files that are not here as they should be. The bytes of each file are compared
    /// with its hash once; after that its length is.
    fn missing<'a>(&self, files: &[&'a VersionFile], threads: usize) -> Vec<&'a VersionFile> {
        let (next, missing) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !self.is_whole(file) {
                    missing.lock().unwrap_or_else(PoisonError::into_inner).push(*file);
                }
            }
        };
        std::thread::scope(|scope| {
            (1..threads.min(files.len())).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        missing.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file is here with all of its bytes. One that cannot be read is not: another takes
    /// its place.
    fn is_whole(&self, file: &VersionFile) -> bool {
        if !self.has(file) {
            return false;
        }
        if self.checked().contains(&file.blake3) {
            return true;
        }
        let hashed = hash_file(&self.disk, &self.path(file));
        let is_whole = hashed.is_ok_and(|(bytes, hash)| check(file, bytes, &hash).is_ok());
        if is_whole {
            self.note_checked(file);
        }
        is_whole
    }

    /// Whether a file of the right length is here.
    fn has(&self, file: &VersionFile) -> bool {
        self.disk.look(&self.path(file)).is_ok_and(|found| found == Entry::File(file.bytes))
    }

    fn checked(&self) -> MutexGuard<'_, HashSet<String>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_checked(&self, file: &VersionFile) {
        self.checked().insert(file.blake3.clone());
    }

    /// Writes down which version is open, for a start without the origin.
    pub(super) fn remember(&self, version: &Version) -> Result<()> {
        self.check_place()?;
        let path = self.dir.join(manifest_name(version.number));
        disk::publish(&*self.disk, &path, |out| out.append(encode(version).as_bytes()))
    }

    /// The version that was open last, if its files are all there in their full length.
    pub(super) fn remembered(&self, name: &str) -> Result<Option<Version>> {
        for file in self.disk.list(&self.dir)?.iter().rev() {
            let Some(number) = manifest_number(file) else { continue };
            let bytes = self.disk.map(&self.dir.join(file))?;
            if let Ok(version) = decode(&bytes, name, number)
                && version.files.iter().all(|file| self.has(file))
            {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Removes the files of all versions but this one.
    pub(super) fn clean(&self, version: &Version) -> Result<()> {
        self.check_place()?;
        self.remove_others(&[version], None)
    }

    /// Removes what belongs to none of the versions that `stay`, and parts of files unless they are
    /// of the version that is `coming`. Only files that a cache has made are removed.
    fn remove_others(&self, stay: &[&Version], coming: Option<&Version>) -> Result<()> {
        let whole = stay.iter().flat_map(|version| &version.files).map(whole_name);
        let parts = coming.iter().flat_map(|version| &version.files).map(part_name);
        let manifests = stay.iter().map(|version| manifest_name(version.number));
        let named: HashSet<String> = whole.chain(parts).chain(manifests).collect();
        let mut checked = self.checked();
        for name in self.disk.list(&self.dir)? {
            if is_own(&name) && !named.contains(&name) {
                self.disk.remove(&self.dir.join(&name))?;
                if let Some(hash) = name.strip_suffix(WHOLE) {
                    checked.remove(hash);
                }
            }
        }
        Ok(())
    }
}

/// The bytes from `at` on, in pieces that are fetched at the same time.
fn read_pieces(
    origin: &dyn Origin,
    object: &str,
    at: u64,
    end: u64,
    lanes: usize,
) -> Result<Vec<Vec<u8>>> {
    let starts: Vec<u64> = (at..end).step_by(PIECE).take(lanes).collect();
    let read = |start: u64| {
        let len = (end - start).min(PIECE as u64) as usize;
        let piece = origin.read(object, start, len)?;
        if piece.len() == len {
            return Ok(piece);
        }
        let message = format!("only {} of {len} bytes from {start} on were given", piece.len());
        Err(Error::new(ErrorKind::Io, message).in_file(object.as_ref()))
    };
    if let [start] = starts[..] {
        return Ok(vec![read(start)?]);
    }
    let failed = || Error::new(ErrorKind::Io, "a thread that was fetching died");
    std::thread::scope(|scope| {
        let read = &read;
        let lanes: Vec<_> = starts.iter().map(|&s| scope.spawn(move || read(s))).collect();
        lanes.into_iter().map(|lane| lane.join().map_err(|_| failed())?).collect()
    })
}

fn check(file: &VersionFile, bytes: u64, hash: &blake3::Hash) -> Result<()> {
    if bytes == file.bytes && hash.to_hex().as_str() == file.blake3 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{bytes} bytes with BLAKE3 {}, but the manifest names {} bytes with {} for {}",
        hash.to_hex(),
        file.bytes,
        file.blake3,
        file.name
    )))
}
