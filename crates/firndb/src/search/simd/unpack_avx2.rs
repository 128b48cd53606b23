//! Packed numbers of at most 25 bits, eight at a time, with AVX2: the four bytes that a number is
//! in are moved to its lane, and shifted there, or compared with a range as they are.
#![expect(unsafe_code, reason = "loads take addresses")]

use std::arch::x86_64::*;

/// A number of more bits does not fit the four bytes that are moved to its lane.
pub(crate) const MOST_BITS: usize = 25;

/// Bytes that are loaded at once.
const LOAD: usize = 16;

/// For each width where the four bytes of a number's lane come from, and how far they are shifted
/// down, for the first four of eight numbers and for the others, which begin in the byte that
/// the first end in.
static CUTS: [([u8; 32], [u32; 8]); MOST_BITS + 1] = cuts();

const fn cuts() -> [([u8; 32], [u32; 8]); MOST_BITS + 1] {
    let mut cuts = [([0; 32], [0; 8]); MOST_BITS + 1];
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

/// Bytes that must be there from the first of eight numbers on.
pub(crate) fn loaded(bits: usize) -> usize {
    bits / 2 + LOAD
}

/// How eight numbers are cut out of their bytes.
pub(crate) struct Cut {
    bits: usize,
    places: __m256i,
    shifts: __m256i,
    mask: __m256i,
}

impl Cut {
    /// For numbers of at most [`MOST_BITS`] bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn new(bits: usize) -> Cut {
        let (places, shifts) = &CUTS[bits];
        // SAFETY: 32 bytes are in both arrays; the loads need no alignment.
        let [places, shifts] = unsafe {
            [places.as_ptr().cast(), shifts.as_ptr().cast()].map(|at| _mm256_loadu_si256(at))
        };
        Cut { bits, places, shifts, mask: _mm256_set1_epi32((1 << bits) - 1) }
    }

    /// The eight numbers that begin at an address.
    ///
    /// # Safety
    /// [`loaded`] bytes can be read there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn numbers(&self, at: *const u8) -> __m256i {
        // SAFETY: the caller says so; the loads need no alignment.
        let (low, high) =
            unsafe { (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(self.bits / 2).cast())) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        let lanes = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, self.places), self.shifts);
        _mm256_and_si256(lanes, self.mask)
    }
}

/// A range of packed numbers, as they are compared: each where it lies in the four bytes of its
/// lane, unshifted.
pub(crate) struct Range {
    bits: usize,
    /// Of the first four of eight numbers, and of the others.
    sides: [Side; 2],
    /// All ones if the others are wanted.
    others: u64,
}

/// Of four numbers, twice.
struct Side {
    places: __m256i,
    masks: __m256i,
    least: __m256i,
    most: __m256i,
}

/// Most bits of numbers of which eight are in 16 bytes.
pub(crate) const HALF_BITS: usize = 16;

impl Range {
    /// So many numbers from the first on, modulo 2^32, where all are packed to so many bits, at
    /// most [`MOST_BITS`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn new(bits: usize, first: u32, len: u32) -> Range {
        // Those of a range that goes on at 0 are all but those between its ends.
        let (start, end, others) = match first.checked_add(len) {
            Some(end) => (first, end, 0),
            None => (first.wrapping_add(len), first, u64::MAX),
        };
        // No number is behind the last. All are all but none: their length would not fit a lane.
        let [start, end] = [start, end].map(|of| of.min(1 << bits));
        let (start, end, others) = match end - start == 1 << bits {
            true => (0, 0, !others),
            false => (start, end, others),
        };
        let cut = Cut::new(bits);
        let behind = if bits <= HALF_BITS { bits / 2 } else { 0 };
        let sides = [
            Side::new::<0x00>(&cut, 0, (start, end)),
            Side::new::<0x11>(&cut, behind, (start, end)),
        ];
        Range { bits, sides, others }
    }

    /// Bytes that must be there from the first of 64 numbers on.
    pub(crate) fn loaded(bits: usize) -> usize {
        7 * bits + loaded(bits)
    }

    /// Sets each word to those of its 64 numbers that are in the range; the first number begins at
    /// an address.
    ///
    /// # Safety
    /// [`Range::loaded`] bytes can be read from the numbers of each word on.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn fill(&self, at: *const u8, out: &mut [u64]) {
        // SAFETY: the caller says so.
        unsafe {
            match self.bits <= HALF_BITS {
                true => self.fill_by::<true>(at, out),
                false => self.fill_by::<false>(at, out),
            }
        }
    }

    /// [`Range::fill`], where eight numbers are in 16 bytes or are not.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn fill_by<const NARROW: bool>(&self, at: *const u8, out: &mut [u64]) {
        for (i, word) in out.iter_mut().enumerate() {
            // SAFETY: the bytes of 64 numbers can be read, twice those of 32.
            let [low, high] = unsafe {
                let at = at.add(i * 8 * self.bits);
                [self.half::<NARROW>(at), self.half::<NARROW>(at.add(4 * self.bits))]
            };
            *word = (u64::from(low) | u64::from(high) << 32) ^ self.others;
        }
    }

    /// Which of the 32 numbers that begin at an address are in the range.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn half<const NARROW: bool>(&self, at: *const u8) -> u32 {
        // Packing takes eight numbers of both in turn, of the first lane and then of the second.
        // SAFETY: the bytes of 32 numbers can be read.
        let found = unsafe {
            let next = at.add(self.bits);
            _mm256_packs_epi16(self.eights::<NARROW>(at), self.eights::<NARROW>(next))
        };
        _mm256_movemask_epi8(found) as u32
    }

    /// Which of the eight numbers that begin at an address, and of the eight that begin 16 behind,
    /// are in the range: lanes of ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eights<const NARROW: bool>(&self, at: *const u8) -> __m256i {
        let [first, second] = &self.sides;
        // SAFETY: the bytes of these numbers can be read; the loads need no alignment.
        let load = |at: *const u8| unsafe {
            let (low, high) =
                (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(2 * self.bits).cast()));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        };
        let bytes = load(at);
        // SAFETY: the latter four of eight numbers begin there.
        let others = if NARROW { bytes } else { load(unsafe { at.add(self.bits / 2) }) };
        _mm256_packs_epi32(first.inside(bytes), second.inside(others))
    }
}

impl Side {
    /// The lower half of eight lanes, or the upper one, whose bytes begin so many behind those of
    /// the first number.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new<const HALVES: i32>(cut: &Cut, behind: usize, (start, end): (u32, u32)) -> Side {
        let of = |lanes: __m256i| _mm256_permute2x128_si256::<HALVES>(lanes, lanes);
        let shifts = of(cut.shifts);
        let shifted = |of: u32| _mm256_sllv_epi32(_mm256_set1_epi32(of as i32), shifts);
        let places = _mm256_add_epi8(of(cut.places), _mm256_set1_epi8(behind as i8));
        // Comparisons are of signed numbers: what is less than the length is, less 2^31, less than
        // that.
        let half = _mm256_set1_epi32(i32::MIN);
        Side {
            // Behind the bytes of the last number stands nothing that is looked at.
            places: _mm256_min_epu8(places, _mm256_set1_epi8(15)),
            masks: of(_mm256_sllv_epi32(cut.mask, cut.shifts)),
            least: _mm256_add_epi32(shifted(start), half),
            most: _mm256_add_epi32(shifted(end - start), half),
        }
    }

    /// Which of the numbers in some bytes are in the range: lanes of ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn inside(&self, bytes: __m256i) -> __m256i {
        let numbers = _mm256_and_si256(_mm256_shuffle_epi8(bytes, self.places), self.masks);
        _mm256_cmpgt_epi32(self.most, _mm256_sub_epi32(numbers, self.least))
    }
}
