//! Unpacks packed numbers of at most 25 bits with AVX2, eight at a time. The four bytes that
//! contain a number are moved to its lane. There they are shifted right, or compared with a range
//! without shifting.
#![expect(unsafe_code, reason = "loads take addresses")]

use std::arch::x86_64::*;

/// The maximum width: a wider number may span more than the four bytes moved to its lane.
pub(crate) const MAX_BITS: usize = 25;

/// Bytes per load.
const LOAD: usize = 16;

/// For each width, the source of the four bytes of each lane, and how far the lane is shifted
/// right. The last four of eight numbers have a load of their own, which starts with the byte in
/// which the first four end.
static UNPACK_TABLE: [([u8; 32], [u32; 8]); MAX_BITS + 1] = unpack_table();

const fn unpack_table() -> [([u8; 32], [u32; 8]); MAX_BITS + 1] {
    let mut cuts = [([0; 32], [0; 8]); MAX_BITS + 1];
    let mut at = 0;
    while at < cuts.len() * 8 {
        let (bits, i) = (at / 8, at % 8);
        let start = i % 4 * bits + i / 4 * (4 * bits % 8);
        let mut byte = 0;
        while byte < 4 {
            cuts[bits].0[4 * i + byte] = (start / 8 + byte) as u8;
            byte += 1;
        }
        cuts[bits].1[i] = (start % 8) as u32;
        at += 1;
    }
    cuts
}

/// The number of bytes that must be readable from the first of eight numbers on.
pub(crate) fn loaded(bits: usize) -> usize {
    bits / 2 + LOAD
}

/// The constants that unpack eight numbers of some width.
pub(crate) struct Unpacker {
    bits: usize,
    places: __m256i,
    shifts: __m256i,
    mask: __m256i,
}

impl Unpacker {
    /// `bits` is at most [`MAX_BITS`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn new(bits: usize) -> Unpacker {
        let (places, shifts) = &UNPACK_TABLE[bits];
        // SAFETY: both arrays have 32 bytes; the loads need no alignment.
        let [places, shifts] = unsafe {
            [places.as_ptr().cast(), shifts.as_ptr().cast()].map(|at| _mm256_loadu_si256(at))
        };
        Unpacker { bits, places, shifts, mask: _mm256_set1_epi32((1 << bits) - 1) }
    }

    /// Unpacks the eight numbers that start at an address.
    ///
    /// # Safety
    /// [`loaded`] bytes must be readable there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn numbers(&self, at: *const u8) -> __m256i {
        // SAFETY: the caller guarantees it; the loads need no alignment.
        let (low, high) =
            unsafe { (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(self.bits / 2).cast())) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        let lanes = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, self.places), self.shifts);
        _mm256_and_si256(lanes, self.mask)
    }
}

/// Tests packed numbers for membership in a range. The numbers are compared unshifted, within the
/// four bytes of their lane; the bounds are shifted instead.
pub(crate) struct Range {
    bits: usize,
    /// For the first four of eight numbers, and for the last four.
    sides: [Side; 2],
    /// All ones if the result is to be inverted.
    others: u64,
}

/// The constants for four of eight numbers, in both halves of a register.
struct Side {
    places: __m256i,
    masks: __m256i,
    least: __m256i,
    most: __m256i,
}

/// The maximum width at which eight numbers fit into one load of 16 bytes.
pub(crate) const HALF_BITS: usize = 16;

impl Range {
    /// The range of `len` numbers from `first` on, modulo 2^32, for numbers packed to `bits` bits,
    /// at most [`MAX_BITS`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn new(bits: usize, first: u32, len: u32) -> Range {
        // A range that wraps around at 0 is the complement of one that does not.
        let (start, end, others) = match first.checked_add(len) {
            Some(end) => (first, end, 0),
            None => (first.wrapping_add(len), first, u64::MAX),
        };
        // Clamp to the largest number. The full range becomes the complement of the empty one,
        // because its length may not fit into a lane.
        let [start, end] = [start, end].map(|of| of.min(1 << bits));
        let (start, end, others) = match end - start == 1 << bits {
            true => (0, 0, !others),
            false => (start, end, others),
        };
        let cut = Unpacker::new(bits);
        let offset = if bits <= HALF_BITS { bits / 2 } else { 0 };
        let sides = [
            Side::new::<0x00>(&cut, 0, (start, end)),
            Side::new::<0x11>(&cut, offset, (start, end)),
        ];
        Range { bits, sides, others }
    }

    /// The number of bytes that must be readable from the first of 64 numbers on.
    pub(crate) fn loaded(bits: usize) -> usize {
        7 * bits + loaded(bits)
    }

    /// Sets each word to the mask of those of its 64 numbers that are in the range. The numbers
    /// start at the address `at`.
    ///
    /// # Safety
    /// [`Range::loaded`] bytes must be readable from the first number of each word on.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn fill(&self, at: *const u8, out: &mut [u64]) {
        // SAFETY: the caller guarantees it.
        unsafe {
            match self.bits <= HALF_BITS {
                true => self.fill_by::<true>(at, out),
                false => self.fill_by::<false>(at, out),
            }
        }
    }

    /// [`Range::fill`]; `NARROW` means that eight numbers fit into one load.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn fill_by<const NARROW: bool>(&self, at: *const u8, out: &mut [u64]) {
        for (i, word) in out.iter_mut().enumerate() {
            // SAFETY: the bytes of 64 numbers, twice 32, are readable.
            let [low, high] = unsafe {
                let at = at.add(i * 8 * self.bits);
                [self.compare_32::<NARROW>(at), self.compare_32::<NARROW>(at.add(4 * self.bits))]
            };
            *word = (u64::from(low) | u64::from(high) << 32) ^ self.others;
        }
    }

    /// The mask of the 32 numbers that start at an address.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn compare_32<const NARROW: bool>(&self, at: *const u8) -> u32 {
        // Packing interleaves groups of eight numbers of both operands: the low halves of both,
        // then the high halves.
        // SAFETY: the bytes of 32 numbers are readable.
        let found = unsafe {
            let next = at.add(self.bits);
            _mm256_packs_epi16(self.compare_16::<NARROW>(at), self.compare_16::<NARROW>(next))
        };
        _mm256_movemask_epi8(found) as u32
    }

    /// Compares the eight numbers that start at an address and the eight that start 16 numbers
    /// later. Lanes of numbers in the range are all ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn compare_16<const NARROW: bool>(&self, at: *const u8) -> __m256i {
        let [first, second] = &self.sides;
        // SAFETY: the bytes of these numbers are readable; the loads need no alignment.
        let load = |at: *const u8| unsafe {
            let (low, high) =
                (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(2 * self.bits).cast()));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        };
        let bytes = load(at);
        // SAFETY: the last four of eight numbers start there.
        let others = if NARROW { bytes } else { load(unsafe { at.add(self.bits / 2) }) };
        _mm256_packs_epi32(first.inside(bytes), second.inside(others))
    }
}

impl Side {
    /// Duplicates the low (`HALVES` = 0x00) or high (0x11) half of `cut`. The bytes of the half
    /// start `offset` bytes after the first number.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new<const HALVES: i32>(cut: &Unpacker, offset: usize, (start, end): (u32, u32)) -> Side {
        let of = |lanes: __m256i| _mm256_permute2x128_si256::<HALVES>(lanes, lanes);
        let shifts = of(cut.shifts);
        let shifted = |of: u32| _mm256_sllv_epi32(_mm256_set1_epi32(of as i32), shifts);
        let places = _mm256_add_epi8(of(cut.places), _mm256_set1_epi8(offset as i8));
        // AVX2 compares signed numbers only, so both sides of an unsigned comparison are offset by
        // 2^31.
        let half = _mm256_set1_epi32(i32::MIN);
        Side {
            // Indices beyond the load belong to bytes that the mask removes.
            places: _mm256_min_epu8(places, _mm256_set1_epi8(15)),
            masks: of(_mm256_sllv_epi32(cut.mask, cut.shifts)),
            least: _mm256_add_epi32(shifted(start), half),
            most: _mm256_add_epi32(shifted(end - start), half),
        }
    }

    /// Compares the numbers in some bytes. Lanes of numbers in the range are all ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn inside(&self, bytes: __m256i) -> __m256i {
        let numbers = _mm256_and_si256(_mm256_shuffle_epi8(bytes, self.places), self.masks);
        _mm256_cmpgt_epi32(self.most, _mm256_sub_epi32(numbers, self.least))
    }
}
