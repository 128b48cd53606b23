//! Where in a word the set bit of a rank is.
//!
//! x86-64 has an instruction that deposits a single bit there; processors whose microcode does so
//! bit by bit (AMD's first that had it) are told from others by what came later. Both versions give
//! the same answers: the tests of `elias_fano.rs` compare them.

/// The lowest bit of every byte of a word, and the top one.
const EACH: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = EACH << 7;

/// Where the bit of a rank is in a byte.
static IN_BYTE: [[u8; 256]; 8] = {
    let mut places = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[rank][byte] = bit;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// The number of the set bit that has `rank` set ones below it; some number if there is none.
#[inline(always)]
pub(super) fn portable(word: u64, rank: u64) -> usize {
    // How many are set in each byte, then in the bytes up to it.
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let sums = ((fours + (fours >> 4)) & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(EACH);
    // The top bit of each byte up to which more than `rank` are set: no byte borrows from another.
    let above = (sums | TOPS).wrapping_sub(((rank & 63) + 1).wrapping_mul(EACH));
    let place = (above & TOPS).trailing_zeros() & 56;
    let rest = rank.wrapping_sub(sums << 8 >> place & 0xFF) & 7;
    let byte = word >> place & 0xFF;
    place as usize + usize::from(IN_BYTE[rest as usize][byte as usize])
}

/// [`portable`] in two instructions; inlined where the caller has the same features.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "bmi1,bmi2")]
pub(super) fn deposit(word: u64, rank: u64) -> usize {
    std::arch::x86_64::_pdep_u64(1 << (rank & 63), word).trailing_zeros() as usize
}

/// Whether the processor has BMI1 and BMI2, which [`deposit`] needs, counts bits, and is fast at
/// depositing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn can_deposit() -> bool {
    // What is slow at it has neither of the last two.
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
    fn every_bit_is_found() {
        let mut rng = Rng(1);
        let mut words = vec![0, 1, 1 << 63, u64::MAX, EACH, TOPS, u64::MAX << 32];
        for _ in 0..1000 {
            let word = rng.next();
            words.extend([word, word & rng.next() & rng.next(), word | rng.next() | rng.next()]);
        }
        for word in words {
            let places = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, place) in places.enumerate() {
                assert_eq!(portable(word, rank as u64), place, "{word:#x}, {rank}");
            }
            // Of ranks that a word does not have, some number comes.
            for rank in [64, 255, u64::MAX, u64::from(word.count_ones())] {
                assert!(portable(word, rank) < 64);
            }
        }
    }
}
