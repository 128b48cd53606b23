//! Asking for memory before it is needed.

#![expect(unsafe_code, reason = "the instruction has no safe name: see the SAFETY note")]

/// Asks for the cache lines at the beginning of `bytes`, up to so many.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64).take(lines) {
        // SAFETY: the address is that of a live byte; a prefetch reads nothing the program can see.
        unsafe {
            std::arch::x86_64::_mm_prefetch(line.as_ptr().cast(), std::arch::x86_64::_MM_HINT_T0)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, lines);
}
