//! Reads a value: what a get hands over is read to its end where that is to be measured.
//!
//! The reader should cost little beside the memory that it waits for, of whatever engine: a plain
//! sum of words in the instructions of every x86-64 takes as long for 10 KB that are nowhere in a
//! cache as waiting for them does, for the processor does not look far ahead over so many
//! instructions.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "code for a processor that has AVX2: see the SAFETY note")
)]

/// Bytes of a step of a long value.
const STEP: usize = 128;
/// Bytes of a word.
const WORD: usize = 8;
/// How far the last word is turned: by no whole bytes, so that no bit of it stands where it stands
/// in another word, and no two changes of one bit make up for each other.
const TURN: u32 = 29;

/// Reads every byte of a value.
#[inline]
pub fn fold(value: &[u8]) -> u64 {
    let Some(last) = value.last_chunk() else {
        return value.iter().fold(1, |sum, byte| sum << WORD | u64::from(*byte));
    };
    // What is behind the last whole word, and some bytes before it once more.
    let last = u64::from_le_bytes(*last).rotate_left(TURN);
    last.wrapping_add(if value.len() < 2 * STEP { words(value) } else { long(value) })
}

/// Sum of the whole words.
#[inline(always)]
fn words(value: &[u8]) -> u64 {
    let words = value.as_chunks::<WORD>().0;
    words.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// The same of a long value: in the widest usual vectors of this machine.
fn long(value: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function asks for.
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
