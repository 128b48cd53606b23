//! For tests: frozen files that are changed but keep valid checksums; times of small functions.

use crate::bytes::int::{u32_at, u64_at};
use crate::testing::Rng;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

const EDGE: usize = 64;
const ENTRY: usize = 32;

/// A frozen file whose sections can be changed; `frozen.rs` has the layout.
pub(crate) struct Forged(pub(crate) Vec<u8>);

impl Forged {
    fn footer(&self) -> usize {
        self.0.len() - EDGE
    }

    /// Where entry `i` of the directory begins.
    pub(crate) fn entry(&self, i: usize) -> usize {
        u64_at(&self.0, self.footer()) as usize + i * ENTRY
    }

    pub(crate) fn entries(&self) -> usize {
        u32_at(&self.0, self.footer() + 8) as usize
    }

    pub(crate) fn id(&self, i: usize) -> u32 {
        u32_at(&self.0, self.entry(i))
    }

    pub(crate) fn section(&self, i: usize) -> Range<usize> {
        let at = u64_at(&self.0, self.entry(i) + 8) as usize;
        at..at + u64_at(&self.0, self.entry(i) + 16) as usize
    }

    pub(crate) fn find(&self, id: u32) -> Option<Range<usize>> {
        (0..self.entries()).find(|&i| self.id(i) == id).map(|i| self.section(i))
    }

    pub(crate) fn kind(&self) -> u32 {
        u32_at(&self.0, 8)
    }

    /// Recomputes all checksums of the envelope; returns the old and the new content id.
    pub(crate) fn seal(&mut self) -> (Vec<u8>, Vec<u8>) {
        for i in 0..self.entries() {
            let sum = xxh3_64(&self.0[self.section(i)]);
            let at = self.entry(i) + 24;
            self.0[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        }
        let footer = self.footer();
        let directory = &self.0[self.entry(0)..footer];
        let seed = u64::from(self.kind()) << 32 | u64::from(u32_at(&self.0, 12));
        let (old, new) = (
            self.0[footer + 32..footer + 48].to_vec(),
            xxh3_128_with_seed(directory, seed).to_le_bytes().to_vec(),
        );
        self.0[footer + 32..footer + 48].copy_from_slice(&new);
        let sum = xxh3_64(&self.0[footer..footer + 48]);
        self.0[footer + 48..footer + 56].copy_from_slice(&sum.to_le_bytes());
        (old, new)
    }
}

/// Changes a few bytes of a section, or a number in it.
pub(crate) fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.next() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = *rng.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            3 => bytes[at] = bytes[at].wrapping_add(1),
            4 => {
                let end = bytes.len().min(at + 8);
                let number = *rng.pick(&[0, 1, u64::MAX, u64::MAX / 2, 1 << 32, 1 << 26]);
                bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            _ => {
                let from = rng.below(bytes.len());
                let len = (1 + rng.below(16)).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

/// Prints the nanoseconds that `work` takes per item, at best of 15 runs; `work` returns how many
/// items it processed and something that depends on all of them.
pub(crate) fn print_nanoseconds(name: &str, mut work: impl FnMut() -> (usize, u64)) {
    let mut best = f64::MAX;
    for _ in 0..15 {
        let start = Instant::now();
        let (items, sum) = black_box(work());
        black_box(sum);
        best = best.min(start.elapsed().as_nanos() as f64 / items.max(1) as f64);
    }
    println!("{name:44} {best:9.3} ns");
}
