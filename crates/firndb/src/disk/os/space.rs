//! Disk space: reserving it for a file, and the largest file that the process may write.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Result of reserving the space of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "Linux has fallocate"))]
    Reserved,
    /// The file system cannot reserve space: each write allocates what it needs.
    Sparse,
}

/// Gives a new file its length and, where the system and the file system support it, its space.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<Space> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::Errno;
        check_limit(length)?;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => return Ok(done.map(|()| Space::Reserved)?),
        }
    }
    extend(file, length)
}

/// [`reserve`] on systems that cannot reserve space: sets the length only.
pub(super) fn extend(file: &File, length: u64) -> io::Result<Space> {
    check_limit(length)?;
    file.set_len(length)?;
    Ok(Space::Sparse)
}

/// Refuses a length for which the system call would raise SIGXFSZ.
fn check_limit(length: u64) -> io::Result<()> {
    match length > file_size_limit() {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(()),
    }
}

/// Allocates the space of a file by writing all of it.
pub(super) fn fill(file: &File, length: u64) -> io::Result<()> {
    // Pseudo-random bytes: a file system that compresses would store almost nothing for zeros.
    let mut state = length | 1;
    let mut piece = vec![0; 64 << 10];
    for at in (0..length).step_by(piece.len()) {
        for byte in &mut piece {
            state = state.wrapping_mul(0xD129_0E9B_5A5B_6B2D).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        file.write_all_at(&piece[..piece.len().min((length - at) as usize)], at)?;
    }
    Ok(())
}

/// Largest file that this process may write. A write beyond it raises SIGXFSZ, which kills the
/// process unless it handles the signal.
pub(super) fn file_size_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}
