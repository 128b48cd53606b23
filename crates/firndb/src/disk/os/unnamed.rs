//! Files without a name: data that a process writes and reads back itself, such as the records of a
//! build that exceed its memory limit.
//!
//! No other user can open such a file, whatever the permissions of the directory: it never has a
//! name (`O_TMPFILE`), or, where the file system or the system does not support that, a random name
//! between its creation and its removal. It disappears with its last handle, also when the process
//! is killed, so there are no leftovers with data. Its mode is 0600.

use crate::disk::map::Map;
use crate::disk::poison::Poison;
use crate::disk::traits::{Append, Disk, ReadAt, cut};
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Only the owner can open these files.
const MODE: u32 = 0o600;
/// Prefix of the short-lived names; 16 hexadecimal digits follow.
const PREFIX: &str = ".firndb-spill-";
/// Attempts to find an unused random name.
const ATTEMPTS: usize = 16;

/// See [`Disk::create_unnamed`]. `is_portable` avoids `O_TMPFILE`.
pub(super) fn create(dir: &Path, is_portable: bool) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
    let file = if is_portable { create_and_remove(dir) } else { anonymous(dir) };
    handles(file, dir)
}

/// A file in `dir` that has no name when this returns.
pub(crate) fn anonymous(dir: &Path) -> io::Result<File> {
    match create_nameless(dir) {
        Err(e) if is_unsupported(&e) => create_and_remove(dir),
        made => made,
    }
}

/// The handles of a file for appending and for reading.
fn handles(file: io::Result<File>, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
    let made = file.and_then(|file| Ok((file.try_clone()?, file)));
    let made = made.map_err(|e| Error::io("create a temporary file in", dir, e));
    let (append, read) = made.map(|(a, b)| (Unnamed::new(a, dir), Unnamed::new(b, dir)))?;
    Ok((Box::new(Poison::new(append, dir.into())), Box::new(read)))
}

/// Creates a file that never has a name and cannot be linked to one.
#[cfg(target_os = "linux")]
fn create_nameless(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE).custom_flags(libc::O_TMPFILE | libc::O_EXCL);
    options.open(dir)
}

#[cfg(not(target_os = "linux"))]
fn create_nameless(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a kernel or a file system without `O_TMPFILE` returns this error.
fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, Unsupported};
    matches!(error.kind(), Unsupported | IsADirectory | InvalidInput)
}

/// Creates a file under a random name and removes the name at once.
fn create_and_remove(dir: &Path) -> io::Result<File> {
    let mut tries = 1..ATTEMPTS;
    loop {
        let path = dir.join(format!("{PREFIX}{:016x}", RandomState::new().hash_one(0u8)));
        // Exclusively, so that a symbolic link of this name is not followed.
        let created =
            OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&path);
        match created {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries.next().is_some() => {}
            Err(e) => return Err(e),
            Ok(file) => {
                return match fs::remove_file(&path) {
                    // Another build removed it as a leftover.
                    Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                    _ => Ok(file),
                };
            }
        }
    }
}

/// Removes the empty files of processes that were killed between the creation and the removal of a
/// name. Failures are ignored, since these files do no harm.
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path) -> Result<()> {
    for name in disk.list(dir)?.iter().filter(|name| is_leftover(name)) {
        let _ = disk.remove(&dir.join(name));
    }
    Ok(())
}

fn is_leftover(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or("");
    digits.len() == 16 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

struct Unnamed {
    file: File,
    /// The directory, for error messages.
    dir: PathBuf,
}

impl Unnamed {
    fn new(file: File, dir: &Path) -> Unnamed {
        Unnamed { file, dir: dir.to_path_buf() }
    }

    fn failed(&self, action: &str, error: io::Error) -> Error {
        Error::io(&format!("{action} a temporary file in"), &self.dir, error)
    }
}

impl Append for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.failed("append to", e))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.failed("sync", e))
    }
}

impl ReadAt for Unnamed {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => cut(&self.dir, offset, bytes.len()),
            _ => self.failed("read", e),
        })
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.len()).map_err(|e| self.failed("look at", e))
    }

    fn map(&self) -> Result<Map> {
        Map::of_file(&self.file, self.len()?, &self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::os::os;
    use crate::disk::tests::TempDir;
    use std::os::unix::fs::MetadataExt;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string());
        names.map(std::result::Result::unwrap).collect()
    }

    #[test]
    fn a_file_has_no_name_and_only_its_owner_may_open_it() {
        for make in [create_nameless, create_and_remove] {
            let dir = TempDir::new();
            let file = match make(&dir.0) {
                Err(e) if is_unsupported(&e) => {
                    println!("skipped: no files without a name here: {e}");
                    continue;
                }
                made => made.unwrap(),
            };
            let found = file.metadata().unwrap();
            assert_eq!((found.mode() & 0o7777, found.nlink()), (MODE, 0));
            assert!(names(&dir.0).is_empty());
            let (mut append, read) = handles(Ok(file), &dir.0).unwrap();
            append.append(b"snow").unwrap();
            append.append(b"fall").unwrap();
            let mut bytes = [0; 4];
            read.read_at(2, &mut bytes).unwrap();
            assert_eq!((&bytes, read.len().unwrap()), (b"owfa", 8));
            assert_eq!(&*read.map().unwrap(), b"snowfall");
            assert!(read.read_at(6, &mut bytes).is_err());
        }
        for is_portable in [false, true] {
            let missing = create(Path::new("/firndb-no-such-directory"), is_portable);
            let error = missing.err().unwrap();
            assert_eq!(error.kind(), crate::ErrorKind::NotFound, "{error}");
        }
    }

    /// Short-lived names are unpredictable, and symbolic links in their place are not followed.
    #[test]
    fn names_are_random_and_only_leftovers_are_removed() {
        let dir = TempDir::new();
        let kept = ["spill", ".firndb-spill-", ".firndb-spill-0123456789abcdeF", ".firndb-spill-1"];
        for name in kept.into_iter().chain([".firndb-spill-0123456789abcdef"]) {
            fs::write(dir.0.join(name), b"").unwrap();
        }
        let target = dir.0.join("target");
        std::os::unix::fs::symlink(&target, dir.0.join(".firndb-spill-00000000000000aa")).unwrap();
        remove_leftovers(&*os(), &dir.0).unwrap();
        let mut left = names(&dir.0);
        left.sort();
        let mut expected = [&kept[..], &[".firndb-spill-00000000000000aa"]].concat();
        expected.sort();
        assert_eq!(left, expected);
        assert!(!target.exists());
        let random = || RandomState::new().hash_one(0u8);
        assert_ne!(random(), random());
    }
}
