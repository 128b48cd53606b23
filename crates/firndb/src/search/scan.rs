//! Documents by their ordinals in a packed column: those whose ordinal is one of a set, 64 at a
//! time. (Willhalm et al. 2009, *SIMD-Scan*.)
//!
//! A field of few keys needs no lists then: its column alone says which documents a key has, any
//! number of keys at once. A pass over a million documents takes 15 to 28 us with AVX-512 VBMI and
//! 60 to 70 us with AVX2.
#![expect(unsafe_code, reason = "loads take addresses; features are detected at run time")]

use super::kernels;
use crate::bytes::packed::{GROUP, Packed};

/// Bits of the widest column that is scanned.
pub(crate) const MOST_BITS: u8 = 8;

/// A set of ordinals below 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys([u64; 4]);

impl Keys {
    /// Adds the ordinals `start..end`, as far as they are below 256.
    pub(crate) fn insert(&mut self, start: u32, end: u32) {
        kernels::set_range(&mut self.0, start, end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the ordinals of another set.
    pub(crate) fn join(&mut self, other: &Keys) {
        kernels::or(&mut self.0, &other.0);
    }

    pub(crate) fn len(&self) -> usize {
        kernels::count(&self.0) as usize
    }

    /// 1 if an ordinal below 256 is in the set, else 0.
    #[inline(always)]
    fn bit(&self, ord: u32) -> u64 {
        self.0[ord as usize / 64 % 4] >> (ord % 64) & 1
    }

    /// All other numbers below 256: a document without a value has one of them.
    pub(crate) fn others(self) -> Keys {
        Keys(self.0.map(|word| !word))
    }

    /// With what numbers of `bits` bits say repeated, so that bits above those do not matter.
    fn repeated(self, bits: usize) -> [u64; 4] {
        let mut words = self.0;
        for size in (0..8).map(|i| 1usize << i).skip(bits) {
            match size {
                ..64 => words[0] = words[0] & ((1 << size) - 1) | words[0] << size,
                64 => words[1] = words[0],
                _ => words.copy_within(0..2, 2),
            }
        }
        words
    }
}

/// What a pass costs for 64 documents on this processor, tenths of a nanosecond.
pub(crate) fn cost() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if kernels::can_move_bytes() {
            return 12;
        }
        if narrow::can() {
            return 42;
        }
    }
    500
}

/// Sets each word `i` of `out` to those documents from `64 (first + i)` on whose ordinals are keys.
pub(crate) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) {
    #[allow(unused_mut, reason = "the fast versions are for x86-64")]
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if kernels::can_move_bytes() {
        // SAFETY: the processor has the features.
        done = unsafe { wide::fill(column, keys, first, out) };
    } else if narrow::can() {
        // SAFETY: the processor has the features.
        done = unsafe { narrow::fill(column, keys, first, out) };
    }
    if done < out.len() {
        fill_each(column, keys, first + done, &mut out[done..]);
    }
}

/// [`fill`] without a choice of instructions.
fn fill_each(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) {
    let (groups, words) = (column.len() / GROUP, out.len());
    out.fill(0);
    let mut group = 0;
    let range = first * 64 / GROUP..groups.min((first + words) * 64 / GROUP);
    column.for_each_group(range, |ords| {
        let bits = ords.iter().enumerate().fold(0, |bits, (i, &ord)| bits | keys.bit(ord) << i);
        out[group * GROUP / 64] |= bits << (group * GROUP % 64);
        group += 1;
    });
    for doc in (groups * GROUP).max(first * 64)..column.len().min((first + words) * 64) {
        out[doc / 64 - first] |= keys.bit(column.get(doc)) << (doc % 64);
    }
}

/// Words that are made at a time where they are not kept.
const BLOCK: usize = 64;

/// Adds the documents whose ordinals are keys to a bitset.
pub(crate) fn add(column: Packed, keys: &Keys, bits: &mut [u64]) {
    let mut found = [0; BLOCK];
    for (i, bits) in bits.chunks_mut(BLOCK).enumerate() {
        let found = &mut found[..bits.len()];
        fill(column, keys, i * BLOCK, found);
        kernels::or(bits, found);
    }
}

/// How many documents of a bitset have ordinals that are keys.
pub(crate) fn count(column: Packed, keys: &Keys, bits: &[u64]) -> u64 {
    let (mut found, mut sum) = ([0; BLOCK], 0);
    for (i, bits) in bits.chunks(BLOCK).enumerate() {
        let found = &mut found[..bits.len()];
        fill(column, keys, i * BLOCK, found);
        kernels::and(found, bits);
        sum += kernels::count(found);
    }
    sum
}

/// How many documents have keys in both columns, which are of the same documents.
pub(crate) fn count_both(a: (Packed, &Keys), b: (Packed, &Keys)) -> u64 {
    #[allow(unused_mut, reason = "the fast version is for x86-64")]
    let (mut first, mut sum) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if kernels::can_move_bytes() && [a, b].iter().all(|(column, _)| column.raw().1 == 4) {
        // SAFETY: the processor has the features.
        (first, sum) = unsafe { wide::count_nibbles(a, b) };
    }
    let (mut found, mut other) = ([0; BLOCK], [0; BLOCK]);
    let words = a.0.len().max(b.0.len()).div_ceil(64);
    for from in (first..words).step_by(BLOCK) {
        let (found, other) =
            (&mut found[..BLOCK.min(words - from)], &mut other[..BLOCK.min(words - from)]);
        fill(a.0, a.1, from, found);
        fill(b.0, b.1, from, other);
        kernels::and(found, other);
        sum += kernels::count(found);
    }
    sum
}

/// Replaces `out` by documents from word `*word` on whose ordinals are keys: about `size` of them,
/// and at most 1,024. Those behind `last` need not come.
pub(crate) fn push(
    column: Packed,
    keys: &Keys,
    (word, last): (&mut usize, u32),
    size: usize,
    out: &mut Vec<u32>,
) {
    out.clear();
    let end = (last as usize).min(column.len()).div_ceil(64);
    let mut found = [0; BLOCK / 4];
    let mut room = found.len();
    // A call for the last few would take longer than they do.
    while *word < end && out.len() < size && room > BLOCK / 16 {
        let found = &mut found[..(end - *word).min(room)];
        fill(column, keys, *word, found);
        for (i, &bits) in found.iter().enumerate() {
            kernels::push_word(bits, (*word + i) as u32 * 64, out);
        }
        *word += found.len();
        room = BLOCK / 4 - out.len().div_ceil(64);
    }
}

/// AVX-512 VBMI: 64 numbers are moved and shifted into bytes by two instructions.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::Keys;
    use crate::bytes::packed::Packed;
    use std::arch::x86_64::*;

    /// For each width the bytes that eight numbers are in, for each of eight lanes, and the bit at
    /// which each begins there.
    static CUTS: [[[u8; 64]; 2]; 9] = cuts();

    const fn cuts() -> [[[u8; 64]; 2]; 9] {
        let mut cuts = [[[0; 64]; 2]; 9];
        let mut at = 0;
        while at < cuts.len() * 64 {
            let (bits, lane, i) = (at / 64, at / 8 % 8, at % 8);
            // Behind the bytes of the last lane stands nothing that is looked at.
            let place = lane * bits + i;
            cuts[bits][0][at % 64] = if place < 64 { place as u8 } else { 63 };
            cuts[bits][1][at % 64] = (i * bits) as u8;
            at += 1;
        }
        cuts
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes are there; the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// Bytes of which all bits say whether a number is a key.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn tables(keys: &Keys, bits: usize) -> [__m512i; 4] {
        let mut tables = [_mm512_setzero_si512(); 4];
        for (table, word) in tables.iter_mut().zip(keys.repeated(bits)) {
            *table = _mm512_movm_epi8(word);
        }
        tables
    }

    /// [`super::fill`] of the words whose bytes can be loaded; gives how many they are.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) -> usize {
        let (bytes, bits) = column.raw();
        if bits == 0 || bits > 8 {
            return 0;
        }
        let whole = (column.len() / 64).saturating_sub(first).min(out.len());
        let bytes = bytes.get(first * 8 * bits..).unwrap_or(&[]);
        let tables = tables(keys, bits);
        let out = &mut out[..whole];
        match bits {
            7 => fill_by(bytes, bits, out, |numbers| {
                _mm512_permutex2var_epi8(tables[0], numbers, tables[1])
            }),
            8 => fill_by(bytes, bits, out, |numbers| {
                let low = _mm512_permutex2var_epi8(tables[0], numbers, tables[1]);
                let high = _mm512_permutex2var_epi8(tables[2], numbers, tables[3]);
                _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high)
            }),
            _ => fill_by(bytes, bits, out, |numbers| _mm512_permutexvar_epi8(numbers, tables[0])),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn fill_by(
        bytes: &[u8],
        bits: usize,
        out: &mut [u64],
        look_up: impl Fn(__m512i) -> __m512i,
    ) -> usize {
        let [places, starts] = &CUTS[bits];
        let (places, starts) = (load(places), load(starts));
        for (i, word) in out.iter_mut().enumerate() {
            let window = bytes.get(i * 8 * bits..).and_then(<[u8]>::first_chunk);
            let Some(window) = window else { return i };
            let lanes = _mm512_permutexvar_epi8(places, load(window));
            let numbers = _mm512_multishift_epi64_epi8(starts, lanes);
            *word = _mm512_movepi8_mask(look_up(numbers));
        }
        out.len()
    }

    /// How many documents have keys in two columns of 4 bits, as far as 128 of them can be loaded;
    /// and the word behind them. Two numbers are in each byte: nothing needs to be moved.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,popcnt")]
    pub(super) fn count_nibbles(a: (Packed, &Keys), b: (Packed, &Keys)) -> (usize, u64) {
        let [of_a, of_b] = [a, b].map(|(_, keys)| tables(keys, 4)[0]);
        let documents = a.0.len().min(b.0.len());
        let [a, b] = [a, b].map(|(column, _)| column.raw().0.chunks_exact(64));
        let (mut word, mut sum) = (0, 0);
        for (a, b) in a.zip(b).take(documents / 128) {
            let (Some(a), Some(b)) = (a.first_chunk(), b.first_chunk()) else { break };
            let (a, b) = (load(a), load(b));
            let low = _mm512_and_si512(
                _mm512_permutexvar_epi8(a, of_a),
                _mm512_permutexvar_epi8(b, of_b),
            );
            let (a, b) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
            let high = _mm512_and_si512(
                _mm512_permutexvar_epi8(a, of_a),
                _mm512_permutexvar_epi8(b, of_b),
            );
            let both = [low, high].map(|found| u64::from(_mm512_movepi8_mask(found).count_ones()));
            sum += both[0] + both[1];
            word += 2;
        }
        (word, sum)
    }
}

/// AVX2: 16 numbers are moved to lanes of 16 bits, multiplied to their upper ends and shifted down.
#[cfg(target_arch = "x86_64")]
mod narrow {
    use super::super::kernels::{self, Version};
    use super::Keys;
    use crate::bytes::packed::Packed;
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
        let (bytes, bits) = column.raw();
        if bits == 0 || bits > 8 {
            return 0;
        }
        let whole = (column.len() / 64).saturating_sub(first).min(out.len());
        let (bytes, out) = (bytes.get(first * 8 * bits..).unwrap_or(&[]), &mut out[..whole]);
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
            let half =
                |group: usize| _mm256_movemask_epi8(look_up(cut.numbers(window, group))) as u32;
            *word = u64::from(half(0)) | u64::from(half(4)) << 32;
        }
        out.len()
    }
}

#[cfg(test)]
mod tests;
