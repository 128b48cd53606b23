//! Loops over bitsets, with the instruction set chosen at run time.
//!
//! Each kernel is plain Rust that the compiler vectorizes. `dispatch!` compiles it three times
//! (portable, AVX2 with POPCNT, AVX-512 with VPOPCNTDQ) and selects a version by the features of
//! the processor. The tests compare all versions that the machine supports. Words of a mapped
//! bitset are read as little-endian bytes at any alignment.
#![expect(unsafe_code, reason = "calling a function compiled for features that were just detected")]

/// The instruction set of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has the others"))]
pub(crate) enum Version {
    Portable,
    Avx2,
    Avx512,
}

/// The fastest version that the processor supports.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is nothing to choose"))]
#[inline(always)]
pub(crate) fn best() -> Version {
    #[cfg(test)]
    if let Some(version) = tests::FORCED.get() {
        return version;
    }
    #[cfg(target_arch = "x86_64")]
    {
        // Exactly the features for which `dispatch!` compiles the versions.
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("popcnt")
        {
            return Version::Avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            return Version::Avx2;
        }
    }
    Version::Portable
}

/// Whether the processor has AVX-512 VBMI, whose byte permutation `lists/avx512.rs` and
/// `scan/avx512.rs` use to unpack numbers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn has_avx512_vbmi() -> bool {
    best() == Version::Avx512 && is_x86_feature_detected!("avx512vbmi")
}

/// Whether the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn has_avx2() -> bool {
    best() != Version::Portable && is_x86_feature_detected!("avx2")
}

/// The number of loads that fit into `len` bytes, if the first load ends at byte `loaded` and each
/// further one ends `step` bytes later.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn loads(len: usize, loaded: usize, step: usize) -> usize {
    len.checked_sub(loaded).map_or(0, |rest| rest / step + 1)
}

macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:ident) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name($($arg: $ty),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt")]
                fn wide($($arg: $ty),*) -> $out {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2,popcnt")]
                fn narrow($($arg: $ty),*) -> $out {
                    $body($($arg),*)
                }
                match $crate::search::simd::kernels::best() {
                    $crate::search::simd::kernels::Version::Avx512 => {
                        // SAFETY: `best` has detected all features that `wide` requires.
                        return unsafe { wide($($arg),*) };
                    }
                    $crate::search::simd::kernels::Version::Avx2 => {
                        // SAFETY: `best` has detected all features that `narrow` requires.
                        return unsafe { narrow($($arg),*) };
                    }
                    $crate::search::simd::kernels::Version::Portable => {}
                }
            }
            $body($($arg),*)
        }
    };
}

pub(crate) use dispatch;

/// The words of a mapped bitset. A remainder of less than 8 bytes is ignored.
#[inline(always)]
fn words(bytes: &[u8]) -> &[[u8; 8]] {
    bytes.as_chunks().0
}

dispatch! {
    /// Number of set bits.
    count(bits: &[u64]) -> u64 = count_body
}
dispatch! {
    /// Number of bits set in both.
    count_and(bits: &[u64], with: &[u8]) -> u64 = count_and_body
}
dispatch! {
    /// `bits |= with`
    or_bytes(bits: &mut [u64], with: &[u8]) -> () = or_bytes_body
}
dispatch! {
    /// `bits &= with`; words beyond the end of `with` become 0.
    and_bytes(bits: &mut [u64], with: &[u8]) -> () = and_bytes_body
}
dispatch! {
    /// `bits &= !with`
    and_not_bytes(bits: &mut [u64], with: &[u8]) -> () = and_not_bytes_body
}
dispatch! {
    /// `bits |= with`
    or(bits: &mut [u64], with: &[u64]) -> () = or_body
}
dispatch! {
    /// `bits &= with`
    and(bits: &mut [u64], with: &[u64]) -> () = and_body
}
dispatch! {
    /// `bits &= !with`
    and_not(bits: &mut [u64], with: &[u64]) -> () = and_not_body
}

// The bodies use no closures: the compiler would compile a closure as a separate function without
// the target features.

#[inline(always)]
fn count_body(bits: &[u64]) -> u64 {
    let mut sum = 0;
    for word in bits {
        sum += u64::from(word.count_ones());
    }
    sum
}

#[inline(always)]
fn count_and_body(bits: &[u64], with: &[u8]) -> u64 {
    let mut sum = 0;
    for (a, b) in bits.iter().zip(words(with)) {
        sum += u64::from((a & u64::from_le_bytes(*b)).count_ones());
    }
    sum
}

#[inline(always)]
fn or_bytes_body(bits: &mut [u64], with: &[u8]) {
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a |= u64::from_le_bytes(*b);
    }
}

#[inline(always)]
fn and_bytes_body(bits: &mut [u64], with: &[u8]) {
    let n = (with.len() / 8).min(bits.len());
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a &= u64::from_le_bytes(*b);
    }
    bits[n..].fill(0);
}

#[inline(always)]
fn and_not_bytes_body(bits: &mut [u64], with: &[u8]) {
    for (a, b) in bits.iter_mut().zip(words(with)) {
        *a &= !u64::from_le_bytes(*b);
    }
}

#[inline(always)]
fn or_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a |= b;
    }
}

#[inline(always)]
fn and_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a &= b;
    }
}

#[inline(always)]
fn and_not_body(bits: &mut [u64], with: &[u64]) {
    for (a, b) in bits.iter_mut().zip(with) {
        *a &= !b;
    }
}

/// Sets bits `start..end`, up to the end of `bits`.
pub(crate) fn set_range(bits: &mut [u64], start: u32, end: u32) {
    let end = (end as usize).min(bits.len() * 64);
    let start = start as usize;
    if start >= end {
        return;
    }
    let (first, last) = (start / 64, (end - 1) / 64);
    let (head, tail) = (u64::MAX << (start % 64), u64::MAX >> (63 - (end - 1) % 64));
    if first == last {
        bits[first] |= head & tail;
        return;
    }
    bits[first] |= head;
    bits[first + 1..last].fill(u64::MAX);
    bits[last] |= tail;
}

/// Appends the positions of a word's set bits, plus `base`.
#[inline(always)]
pub(crate) fn push_word(mut word: u64, base: u32, out: &mut Vec<u32>) {
    while word != 0 {
        out.push(base + word.trailing_zeros());
        word &= word - 1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::search::testing::Rng;
    use std::cell::Cell;

    thread_local! {
        /// Overrides [`best`] in this thread. Must be a version that the machine supports.
        pub(super) static FORCED: Cell<Option<Version>> = const { Cell::new(None) };
    }

    const SEED: u64 = 0x5E7_B175;
    const ROUNDS: usize = 2_000;

    /// Random bits, including empty and full words.
    fn bits(rng: &mut Rng, len: usize) -> Vec<u64> {
        (0..len)
            .map(|_| match rng.below(4) {
                0 => 0,
                1 => u64::MAX,
                _ => rng.next(),
            })
            .collect()
    }

    /// The results of all kernels for some bits, words and mapped bytes.
    fn answers(bits: &[u64], with: &[u64], bytes: &[u8]) -> ([u64; 2], Vec<Vec<u64>>) {
        let change = |kernel: &dyn Fn(&mut [u64])| {
            let mut bits = bits.to_vec();
            kernel(&mut bits);
            bits
        };
        let changed = vec![
            change(&|bits| or_bytes(bits, bytes)),
            change(&|bits| and_bytes(bits, bytes)),
            change(&|bits| and_not_bytes(bits, bytes)),
            change(&|bits| or(bits, with)),
            change(&|bits| and(bits, with)),
            change(&|bits| and_not(bits, with)),
        ];
        ([count(bits), count_and(bits, bytes)], changed)
    }

    /// The expected results, computed bit by bit.
    fn naive(bits: &[u64], with: &[u64], bytes: &[u8]) -> ([u64; 2], Vec<Vec<u64>>) {
        let has =
            |words: &[u64], i: usize| words.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1);
        let mapped = |i: usize| i < bytes.len() / 8 * 64 && bytes[i / 8] >> (i % 8) & 1 == 1;
        let all = 0..bits.len() * 64;
        let choose = |keep: &dyn Fn(usize) -> bool| {
            let mut chosen = vec![0; bits.len()];
            all.clone().filter(|&i| keep(i)).for_each(|i| chosen[i / 64] |= 1 << (i % 64));
            chosen
        };
        // `and` and `and_not` of words leave the words beyond the end of `with` unchanged.
        let beyond = |i: usize| i / 64 >= with.len();
        let changed = vec![
            choose(&|i| has(bits, i) || mapped(i)),
            choose(&|i| has(bits, i) && mapped(i)),
            choose(&|i| has(bits, i) && !mapped(i)),
            choose(&|i| has(bits, i) || has(with, i)),
            choose(&|i| has(bits, i) && (has(with, i) || beyond(i))),
            choose(&|i| has(bits, i) && !has(with, i)),
        ];
        let count = |keep: &dyn Fn(usize) -> bool| {
            all.clone().filter(|&i| has(bits, i) && keep(i)).count() as u64
        };
        ([count(&|_| true), count(&mapped)], changed)
    }

    /// The versions that the machine supports.
    fn versions() -> &'static [Version] {
        match best() {
            Version::Portable => &[Version::Portable],
            Version::Avx2 => &[Version::Portable, Version::Avx2],
            Version::Avx512 => &[Version::Portable, Version::Avx2, Version::Avx512],
        }
    }

    /// Runs a test once with each supported version; the argument is the name of the version.
    pub(crate) fn with_each_version(mut work: impl FnMut(&str)) {
        for &version in versions() {
            FORCED.set(Some(version));
            work(&format!("{version:?}"));
            FORCED.set(None);
        }
    }

    #[test]
    fn kernels_match_bit_by_bit_results() {
        let versions = versions();
        println!("seed {SEED:#x}, versions {versions:?}");
        let mut rng = Rng(SEED);
        for round in 0..ROUNDS {
            let len = if round % 50 == 0 { rng.below(300) } else { rng.below(40) };
            let (bits, with_len) = (bits(&mut rng, len), rng.below(len + 3));
            let (with, skip) = (self::bits(&mut rng, with_len), rng.below(9));
            // Mapped bytes may start at any address and end within a word.
            let bytes: Vec<u8> = (0..rng.below(8 * len + 20)).map(|_| rng.next() as u8).collect();
            let bytes = &bytes[skip.min(bytes.len())..];
            let expected = naive(&bits, &with, bytes);
            for &version in versions {
                FORCED.set(Some(version));
                let got = answers(&bits, &with, bytes);
                FORCED.set(None);
                assert!(got == expected, "{version:?}, round {round} of seed {SEED:#x}");
            }
        }
    }

    #[test]
    fn set_range_and_push_word_match_bit_by_bit_results() {
        let mut rng = Rng(SEED);
        for _ in 0..ROUNDS {
            let (len, base) = (rng.below(6), rng.below(1 << 20) as u32);
            let (start, end) = (rng.below(400) as u32, rng.below(400) as u32);
            let mut got = bits(&mut rng, len);
            let mut expected = got.clone();
            set_range(&mut got, start, end);
            (start..end.min(len as u32 * 64))
                .for_each(|i| expected[i as usize / 64] |= 1 << (i % 64));
            assert_eq!(got, expected, "{start}..{end} of {len} words");
            let word = got.first().copied().unwrap_or(0);
            let mut docs = vec![7];
            push_word(word, base, &mut docs);
            let set = (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| base + bit);
            assert!(docs.into_iter().eq([7].into_iter().chain(set)), "{word:#x}");
        }
    }
}
