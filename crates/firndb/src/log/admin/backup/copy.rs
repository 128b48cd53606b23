//! Files of a store in another directory: hard links where possible, otherwise copies.

use crate::disk::Disk;
use crate::{Error, Result};
use std::io;
use std::path::Path;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// How a file was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Linked,
    Copied,
}

/// Creates a file in another directory as a hard link or, where that is impossible, as a durable
/// copy. The name must be free.
pub(crate) fn link_or_copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<Transfer> {
    match disk.link(from, to) {
        Err(e) if cannot_link(&e) => copy(disk, from, to).map(|()| Transfer::Copied),
        linked => linked.map(|()| Transfer::Linked),
    }
}

/// Whether the file system refuses this link for a reason that does not prevent a copy: another
/// device, too many links, no links at all, or a file of another user.
fn cannot_link(error: &Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    let refusals = [CrossesDevices, TooManyLinks, Unsupported, PermissionDenied];
    error.io_kind().is_some_and(|kind| refusals.contains(&kind))
}

/// Copies a file and makes its bytes durable. After an error a part of it may exist.
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
