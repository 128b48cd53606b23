//! Asking the system to begin writing a file to the disk before anybody waits for it.
//!
//! Left alone, Linux keeps what is appended in its page cache for many seconds. The sync at the end
//! of a large file then waits for all of it, with nothing else left to do: of the time of building
//! a table of a gigabyte that was a fifth.

#![expect(unsafe_code, reason = "the call has no safe name: see the SAFETY note")]

use std::fs::File;

/// Asks for it and waits for nothing. Advice: what could not be written the next sync reports, for
/// this call neither learns of errors of the disk nor takes them from the file.
pub(super) fn begin_writing(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open as long as `file` lives, and no memory is handed over.
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
