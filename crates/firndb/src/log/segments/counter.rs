//! Counters that only the holder of the writer's lock changes, and any thread may read.
//!
//! A plain load and store takes no locked instruction, of which each write would otherwise need
//! seven.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds to a counter.
#[inline]
pub(crate) fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// Subtracts from a counter, down to 0 at most: a hint or a checkpoint may have counted less than
/// there is, and a counter that wraps would look like 2^64 live bytes.
#[inline]
pub(crate) fn subtract(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
}
