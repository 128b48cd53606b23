//! The files of a HaloDB directory, and whether HaloDB closed it.

use super::format::{Kind, Meta, open};
use firndb::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files of a directory.
pub struct Survey {
    dir: PathBuf,
    /// Data, tombstones, indexes; each by its number.
    pub files: Vec<Source>,
    pub state: State,
    /// Held while the files are read.
    _lock: Option<File>,
}

/// What META says of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub stop: Stop,
    /// META has a checksum that is not that of its bytes. HaloDB does not check it, and what META
    /// says is taken.
    pub is_meta_altered: bool,
}

/// How HaloDB stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Closed,
    /// It did not close the directory, or had an I/O error: what it wrote last may be torn.
    Crashed,
    /// There is no META. There is none in a snapshot, whose files are all complete.
    Unknown,
    /// META has not the length of a META file.
    Damaged,
}

/// A file with entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub path: PathBuf,
    pub kind: Kind,
    pub bytes: u64,
    pub number: u64,
    /// HaloDB crashed, and this is the newest file of its kind: its end may be torn.
    pub may_be_torn: bool,
}

impl Survey {
    /// Lists the files and keeps HaloDB away from them. `NotFound` if HaloDB has none here,
    /// `Locked` if it is at work, `UnsupportedVersion` if META is of another version.
    pub fn new(dir: &Path) -> Result<Survey> {
        let lock = lock(dir)?;
        let meta = read_meta(&dir.join("META"))?;
        let mut files = list(dir)?;
        if files.is_empty() && meta.is_none() {
            let message = "there are no files of HaloDB in this directory";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(dir));
        }
        let state = state_of(dir, meta.as_deref())?;
        if state.stop == Stop::Crashed {
            for kind in [Kind::Data, Kind::Compacted, Kind::Tombstones] {
                if let Some(last) = files.iter_mut().rfind(|file| file.kind == kind) {
                    last.may_be_torn = true;
                }
            }
        }
        Ok(Survey { dir: dir.to_path_buf(), files, state, _lock: lock })
    }

    /// `Failed` if files came, went or changed their lengths since.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = list(&self.dir)?;
        let names = |files: &[Source]| -> Vec<(PathBuf, u64)> {
            files.iter().map(|file| (file.path.clone(), file.bytes)).collect()
        };
        let meta = read_meta(&self.dir.join("META"))?;
        let state = state_of(&self.dir, meta.as_deref())?;
        if names(&now) == names(&self.files) && state == self.state {
            return Ok(());
        }
        let message = "the directory changed while it was read; close HaloDB, then try again";
        Err(Error::new(ErrorKind::Failed, message).in_file(&self.dir))
    }
}

/// The files with entries. `Corrupt` if one has a name or a length that HaloDB gives to none.
fn list(dir: &Path) -> Result<Vec<Source>> {
    let mut files = Vec::new();
    let fail = |e| Error::io("list", dir, e);
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some((number, kind)) = name_of(&path)? else { continue };
        // The length only; what is no regular file is refused.
        let (_, bytes) = open(&path)?;
        if bytes > u32::MAX.into() {
            let message = "the file is longer than 4 GiB, and no file of HaloDB is";
            return Err(Error::corrupt(message).in_file(&path));
        }
        files.push(Source { path, kind, bytes, number, may_be_torn: false });
    }
    let rank = |kind: Kind| if kind.is_data() { Kind::Data } else { kind };
    files.sort_by(|a, b| {
        let order = |f: &Source| (rank(f.kind), f.number, f.kind);
        order(a).cmp(&order(b)).then_with(|| a.path.cmp(&b.path))
    });
    Ok(files)
}

fn state_of(dir: &Path, meta: Option<&[u8]>) -> Result<State> {
    let Some(bytes) = meta else {
        return Ok(State { stop: Stop::Unknown, is_meta_altered: false });
    };
    let Some(meta) = Meta::read(bytes) else {
        return Ok(State { stop: Stop::Damaged, is_meta_altered: false });
    };
    if meta.version != 0 {
        let message = format!("META has version {}; the import knows version 0", meta.version);
        let error = Error::new(ErrorKind::UnsupportedVersion, message);
        return Err(error.in_file(&dir.join("META")));
    }
    let stop = if meta.is_open || meta.has_failed { Stop::Crashed } else { Stop::Closed };
    Ok(State { stop, is_meta_altered: !meta.is_intact })
}

/// The first bytes of META, so many that a wrong length is seen; `None` if there is no META.
fn read_meta(path: &Path) -> Result<Option<Vec<u8>>> {
    let (file, _) = match open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(100).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    Ok(Some(bytes))
}

/// Takes the lock that HaloDB takes (Java's `FileChannel.tryLock`, which is that of fcntl), shared.
fn lock(dir: &Path) -> Result<Option<File>> {
    let path = dir.join("LOCK");
    let file = match open(&path) {
        Ok((file, _)) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
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

/// What a file is by its name: `None` if it is none that has entries.
fn name_of(path: &Path) -> Result<Option<(u64, Kind)>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((digits, extension)) = name.split_once('.') else { return Ok(None) };
    let kind = match extension {
        "data" => Kind::Data,
        "datac" => Kind::Compacted,
        "tombstone" => Kind::Tombstones,
        "index" => Kind::Index,
        _ => return Ok(None),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    match digits.parse() {
        Ok(number) => Ok(Some((number, kind))),
        Err(_) => {
            let message = "the number of this file is none that HaloDB gives";
            Err(Error::corrupt(message).in_file(path))
        }
    }
}
