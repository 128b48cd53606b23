//! Reads the bytes of a value, where reading them is part of the measurement.
//!
//! The reader should cost little compared to the cache misses of any engine. A plain sum of words
//! in baseline x86-64 instructions takes as long for 10 KB outside the caches as the misses do,
//! because the processor does not look ahead over that many instructions.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "code for a processor that has AVX2: see the SAFETY note")
)]

/// Bytes per step of a long value.
const STEP: usize = 128;
/// Bytes per word.
const WORD: usize = 8;
/// Rotation of the last word, not a multiple of 8, so that no bit aligns with the same bit of
/// another word, and no two flipped bits cancel out.
const TURN: u32 = 29;

/// Reads every byte of a value.
#[inline]
pub fn fold(value: &[u8]) -> u64 {
    let Some(last) = value.last_chunk() else {
        return value.iter().fold(1, |sum, byte| sum << WORD | u64::from(*byte));
    };
    // The bytes after the last full word, overlapping some bytes before them.
    let last = u64::from_le_bytes(*last).rotate_left(TURN);
    last.wrapping_add(if value.len() < 2 * STEP { words(value) } else { long(value) })
}

/// Sum of the full words.
#[inline(always)]
fn words(value: &[u8]) -> u64 {
    let words = value.as_chunks::<WORD>().0;
    words.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// The same for a long value, with AVX2 if this machine has it.
fn long(value: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor supports AVX2, as just checked.
        return unsafe { long_avx2(value) };
    }
    steps(value)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn long_avx2(value: &[u8]) -> u64 {
    steps(value)
}

#[inline(always)]
fn steps(value: &[u8]) -> u64 {
    let (steps, rest) = value.as_chunks::<STEP>();
    let mut sums = [0u64; STEP / WORD];
    for step in steps {
        for (sum, word) in sums.iter_mut().zip(step.as_chunks::<WORD>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(words(rest), |all, sum| all.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_reads_every_byte() {
        for length in (1..40).chain([255, 256, 257, 383, 1000, 1031]) {
            let mut value = vec![7u8; length];
            let whole = fold(&value);
            for bit in 0..8 * length {
                value[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(fold(&value), whole, "bit {bit} of {length} bytes");
                value[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn long_values_fold_to_the_sum_of_their_words() {
        let value: Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in 2 * STEP..value.len() {
            let value = &value[..length];
            assert_eq!((long(value), steps(value)), (words(value), words(value)));
        }
    }
}
