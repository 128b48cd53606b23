//! The files of a reader on its own disk: fetched, checked, and removed when no longer needed.
//!
//! ```text
//! BLAKE3.firn             a file, whole: named so once its bytes were found to have this hash
//! .BLAKE3.part            one that is being fetched; the next attempt goes on where this one ended
//! version-NUMBER.json     the manifest of the version that was opened last
//! lock                    empty: its lock is the reader's
//! ```
//! `NUMBER` has 20 digits. From a catalog in a directory of the same file system, files are
//! hard-linked: they cost no space until the catalog has cleaned them away.

use super::format::{Version, VersionFile, decode, encode, twenty_digits};
use super::origin::Origin;
use super::share::Share;
use crate::disk::{self, DiskRef, Lock};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that a thread asks for at a time.
const PIECE: usize = 1 << 22;

pub(super) const LOCK: &str = "lock";

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
    disk: DiskRef,
    dir: PathBuf,
    /// The most bytes that files may take, of the version that is open and the next together.
    limit: u64,
    /// Who is told of files that come.
    share: Option<Share>,
    _lock: Box<dyn Lock>,
}

impl Cache {
    pub(super) fn open(disk: &DiskRef, dir: &Path, limit: u64) -> Result<Cache> {
        disk.create_dir_all(dir)?;
        let lock = disk.lock(&dir.join(LOCK))?;
        Ok(Cache { disk: disk.clone(), dir: dir.to_path_buf(), limit, share: None, _lock: lock })
    }

    /// Lets others read the files, too.
    pub(super) fn share(&mut self, name: &str, share: Share) -> Result<()> {
        share.begin(name, &self.disk, &self.dir)?;
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

    /// Fetches the files of a version that are not there, `open` being the one that is read.
    pub(super) fn fill(
        &self,
        version: &Version,
        open: Option<&Version>,
        fetch: Fetch<'_>,
    ) -> Result<Fetched> {
        self.check_limit(version, open)?;
        let there: HashSet<String> = self.disk.list(&self.dir)?.into_iter().collect();
        // Two files of a version may be equal.
        let missing: BTreeMap<&str, &VersionFile> =
            version.files.iter().map(|file| (file.blake3.as_str(), file)).collect();
        let mut missing: Vec<&VersionFile> = missing.into_values().collect();
        missing.retain(|file| !there.contains(&whole_name(file)));
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
        self.disk.rename(&part, &path)
    }

    /// Takes a file of this machine by a hard link; false if that cannot be.
    fn link(&self, local: &Path, file: &VersionFile) -> Result<bool> {
        let map = self.disk.map(local)?;
        check(file, map.len() as u64, &blake3::hash(&map)).map_err(|e| e.in_file(local))?;
        match self.disk.link(local, &self.path(file)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(true),
            Err(_) => Ok(false),
        }
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

    /// Writes down which version is open, for a start without the origin.
    pub(super) fn remember(&self, version: &Version) -> Result<()> {
        let path = self.dir.join(manifest_name(version.number));
        disk::publish(&*self.disk, &path, |out| out.append(encode(version).as_bytes()))
    }

    /// The version that was open last, if its files are all there.
    pub(super) fn remembered(&self, name: &str) -> Result<Option<Version>> {
        let there = self.disk.list(&self.dir)?;
        for file in there.iter().rev() {
            let Some(number) = manifest_number(file) else { continue };
            let bytes = self.disk.map(&self.dir.join(file))?;
            if let Ok(version) = decode(&bytes, name, number)
                && version.files.iter().all(|file| there.contains(&whole_name(file)))
            {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Removes everything but what `version` is made of.
    pub(super) fn clean(&self, version: &Version) -> Result<()> {
        let mut named: HashSet<String> = version.files.iter().map(whole_name).collect();
        named.extend([LOCK.to_string(), manifest_name(version.number)]);
        for name in self.disk.list(&self.dir)?.iter().filter(|name| !named.contains(*name)) {
            let is_ours = name.ends_with(".firn") || name.ends_with(".part");
            if is_ours || disk::is_temporary(name) || manifest_number(name).is_some() {
                self.disk.remove(&self.dir.join(name))?;
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

fn whole_name(file: &VersionFile) -> String {
    format!("{}.firn", file.blake3)
}

fn part_name(file: &VersionFile) -> String {
    format!(".{}.part", file.blake3)
}

/// Whether this is the name of a file that is fetched, or was.
pub(super) fn is_fetched(name: &str) -> bool {
    let whole = name.strip_suffix(".firn");
    let part = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    whole.or(part).is_some_and(is_hash)
}

fn manifest_name(number: u64) -> String {
    format!("version-{number:020}.json")
}

fn manifest_number(name: &str) -> Option<u64> {
    twenty_digits(name.strip_prefix("version-")?.strip_suffix(".json")?)
}
