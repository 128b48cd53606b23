//! Asking for memory before it is needed.

#![expect(unsafe_code, reason = "the instruction has no safe name: see the SAFETY note")]

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Asks for the cache lines at the beginning of `items`, up to so many.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], lines: usize) {
    for line in items.chunks((LINE / size_of::<T>()).max(1)).take(lines) {
        ask(line.as_ptr());
    }
}

/// [`prefetch`] of a number of lines that the compiler knows: without a loop where all are there.
#[inline(always)]
pub(crate) fn prefetch_lines<const LINES: usize>(bytes: &[u8]) {
    match bytes.get(..LINES * LINE) {
        Some(whole) => whole.as_chunks::<LINE>().0.iter().for_each(|line| ask(line.as_ptr())),
        None => prefetch(bytes, LINES),
    }
}

/// Bytes behind which processors do not look ahead: the smallest page.
const PAGE: usize = 4096;
/// Pages that are asked for: reading one takes longer than waiting for one more.
const PAGES: usize = 4;

/// Asks for the first line of each further page that `bytes` goes on in, but not of many, and not
/// if they are a line or less. By itself a processor asks for lines that are read one after the
/// other, up to the end of a page, and waits anew there.
///
/// In how many pages they lie nobody can foretell, only whether that may be several: no jump
/// depends on more. For a page that is not there the first line is asked for once more.
#[inline(always)]
pub(crate) fn prefetch_pages(bytes: &[u8]) {
    let second = PAGE - bytes.as_ptr().addr() % PAGE;
    let ask_at = |at: usize| {
        let at = std::hint::select_unpredictable(at < bytes.len(), at, 0);
        ask(bytes.as_ptr().wrapping_add(at));
    };
    if bytes.len() > PAGE {
        (0..PAGES).for_each(|page| ask_at(second + page * PAGE));
    } else if bytes.len() > LINE {
        ask_at(second);
    }
}

/// Asks for the line of an address, whatever it is.
#[inline(always)]
fn ask<T>(item: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program can see, and is nothing where no memory is.
    unsafe {
        std::arch::x86_64::_mm_prefetch(item.cast(), std::arch::x86_64::_MM_HINT_T0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
