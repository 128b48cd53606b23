//! The cache of a reader: a local directory with the files of the open version. Files are fetched,
//! verified, and removed once no version that the reader uses lists them.
//!
//! ```text
//! firndb-cache            marks the directory as a cache; the content is constant
//! BLAKE3.firn             a complete file; gets this name once its hash is verified
//! .BLAKE3.part            a file that is being fetched; an interrupted fetch is resumed from it
//! version-NUMBER.json     the manifest of the version that was opened last
//! lock                    an empty file, locked by the reader
//! ```
//! `NUMBER` has 20 digits. Only files of these names are ever removed, and nothing is written to a
//! directory that is neither empty nor marked. The directory is held open by descriptor: if its
//! path comes to name another directory, that directory is not touched.
//!
//! If the catalog is a directory on the same file system, files are hard-linked. They use no extra
//! space until the catalog removes them.

use super::cache_dir::{
    WHOLE, claim, hash_file, is_own, manifest_name, manifest_number, part_name, whole_name,
};
use super::share::Share;
use crate::catalog::format::{Version, VersionFile, decode, encode};
use crate::catalog::origin::Origin;
use crate::disk::{self, DiskRef, Entry, Lock};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes per read of the origin.
const PIECE: usize = 1 << 22;

const LOCK: &str = "lock";

/// What a fetch has transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// How files are fetched.
#[derive(Clone, Copy)]
pub(crate) struct Fetch<'a> {
    pub(crate) origin: &'a dyn Origin,
    pub(crate) threads: usize,
    /// Called with the number of bytes each time some arrive.
    pub(crate) progress: &'a (dyn Fn(u64) + Sync),
}

/// The cache directory, locked for one reader.
pub(crate) struct Cache {
    /// Resolves the directory by a descriptor, which holds a lock on it.
    disk: DiskRef,
    /// Resolves the directory by a descriptor without a lock, for files that may outlive the
    /// reader.
    unlocked_disk: DiskRef,
    dir: PathBuf,
    /// Limit in bytes for the files of the open version and the next version together.
    limit: u64,
    /// Reports fetched files to other machines.
    share: Option<Share>,
    /// BLAKE3 hashes of the files that were verified since the cache was opened.
    verified: Mutex<HashSet<String>>,
    lock: Box<dyn Lock>,
}

impl Cache {
    /// Opens the cache in a directory, and creates it if the directory is missing or empty.
    /// `AlreadyExists` if the directory has other contents; `Locked` if another reader uses it.
    pub(crate) fn open(disk: &DiskRef, dir: &Path, limit: u64) -> Result<Cache> {
        disk.create_dir_all(dir)?;
        let disk = disk.clone().hold(dir)?;
        claim(&disk, dir)?;
        Cache::lock(disk, dir, LOCK, limit)
    }

    /// Opens a directory as a cache without the mark, with `lock` as its lock file. The caller has
    /// checked the contents of the directory.
    pub(crate) fn unmarked(disk: &DiskRef, dir: &Path, lock: &str) -> Result<Cache> {
        disk.create_dir_all(dir)?;
        let disk = disk.clone().hold(dir)?;
        let cache = Cache::lock(disk, dir, lock, u64::MAX)?;
        // The caller recognizes its leftovers by the lock file, so that must be durable first.
        cache.disk.sync_dir(dir)?;
        Ok(cache)
    }

    fn lock(disk: DiskRef, dir: &Path, lock: &str, limit: u64) -> Result<Cache> {
        let lock = disk.lock(&dir.join(lock))?;
        let unlocked_disk = disk.clone().hold(dir)?;
        let (dir, verified) = (dir.to_path_buf(), Mutex::default());
        let cache = Cache { disk, unlocked_disk, dir, limit, share: None, verified, lock };
        // Both descriptors and the lock must refer to the same directory.
        cache.check_dir()?;
        cache.unlocked_disk.check_held()?;
        Ok(cache)
    }

    /// `Failed` if the path of the cache now names another directory.
    pub(crate) fn check_dir(&self) -> Result<()> {
        self.disk.check_held()?;
        self.lock.check()
    }

    /// A disk that finds the directory even after it was moved and holds no lock. Files are opened
    /// with it.
    pub(crate) fn unlocked_disk(&self) -> &DiskRef {
        &self.unlocked_disk
    }

    /// Exposes the files to other machines.
    pub(crate) fn share(&mut self, name: &str, share: Share) -> Result<()> {
        share.attach(name, &self.unlocked_disk, &self.dir)?;
        self.share = Some(share);
        Ok(())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file that has been fetched.
    pub(crate) fn path(&self, file: &VersionFile) -> PathBuf {
        self.dir.join(whole_name(file))
    }

    /// Fetches the files of a version that are missing or damaged. The version `open` stays in use;
    /// files that neither version lists are removed first, to free space.
    pub(crate) fn fill(
        &self,
        version: &Version,
        open: Option<&Version>,
        fetch: Fetch<'_>,
    ) -> Result<Fetched> {
        self.check_dir()?;
        self.check_limit(version, open)?;
        let keep: Vec<&Version> = open.into_iter().chain([version]).collect();
        self.remove_others(&keep, Some(version))?;
        let present: HashSet<String> = self.disk.list(&self.dir)?.into_iter().collect();
        // Keyed by hash, because two files of a version may be equal.
        let files: BTreeMap<&str, &VersionFile> =
            version.files.iter().map(|file| (file.blake3.as_str(), file)).collect();
        let files: Vec<&VersionFile> = files.into_values().collect();
        let mut missing = self.missing(&files, fetch.threads);
        missing.sort_by_key(|file| !fetch.origin.is_awaited(&version.object(file)));
        if let Some(share) = &self.share {
            share.fetching(version.number, missing.iter().map(|file| file.blake3.as_str()));
        }
        if missing.is_empty() {
            return Ok(Fetched::default());
        }
        fetch.origin.begin();
        let fetched = self.fetch_all(version, &missing, &present, fetch);
        self.share.iter().for_each(Share::fetch_ended);
        fetched?;
        self.disk.sync_dir(&self.dir)?;
        let bytes = missing.iter().map(|file| file.bytes).sum();
        Ok(Fetched { files: missing.len() as u64, bytes })
    }

    fn fetch_all(
        &self,
        version: &Version,
        missing: &[&VersionFile],
        present: &HashSet<String>,
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let workers = fetch.threads.clamp(1, missing.len());
        let lanes = (fetch.threads / missing.len()).max(1);
        let is_resumed = |file: &VersionFile| present.contains(&part_name(file));
        let work = || {
            while let Some(file) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.fetch_one(version, file, lanes, is_resumed(file), fetch) {
                    Ok(()) => self.share.iter().for_each(|share| share.fetched(&file.blake3)),
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
            self.mark_verified(file);
            (fetch.progress)(file.bytes);
            return Ok(());
        }
        let part = self.dir.join(part_name(file));
        let download = || {
            let done = self.download(&object, file, &part, lanes, fetch);
            if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
                self.disk.remove(&part)?; // Wrong content must not be resumed.
            }
            done
        };
        let mut done = download();
        // A power loss may have damaged what an earlier attempt had fetched.
        let mut is_torn = is_resumed;
        while done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt)
            && (std::mem::take(&mut is_torn) || fetch.origin.reject(&object))
        {
            done = download();
        }
        done?;
        self.disk.rename(&part, &path)?;
        self.mark_verified(file);
        Ok(())
    }

    /// Hard-links a file of this machine into the cache. Returns `false` if that is not possible.
    /// The hash is verified through the link, because the local path may be replaced at any time.
    fn link(&self, local: &Path, file: &VersionFile) -> Result<bool> {
        let path = self.path(file);
        let linked = match self.disk.link(local, &path) {
            // A damaged file: intact ones are not fetched again.
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

    /// Fetches the rest of `part`, and verifies the hash of the whole file.
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
                let fetched = self.disk.map(part)?;
                hash.update(&fetched);
                (self.disk.reopen(part)?, fetched.len() as u64)
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
                self.share.iter().for_each(Share::progressed);
            }
        }
        check(file, at, &hash.finalize()).map_err(|e| e.in_file(object.as_ref()))?;
        out.sync()
    }

    /// The files that are missing or damaged. Each file is hashed once per opening of the cache;
    /// after that only its length is compared.
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

    /// Whether the cache has a file, complete and intact. A file that cannot be read counts as
    /// damaged and is replaced.
    fn is_whole(&self, file: &VersionFile) -> bool {
        if !self.has(file) {
            return false;
        }
        if self.verified().contains(&file.blake3) {
            return true;
        }
        let hashed = hash_file(&self.disk, &self.path(file));
        let is_whole = hashed.is_ok_and(|(bytes, hash)| check(file, bytes, &hash).is_ok());
        if is_whole {
            self.mark_verified(file);
        }
        is_whole
    }

    /// Whether the cache has a file of the right length.
    fn has(&self, file: &VersionFile) -> bool {
        self.disk.look(&self.path(file)).is_ok_and(|found| found == Entry::File(file.bytes))
    }

    fn verified(&self) -> MutexGuard<'_, HashSet<String>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_verified(&self, file: &VersionFile) {
        self.verified().insert(file.blake3.clone());
    }

    /// Records the open version, so that the reader can start while the origin is unavailable.
    pub(crate) fn set_last_open(&self, version: &Version) -> Result<()> {
        self.check_dir()?;
        let path = self.dir.join(manifest_name(version.number));
        disk::publish(&*self.disk, &path, |out| out.append(encode(version).as_bytes()))
    }

    /// The version that was open last, if all of its files are present with their full lengths.
    pub(crate) fn last_open(&self, name: &str) -> Result<Option<Version>> {
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

    /// Removes the files of all other versions.
    pub(crate) fn clean(&self, version: &Version) -> Result<()> {
        self.check_dir()?;
        self.remove_others(&[version], None)
    }

    /// Removes files that none of the versions in `keep` lists, and partly fetched files unless the
    /// version `fetching` lists them. Touches only files that a cache creates.
    fn remove_others(&self, keep: &[&Version], fetching: Option<&Version>) -> Result<()> {
        let whole = keep.iter().flat_map(|version| &version.files).map(whole_name);
        let parts = fetching.iter().flat_map(|version| &version.files).map(part_name);
        let manifests = keep.iter().map(|version| manifest_name(version.number));
        let named: HashSet<String> = whole.chain(parts).chain(manifests).collect();
        let mut verified = self.verified();
        for name in self.disk.list(&self.dir)? {
            if is_own(&name) && !named.contains(&name) {
                self.disk.remove(&self.dir.join(&name))?;
                if let Some(hash) = name.strip_suffix(WHOLE) {
                    verified.remove(hash);
                }
            }
        }
        Ok(())
    }
}

/// Reads the bytes from `at` on, in several pieces that are fetched concurrently.
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
