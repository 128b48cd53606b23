//! How many cache lines of a record a get prefetches before it knows the record's length.
//!
//! A get waits for memory twice: for a slot of the index, then for the record. The first line of a
//! record contains its length; prefetching the other lines only then would add a third wait. So a
//! get prefetches as many lines at once as a record usually takes.

use crate::bytes::prefetch::LINE;
use crate::log::segments::segment::RECORD_LINES;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most lines that are prefetched before a record's length is known. More would cost more than they
/// save when the record is short.
const LINES_MAX: usize = 64;
/// One get in this many updates the estimate: cache lines that threads write are slow to read.
const SAMPLE_INTERVAL: u64 = 256;

/// A running median of the number of cache lines of the records that were read; a few long records
/// among short ones do not move it ("frugal streaming": Ma, Muthukrishnan, Sandler 2013). Every get
/// reads it, so it has a cache line of its own.
#[repr(align(64))]
pub(crate) struct PrefetchLines(AtomicUsize);

impl Default for PrefetchLines {
    fn default() -> PrefetchLines {
        PrefetchLines(RECORD_LINES.into())
    }
}

impl PrefetchLines {
    #[inline]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Called after a record with this many bytes of key and value was read.
    #[inline]
    pub(crate) fn learn(&self, hash: u64, bytes: usize) {
        if hash.is_multiple_of(SAMPLE_INTERVAL) {
            // The record's head, a few bytes more, occasionally adds a line.
            let (lines, seen) = (self.get(), (bytes / LINE + 1).clamp(RECORD_LINES, LINES_MAX));
            match seen.cmp(&lines) {
                Less => self.0.store(lines - 1, Ordering::Relaxed),
                Equal => {}
                Greater => self.0.store(lines + 1, Ordering::Relaxed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn the_estimate_is_the_median() {
        let seed = 0x0005_0A17;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        let estimate = PrefetchLines::default();
        let mut read = |bytes: &dyn Fn(&mut Rng) -> usize| {
            for _ in 0..100 * SAMPLE_INTERVAL {
                let bytes = bytes(&mut rng);
                estimate.learn(rng.next(), bytes);
            }
            estimate.get()
        };
        assert_eq!(read(&|_| 1000), 16);
        assert_eq!(read(&|_| 1_000_000), LINES_MAX);
        assert_eq!(read(&|_| 20), RECORD_LINES);
        let mixed = read(&|rng| if rng.below(20u64) == 0 { 1 << 20 } else { 20 });
        assert!(mixed <= RECORD_LINES + 2, "a few long records among short ones: {mixed}");
        let even = read(&|rng| rng.below(2000));
        assert!((11..=21).contains(&even), "as many shorter as longer ones: {even}");
    }
}
