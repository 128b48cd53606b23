//! The files of a HaloDB directory, and whether HaloDB closed it.

use crate::halodb::format::{Meta, open};
use crate::halodb::report::{FileKind, Shutdown, State};
use firndb::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files of a directory.
pub(crate) struct Directory {
    dir: PathBuf,
    /// Data, tombstones, indexes; each in the order of its numbers.
    pub(crate) files: Vec<DataFile>,
    pub(crate) state: State,
    /// HaloDB's own lock, held while the files are read.
    _lock: Option<File>,
}

/// A file with entries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
    pub(crate) bytes: u64,
    pub(crate) number: u64,
    /// HaloDB crashed, and this is the newest file of its kind: it may have a torn tail.
    pub(crate) may_be_torn: bool,
}

impl Directory {
    /// Lists the files and takes HaloDB's lock. `NotFound` if there are no files of HaloDB, `Locked`
    /// if HaloDB has the directory open, `UnsupportedVersion` if META is of an unknown version.
    pub(crate) fn open(dir: &Path) -> Result<Directory> {
        let lock = lock(dir)?;
        let meta = read_meta(&dir.join("META"))?;
        let mut files = list(dir)?;
        if files.is_empty() && meta.is_none() {
            let message = "there are no files of HaloDB in this directory";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(dir));
        }
        let state = state_of(dir, meta.as_deref())?;
        if state.shutdown == Shutdown::Crashed {
            for kind in [FileKind::Data, FileKind::Compacted, FileKind::Tombstones] {
                if let Some(last) = files.iter_mut().rfind(|file| file.kind == kind) {
                    last.may_be_torn = true;
                }
            }
        }
        Ok(Directory { dir: dir.to_path_buf(), files, state, _lock: lock })
    }

    /// `Failed` if files were added, removed or changed their lengths since.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let now = list(&self.dir)?;
        let names = |files: &[DataFile]| -> Vec<(PathBuf, u64)> {
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

/// The files with entries. `Corrupt` if one has a name or a length that HaloDB does not use.
fn list(dir: &Path) -> Result<Vec<DataFile>> {
    let mut files = Vec::new();
    let fail = |e| Error::io("list", dir, e);
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some((number, kind)) = name_of(&path)? else { continue };
        // For the length; also refuses anything but a regular file.
        let (_, bytes) = open(&path)?;
        if bytes > u32::MAX.into() {
            let message = "the file is longer than 4 GiB, and no file of HaloDB is";
            return Err(Error::corrupt(message).in_file(&path));
        }
        files.push(DataFile { path, kind, bytes, number, may_be_torn: false });
    }
    let rank = |kind: FileKind| if kind.is_data() { FileKind::Data } else { kind };
    files.sort_by(|a, b| {
        let order = |f: &DataFile| (rank(f.kind), f.number, f.kind);
        order(a).cmp(&order(b)).then_with(|| a.path.cmp(&b.path))
    });
    Ok(files)
}

fn state_of(dir: &Path, meta: Option<&[u8]>) -> Result<State> {
    let Some(bytes) = meta else {
        return Ok(State::new(Shutdown::Unknown, false));
    };
    let Some(meta) = Meta::read(bytes) else {
        return Ok(State::new(Shutdown::MetaDamaged, false));
    };
    if meta.version != 0 {
        let message = format!("META has version {}; the import knows version 0", meta.version);
        let error = Error::new(ErrorKind::UnsupportedVersion, message);
        return Err(error.in_file(&dir.join("META")));
    }
    let is_clean = !meta.is_open && !meta.has_failed;
    let shutdown = if is_clean { Shutdown::Clean } else { Shutdown::Crashed };
    Ok(State::new(shutdown, !meta.is_intact))
}

/// The first bytes of META, enough to detect a wrong length; `None` if there is no META.
fn read_meta(path: &Path) -> Result<Option<Vec<u8>>> {
    let (file, _) = match open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(100).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    Ok(Some(bytes))
}

/// Takes the lock that HaloDB takes (Java's `FileChannel.tryLock`, an fcntl lock), shared.
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

/// Number and kind of a file by its name; `None` if it has no entries.
fn name_of(path: &Path) -> Result<Option<(u64, FileKind)>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((digits, extension)) = name.split_once('.') else { return Ok(None) };
    let kind = match extension {
        "data" => FileKind::Data,
        "datac" => FileKind::Compacted,
        "tombstone" => FileKind::Tombstones,
        "index" => FileKind::Index,
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
