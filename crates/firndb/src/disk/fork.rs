//! Tells a process from its forked children.
//!
//! A child has the parent's open files and maps, but none of its threads. If it appended to a log,
//! parent and child would write different records to the same place.

#![expect(unsafe_code, reason = "the advice has no safe name: see the SAFETY note")]

use memmap2::MmapMut;

/// Made in one process, says in another that it is the other.
pub(crate) struct ForkGuard {
    /// Holds a 1, which the kernel takes out of the memory of children (Linux 4.14 and later).
    mark: Option<MmapMut>,
    process: u32,
}

impl ForkGuard {
    pub(crate) fn new() -> ForkGuard {
        ForkGuard { mark: mark(), process: std::process::id() }
    }

    /// Whether this is a forked child of the process that made the guard. Takes no call to the
    /// kernel where it marks memory.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        match &self.mark {
            // Volatile: the kernel changes it behind the compiler's back.
            // SAFETY: the map has at least one byte and lives as long as `self`.
            Some(mark) => unsafe { mark.as_ptr().read_volatile() == 0 },
            None => std::process::id() != self.process,
        }
    }
}

#[cfg(target_os = "linux")]
fn mark() -> Option<MmapMut> {
    let mut mark = MmapMut::map_anon(1).ok()?;
    // SAFETY: the range is the map, which is private and anonymous; this process sees no change.
    let advised = unsafe { libc::madvise(mark.as_mut_ptr().cast(), 4096, libc::MADV_WIPEONFORK) };
    mark[0] = 1;
    (advised == 0).then_some(mark)
}

#[cfg(not(target_os = "linux"))]
fn mark() -> Option<MmapMut> {
    None
}

/// Whether `check` says so in a forked child. It must not need a lock that another thread may hold.
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
    fn a_child_knows_that_it_is_one() {
        let guard = ForkGuard::new();
        assert!(!guard.is_child());
        assert!(in_child(|| guard.is_child()));
        assert!(!guard.is_child());
    }
}
