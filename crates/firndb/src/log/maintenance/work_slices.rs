//! Divides the work of a maintenance thread into slices and rests between them.
//!
//! With fewer processors than threads, a writer that lost its processor to a maintenance thread
//! gets it back after a slice, instead of at the system's next scheduling decision some
//! milliseconds later. (Yielding is not enough: the thread that has run less goes first.)

use crate::log::state::shared::Shared;
use std::time::Duration;

/// How long a maintenance thread rests between two slices.
const REST: Duration = Duration::from_micros(50);
/// Bytes of records per slice, which takes a fraction of a millisecond.
const SLICE: u64 = 512 << 10;

/// Rests, if the store has maintenance threads and is not closing.
pub(crate) fn rest(shared: &Shared) {
    if shared.options.background && !shared.maintenance.signals.is_shut_down() {
        std::thread::sleep(REST);
    }
}

/// Rests after each slice of records.
pub(crate) struct WorkSlices<'a> {
    shared: &'a Shared,
    bytes: u64,
}

impl WorkSlices<'_> {
    pub(crate) fn new(shared: &Shared) -> WorkSlices<'_> {
        WorkSlices { shared, bytes: 0 }
    }

    /// Called for each record that was processed. Returns whether that was the end of a slice.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        let is_over = self.bytes >= SLICE;
        if is_over {
            self.bytes = 0;
            rest(self.shared);
        }
        is_over
    }
}
