//! Prefetching: loading cache lines before they are needed.

#![expect(unsafe_code, reason = "the intrinsic is unsafe: see the SAFETY note")]

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Prefetches up to `lines` cache lines at the beginning of `items`.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], lines: usize) {
    for line in items.chunks((LINE / size_of::<T>()).max(1)).take(lines) {
        prefetch_line(line.as_ptr());
    }
}

/// [`prefetch`] of a constant number of lines: no loop if `bytes` has that many.
#[inline(always)]
pub(crate) fn prefetch_lines<const LINES: usize>(bytes: &[u8]) {
    match bytes.get(..LINES * LINE) {
        Some(whole) => {
            whole.as_chunks::<LINE>().0.iter().for_each(|line| prefetch_line(line.as_ptr()))
        }
        None => prefetch(bytes, LINES),
    }
}

/// The smallest page: hardware prefetchers stop at its end.
const PAGE: usize = 4096;
/// Pages that are prefetched: reading this many takes longer than waiting for one more.
const PAGES: usize = 4;

/// Prefetches the first line of each further page of `bytes`, up to a limit; nothing if `bytes`
/// is a line or less. The hardware prefetches sequential reads by itself, but only to the end of a
/// page.
///
/// The number of pages is unpredictable, so no branch depends on it: for pages after the end,
/// the first line is prefetched again.
#[inline(always)]
pub(crate) fn prefetch_pages(bytes: &[u8]) {
    let second = PAGE - bytes.as_ptr().addr() % PAGE;
    let prefetch_at = |at: usize| {
        let at = std::hint::select_unpredictable(at < bytes.len(), at, 0);
        prefetch_line(bytes.as_ptr().wrapping_add(at));
    };
    if bytes.len() > PAGE {
        (0..PAGES).for_each(|page| prefetch_at(second + page * PAGE));
    } else if bytes.len() > LINE {
        prefetch_at(second);
    }
}

/// Prefetches the line of any address.
#[inline(always)]
fn prefetch_line<T>(item: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no visible effect, and does nothing for an invalid address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(item.cast(), std::arch::x86_64::_MM_HINT_T0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
