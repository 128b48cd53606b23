//! Shared by the mutators: libFuzzer's own mutations, applied to a part of an input.

use libfuzzer_sys::fuzzer_mutate;

/// A deterministic random number generator.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 ^ (self.0 >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD) >> 11
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The mutator of inputs without checksums: libFuzzer's own.
pub fn plain(_: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    fuzzer_mutate(data, size, max_size)
}

/// Mutates bytes, which may grow by `room`.
pub fn resize(bytes: &mut Vec<u8>, room: usize) {
    let len = bytes.len();
    bytes.resize(len + room, 0);
    let new = fuzzer_mutate(bytes, len, len + room);
    bytes.truncate(new);
}

/// Mutates bytes without changing their length: a longer result is cut, a shorter one keeps the old
/// tail. Tries boundary values of numbers more often than libFuzzer does.
pub fn in_place(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    if rng.one_in(4) {
        const EDGES: [u64; 8] = [0, 1, 0x7F, 0xFF, 1 << 26, 1 << 32, u64::MAX / 2, u64::MAX];
        let number = EDGES[rng.below(EDGES.len())].to_le_bytes();
        let width = [1, 2, 4, 8][rng.below(4)].min(bytes.len());
        let at = rng.below(bytes.len() - width + 1);
        bytes[at..at + width].copy_from_slice(&number[..width]);
        return;
    }
    let mut copy = bytes.to_vec();
    let new = fuzzer_mutate(&mut copy, bytes.len(), bytes.len());
    bytes[..new].copy_from_slice(&copy[..new]);
}

/// Copies a new input into the buffer if it fits; returns the length of the input.
pub fn put(data: &mut [u8], size: usize, max_size: usize, new: &[u8]) -> usize {
    if new.len() > max_size {
        return size.min(max_size);
    }
    data[..new.len()].copy_from_slice(new);
    new.len()
}
