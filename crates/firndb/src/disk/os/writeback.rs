//! Starts the writeback of a file before its sync. Linux only: other systems have no such call.
//!
//! Linux keeps appended bytes in its page cache for many seconds. The sync at the end of a large
//! file then has to wait for all of them, which took a fifth of the time of building a table of 1
//! GB.

#![expect(unsafe_code, reason = "the call has no safe name: see the SAFETY note")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Starts writing the dirty pages of `file` without waiting. A hint: this call neither sees nor
/// consumes errors of the disk, so the next sync reports failed writes.
pub(super) fn begin_writing(file: &File) {
    // SAFETY: the descriptor is open as long as `file` lives, and the call takes no pointers.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
