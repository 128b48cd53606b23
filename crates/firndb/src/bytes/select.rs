//! Selects the set bit of a given rank in a word.
//!
//! x86-64 has an instruction for it (PDEP). The first AMD processors with PDEP execute it bit by bit
//! in microcode; they are recognised by the lack of later features and use the portable version.
//! Both versions return the same: the tests of `monotonic/partitioned.rs` compare them.

/// The lowest bit of every byte of a word, and the highest.
const EACH: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = EACH << 7;

/// The set bit of each rank in each byte.
static IN_BYTE: [[u8; 256]; 8] = {
    let mut table = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[rank][byte] = bit;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// The index of the set bit with `rank` set bits below it. If there is none, some index below 64.
#[inline(always)]
pub(super) fn portable(word: u64, rank: u64) -> usize {
    // The set bits in each byte, then in all bytes up to it.
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let sums = ((fours + (fours >> 4)) & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(EACH);
    // Sets the highest bit of each byte up to which more than `rank` bits are set. No byte borrows
    // from the next.
    let above = (sums | TOPS).wrapping_sub(((rank & 63) + 1).wrapping_mul(EACH));
    let start = (above & TOPS).trailing_zeros() & 56;
    let rest = rank.wrapping_sub(sums << 8 >> start & 0xFF) & 7;
    let byte = word >> start & 0xFF;
    start as usize + usize::from(IN_BYTE[rest as usize][byte as usize])
}

/// [`portable`] in two instructions; inlined where the caller has the same features.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "bmi1,bmi2")]
pub(super) fn deposit(word: u64, rank: u64) -> usize {
    std::arch::x86_64::_pdep_u64(1 << (rank & 63), word).trailing_zeros() as usize
}

/// Whether the processor has BMI1, BMI2 and POPCNT, and a fast [`deposit`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn can_deposit() -> bool {
    // Processors with a slow PDEP have neither of the last two.
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && (is_x86_feature_detected!("vaes") || is_x86_feature_detected!("avx512f"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn select_finds_every_bit() {
        let mut rng = Rng(1);
        let mut words = vec![0, 1, 1 << 63, u64::MAX, EACH, TOPS, u64::MAX << 32];
        for _ in 0..1000 {
            let word = rng.next();
            words.extend([word, word & rng.next() & rng.next(), word | rng.next() | rng.next()]);
        }
        for word in words {
            let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in bits.enumerate() {
                assert_eq!(portable(word, rank as u64), bit, "{word:#x}, {rank}");
            }
            // Ranks that the word does not have.
            for rank in [64, 255, u64::MAX, u64::from(word.count_ones())] {
                assert!(portable(word, rank) < 64);
            }
        }
    }
}
