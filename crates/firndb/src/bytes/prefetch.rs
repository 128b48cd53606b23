//! Asking for memory before it is needed.

#![expect(unsafe_code, reason = "the instruction has no safe name: see the SAFETY note")]

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Asks for the cache lines at the beginning of `items`, up to so many.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in items.chunks((LINE / size_of::<T>()).max(1)).take(lines) {
        // SAFETY: the address is that of a live item; a prefetch reads nothing the program can see.
        unsafe {
            std::arch::x86_64::_mm_prefetch(line.as_ptr().cast(), std::arch::x86_64::_MM_HINT_T0)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, lines);
}
