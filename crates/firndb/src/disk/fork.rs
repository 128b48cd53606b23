//! Detects that the process was forked.
//!
//! A forked child inherits open files and maps, but no threads. If it appended to a log, parent and
//! child would write different records to the same offset.

#![expect(unsafe_code, reason = "madvise and fork have no safe wrapper: see the SAFETY notes")]

use memmap2::MmapMut;

/// Remembers the process in which it was created.
pub(crate) struct ForkGuard {
    /// Holds a 1, which the kernel clears in forked children (Linux 4.14 and later).
    mark: Option<MmapMut>,
    process: u32,
}

impl ForkGuard {
    pub(crate) fn new() -> ForkGuard {
        ForkGuard { mark: mark(), process: std::process::id() }
    }

    /// Whether the current process is a forked child of the one that created the guard. Costs one
    /// memory access with a mark, and one system call without.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        match &self.mark {
            // Volatile, since the kernel changes the byte.
            // SAFETY: the map has at least one byte and lives as long as `self`.
            Some(mark) => unsafe { mark.as_ptr().read_volatile() == 0 },
            None => std::process::id() != self.process,
        }
    }
}

/// Maps a page that the kernel clears in forked children.
#[cfg(target_os = "linux")]
fn mark() -> Option<MmapMut> {
    let mut mark = MmapMut::map_anon(1).ok()?;
    // SAFETY: the range is the first byte of the map and, as the kernel rounds up, its page. The
    // map is private and anonymous, and its content does not change in this process.
    let advised = unsafe { libc::madvise(mark.as_mut_ptr().cast(), 1, libc::MADV_WIPEONFORK) };
    mark[0] = 1;
    (advised == 0).then_some(mark)
}

#[cfg(not(target_os = "linux"))]
fn mark() -> Option<MmapMut> {
    None
}

/// Runs `check` in a forked child and returns its result. It must not take a lock that another
/// thread may hold.
#[cfg(test)]
pub(crate) fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing but `check` and `_exit`, which runs no destructor.
    match unsafe { libc::fork() } {
        0 => {
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
            // SAFETY: as above.
            unsafe { libc::_exit(if matches!(checked, Ok(true)) { 0 } else { 1 }) }
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` is an integer that outlives the call.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            waited == child && status == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_detects_a_forked_child() {
        let portable = ForkGuard { mark: None, process: std::process::id() };
        for guard in [ForkGuard::new(), portable] {
            assert!(!guard.is_child());
            assert!(in_child(|| guard.is_child()));
            assert!(!guard.is_child());
        }
    }
}
