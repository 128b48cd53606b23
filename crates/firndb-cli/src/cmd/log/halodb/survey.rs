//! The files of a HaloDB directory, and what in them can be read.
//!
//! A power cut leaves whatever it leaves at the end of the newest file of each kind: HaloDB drops
//! it when it opens the directory again, and so does the import. Damage anywhere else is a loss of
//! something that was there, and the caller decides whether to go on without it. The index file
//! beside a data file says where its records begin, so one damaged record costs no other.

use super::format::{Entry, Indexed, Kind, Meta, Window};
use firndb::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The files of a directory.
pub struct Survey {
    /// Data, then tombstones; each by its number.
    pub files: Vec<Source>,
    pub meta: Option<Meta>,
    /// Held while the files are read.
    _lock: Option<File>,
}

/// A file with records or tombstones.
pub struct Source {
    pub path: PathBuf,
    pub kind: Kind,
    pub bytes: u64,
    number: u64,
    /// There is none after it of its kind.
    is_last: bool,
}

/// Bytes that are no whole entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    pub path: PathBuf,
    pub kind: Kind,
    pub offset: u64,
    pub bytes: u64,
    /// At the end of the newest file: a write that a crash interrupted.
    pub is_torn: bool,
    /// The version that the first of the bytes state, if it is not 0.
    pub version: Option<u8>,
    /// Records that were here, as the index file says.
    pub records: Vec<Indexed>,
}

impl Survey {
    /// Lists the files and keeps HaloDB away from them. `NotFound` if HaloDB has none here,
    /// `Locked` if it is at work.
    pub fn new(dir: &Path) -> Result<Survey> {
        let lock = lock(dir)?;
        let mut files = Vec::new();
        let fail = |e| Error::io("list", dir, e);
        for entry in std::fs::read_dir(dir).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let Some((number, kind)) = name_of(&path) else { continue };
            let bytes = path.metadata().map_err(|e| Error::io("read", &path, e))?.len();
            if bytes > u32::MAX.into() {
                let message = "the file is longer than 4 GiB, and no file of HaloDB is";
                return Err(Error::corrupt(message).in_file(&path));
            }
            files.push(Source { path, kind, bytes, number, is_last: false });
        }
        let meta = std::fs::read(dir.join("META")).ok();
        if files.is_empty() && meta.is_none() {
            let message = "there are no files of HaloDB in this directory";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(dir));
        }
        files.sort_by_key(|file| (file.kind == Kind::Tombstones, file.number, file.kind));
        for kind in [Kind::Data, Kind::Compacted, Kind::Tombstones] {
            if let Some(last) = files.iter_mut().rfind(|file| file.kind == kind) {
                last.is_last = true;
            }
        }
        let meta = meta.and_then(|bytes| Meta::read(&bytes));
        Ok(Survey { files, meta, _lock: lock })
    }

    /// The directory was not closed properly.
    pub fn is_unclean(&self) -> bool {
        self.meta.is_none_or(|meta| meta.is_open || meta.has_failed)
    }
}

/// Takes the lock that HaloDB takes (Java's `FileChannel.tryLock`, which is that of fcntl), shared.
fn lock(dir: &Path) -> Result<Option<File>> {
    let path = dir.join("LOCK");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("open", &path, e)),
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            let message = "HaloDB has this directory open: close it, then try again";
            Err(Error::new(ErrorKind::Locked, message).in_file(dir))
        }
        Err(e) => Err(Error::io("lock", &path, e.into())),
    }
}

fn name_of(path: &Path) -> Option<(u64, Kind)> {
    let (number, extension) = path.file_name()?.to_str()?.split_once('.')?;
    let kind = match extension {
        "data" => Kind::Data,
        "datac" => Kind::Compacted,
        "tombstone" => Kind::Tombstones,
        _ => return None,
    };
    Some((number.parse().ok()?, kind))
}

impl Source {
    /// Gives `each` all entries with their offsets, and `dropped` what is between them.
    pub fn scan(
        &self,
        mut each: impl FnMut(u64, &Entry) -> Result<()>,
        mut dropped: impl FnMut(Dropped) -> Result<()>,
    ) -> Result<()> {
        let mut window = Window::open(&self.path)?;
        let mut at = 0;
        let mut index = None;
        while at < window.len() {
            if let Some(entry) = window.entry(self.kind, at)? {
                each(at, &entry)?;
                at += entry.length;
                continue;
            }
            let index: &Vec<Indexed> = match &mut index {
                Some(index) => index,
                none => none.insert(self.index()?),
            };
            let next = self.resume(&mut window, at, index)?;
            let end = next.unwrap_or(window.len());
            let within = begins_before(index, at)..begins_before(index, end);
            dropped(Dropped {
                path: self.path.clone(),
                kind: self.kind,
                offset: at,
                bytes: end - at,
                is_torn: next.is_none() && self.is_last,
                version: window.version(at)?.filter(|&version| version != 0),
                records: index[within].to_vec(),
            })?;
            at = end;
        }
        Ok(())
    }

    /// The first whole entry behind a damaged one at `at`: there is one where the damaged one says
    /// it ends, or where the index says, or, for tombstones, which have no index, anywhere.
    fn resume(&self, window: &mut Window, at: u64, index: &[Indexed]) -> Result<Option<u64>> {
        let stated = window.stated_end(self.kind, at)?.filter(|&end| end > at);
        let behind = &index[begins_before(index, at + 1)..];
        let anywhere = match self.kind {
            Kind::Tombstones => at + 1..window.len(),
            _ => 0..0,
        };
        let mut found = None;
        for place in stated.into_iter().chain(behind.iter().map(|i| i.offset)).chain(anywhere) {
            if found.is_some_and(|found| place >= found) {
                // The place that was stated is first, the others ascend.
                break;
            }
            if window.entry(self.kind, place)?.is_some() {
                found = Some(place);
            }
        }
        Ok(found)
    }

    /// What the index file says; nothing if there is none.
    fn index(&self) -> Result<Vec<Indexed>> {
        let path = self.path.with_extension("index");
        if self.kind == Kind::Tombstones || !path.exists() {
            return Ok(Vec::new());
        }
        let mut index = Window::open(&path)?.index()?;
        index.sort_by_key(|indexed| indexed.offset);
        Ok(index)
    }
}

/// How many records begin before this offset.
fn begins_before(index: &[Indexed], offset: u64) -> usize {
    index.partition_point(|indexed| indexed.offset < offset)
}
