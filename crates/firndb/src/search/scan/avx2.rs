//! AVX2: numbers of at most 8 bits are moved to lanes of 16 bits, 16 at a time, multiplied to the
//! upper ends of these and shifted down; wider ones are moved to lanes of 32 bits, 8 at a time, and
//! shifted there.
#![expect(unsafe_code, reason = "loads take addresses")]

use super::wanted::Keys;
use super::whole;
use crate::bytes::packed::Packed;
use crate::search::kernels::{self, Version};
use std::arch::x86_64::*;

/// Whether the processor has the features.
#[inline(always)]
pub(super) fn can() -> bool {
    kernels::best() != Version::Portable && is_x86_feature_detected!("avx2")
}

/// For each width where the two bytes of a number's lane come from, and what it is multiplied
/// by, for eight numbers.
static CUTS: [([u8; 16], [i16; 8]); 9] = cuts();

const fn cuts() -> [([u8; 16], [i16; 8]); 9] {
    let mut cuts = [([0; 16], [0; 8]); 9];
    let mut at = 0;
    while at < cuts.len() * 8 {
        let (bits, i) = (at / 8, at % 8);
        let (byte, bit) = (i * bits / 8, i * bits % 8);
        cuts[bits].0[2 * i] = byte as u8;
        cuts[bits].0[2 * i + 1] = byte as u8 + 1;
        cuts[bits].1[i] = if bits == 0 { 0 } else { 1 << (16 - bits - bit) };
        at += 1;
    }
    cuts
}

/// How eight numbers are cut out of 16 bytes, twice.
struct Cut {
    bits: usize,
    places: __m256i,
    factors: __m256i,
    shift: __m128i,
}

impl Cut {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bits: usize) -> Cut {
        let (places, factors) = &CUTS[bits];
        // SAFETY: 16 bytes are in both arrays; the loads need no alignment.
        let [places, factors] = unsafe {
            [places.as_ptr().cast(), factors.as_ptr().cast()].map(|at| _mm_loadu_si128(at))
        };
        let [places, factors] = [places, factors].map(|of| _mm256_broadcastsi128_si256(of));
        Cut { bits, places, factors, shift: _mm_cvtsi32_si128(16 - bits as i32) }
    }

    /// 32 numbers, which begin with the group of eight of this number, in bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn numbers(&self, window: &[u8], group: usize) -> __m256i {
        assert!(window.len() >= (group + 3) * self.bits + 16);
        let unpack = |first: usize, second: usize| {
            let of = [first, second].map(|group| group * self.bits);
            // SAFETY: 16 bytes are there from each place on; the loads need no alignment.
            let [low, high] =
                unsafe { of.map(|at| _mm_loadu_si128(window.as_ptr().add(at).cast())) };
            let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
            let lanes = _mm256_shuffle_epi8(both, self.places);
            _mm256_srl_epi16(_mm256_mullo_epi16(lanes, self.factors), self.shift)
        };
        // Packing takes eight numbers of each in turn.
        _mm256_packus_epi16(unpack(group, group + 2), unpack(group + 1, group + 3))
    }
}

/// [`super::fill`] of the words whose bytes can be loaded; gives how many they are.
#[target_feature(enable = "avx2")]
pub(super) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    if bits == 0 || bits > 8 {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let [a, b, c, d] = keys.0.map(|word| word as i64);
    let (low, high) = (_mm256_set_epi64x(b, a, b, a), _mm256_set_epi64x(d, c, d, c));
    let powers = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
    let ends = [7, 15, 31, -128].map(|end| _mm256_set1_epi8(end));
    let holds = |byte, mask| _mm256_cmpeq_epi8(_mm256_and_si256(byte, mask), mask);
    match bits {
        ..=4 => {
            let table = table(keys);
            fill_by(bytes, bits, out, |numbers| _mm256_shuffle_epi8(table, numbers))
        }
        // A byte of the bitset of keys, and the bit in it.
        5..=7 => fill_by(bytes, bits, out, |numbers| {
            let eighth = _mm256_and_si256(_mm256_srli_epi16::<3>(numbers), ends[1]);
            holds(_mm256_shuffle_epi8(low, eighth), _mm256_shuffle_epi8(powers, numbers))
        }),
        _ => fill_by(bytes, bits, out, |numbers| {
            let eighth = _mm256_and_si256(_mm256_srli_epi16::<3>(numbers), ends[2]);
            let top = _mm256_and_si256(numbers, ends[3]);
            // A place with its top bit set takes nothing from a table.
            let byte = _mm256_or_si256(
                _mm256_shuffle_epi8(low, _mm256_or_si256(eighth, top)),
                _mm256_shuffle_epi8(high, _mm256_sub_epi8(eighth, _mm256_set1_epi8(16))),
            );
            holds(byte, _mm256_shuffle_epi8(powers, _mm256_and_si256(numbers, ends[0])))
        }),
    }
}

/// Bytes of which all bits say whether a number below 16 is a key, twice.
#[inline]
#[target_feature(enable = "avx2")]
fn table(keys: &Keys) -> __m256i {
    let mut table = [0u8; 16];
    for (ord, byte) in (0..).zip(&mut table) {
        *byte = 0u8.wrapping_sub(keys.bit(ord) as u8);
    }
    // SAFETY: 16 bytes are there; the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn fill_by(
    bytes: &[u8],
    bits: usize,
    out: &mut [u64],
    look_up: impl Fn(__m256i) -> __m256i,
) -> usize {
    let cut = Cut::new(bits);
    for (i, word) in out.iter_mut().enumerate() {
        // Each load takes 16 bytes, of which the first `bits` count.
        let window = bytes.get(i * 8 * bits..).and_then(|rest| rest.get(..7 * bits + 16));
        let Some(window) = window else { return i };
        let half = |group: usize| _mm256_movemask_epi8(look_up(cut.numbers(window, group))) as u32;
        *word = u64::from(half(0)) | u64::from(half(4)) << 32;
    }
    out.len()
}

/// Bits of the widest column that [`fill_range`] can read: a number of more does not fit the four
/// bytes that are moved to its lane.
pub(super) const RANGE_BITS: usize = 25;

/// For each width where the four bytes of a number's lane come from, and how far they are shifted
/// down, for the first four of eight numbers and for the others, which begin in the byte that
/// the first end in.
static RANGE_CUTS: [([u8; 32], [u32; 8]); RANGE_BITS + 1] = range_cuts();

const fn range_cuts() -> [([u8; 32], [u32; 8]); RANGE_BITS + 1] {
    let mut cuts = [([0; 32], [0; 8]); RANGE_BITS + 1];
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

/// Sets words to those documents whose ordinals are `len` from `first_ord` on, as far as their
/// bytes can be loaded; gives how many words they are.
#[target_feature(enable = "avx2")]
pub(super) fn fill_range(
    column: Packed,
    (first_ord, len): (u32, u32),
    first: usize,
    out: &mut [u64],
) -> usize {
    let bits = column.raw().1;
    if bits > RANGE_BITS {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let (places, shifts) = &RANGE_CUTS[bits];
    // SAFETY: 32 bytes are in both arrays; the loads need no alignment.
    let [places, shifts] = unsafe {
        [places.as_ptr().cast(), shifts.as_ptr().cast()].map(|at| _mm256_loadu_si256(at))
    };
    // Comparisons are of signed numbers: what is less than `len` is, less 2^31, less than that.
    let half = i32::MIN;
    let mask = _mm256_set1_epi32((1 << bits) - 1);
    let least = _mm256_set1_epi32((first_ord as i32).wrapping_add(half));
    let most = _mm256_set1_epi32((len as i32).wrapping_add(half));
    for (i, word) in out.iter_mut().enumerate() {
        // Each load takes 16 bytes; the last begins half a byte before the last four numbers.
        let start = i * 8 * bits;
        let Some(window) = bytes.get(start..start + 8 * bits + 16) else { return i };
        *word = 0;
        for group in 0..8 {
            let of = [group * bits, group * bits + bits / 2];
            // SAFETY: 16 bytes are there from each place on; the loads need no alignment.
            let [low, high] =
                unsafe { of.map(|at| _mm_loadu_si128(window.as_ptr().add(at).cast())) };
            let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
            let lanes = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, places), shifts);
            let numbers = _mm256_sub_epi32(_mm256_and_si256(lanes, mask), least);
            let inside = _mm256_castsi256_ps(_mm256_cmpgt_epi32(most, numbers));
            *word |= u64::from(_mm256_movemask_ps(inside) as u8) << (8 * group);
        }
    }
    out.len()
}
