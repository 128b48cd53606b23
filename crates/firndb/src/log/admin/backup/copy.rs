//! Files of a store in another directory: hard links where these are possible, and copies.

use crate::disk::Disk;
use crate::{Error, ErrorKind, Result};
use std::io;
use std::path::Path;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// How a file came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    Linked,
    Copied,
}

/// Gives a file a name in another directory, by a hard link or, where there can be none, as a copy
/// that is durable. The name must be free.
pub(crate) fn bring(disk: &dyn Disk, from: &Path, to: &Path) -> Result<Brought> {
    match disk.link(from, to) {
        Err(e) if cannot_link(&e) => copy(disk, from, to).map(|()| Brought::Copied),
        linked => linked.map(|()| Brought::Linked),
    }
}

/// Whether the file system does not make this link, but nothing is in the way of a copy: another
/// device, too many links, no links at all, or a file of another user.
fn cannot_link(error: &Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    let refusals = [CrossesDevices, TooManyLinks, Unsupported, PermissionDenied];
    error.io_kind().is_some_and(|kind| refusals.contains(&kind))
}

/// Copies a file and makes its bytes durable. After an error there may be a part of it.
pub(crate) fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    let source = disk.open(from)?;
    let length = source.len()?;
    let mut file = disk.create(to)?;
    let mut piece = Vec::new();
    for at in (0..length).step_by(PIECE as usize) {
        piece.resize(PIECE.min(length - at) as usize, 0);
        source.read_at(at, &mut piece)?;
        file.append(&piece)?;
    }
    file.sync()
}

/// Whether the first `length` bytes of two files are equal; `false` if one is shorter.
pub(crate) fn same_bytes(disk: &dyn Disk, a: &Path, b: &Path, length: u64) -> Result<bool> {
    let files = [disk.open(a)?, disk.open(b)?];
    if files[0].len()?.min(files[1].len()?) < length {
        return Ok(false);
    }
    let mut pieces = [Vec::new(), Vec::new()];
    for at in (0..length).step_by(PIECE as usize) {
        for (file, piece) in files.iter().zip(&mut pieces) {
            piece.resize(PIECE.min(length - at) as usize, 0);
            file.read_at(at, piece)?;
        }
        if pieces[0] != pieces[1] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a file if it is there.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
