//! Column scans: finds the documents whose ordinal in a packed column belongs to a set, 64
//! documents at a time (Willhalm et al. 2009, *SIMD-Scan*).
//!
//! A scanned field needs no postings lists. One pass over a column of at most 8 bits handles any
//! set of ordinals; per million documents it takes 15 to 28 us with AVX-512 VBMI (Intel Sapphire
//! Rapids) and 27 to 55 us with AVX2 (AMD Zen 3). One pass over a wider column handles one range of
//! ordinals, in 30 to 80 us with AVX-512 VBMI and 68 to 85 us with AVX2. Sets of a few ranges take
//! one pass per range; larger sets are looked up document by document.
#![expect(unsafe_code, reason = "calling functions compiled for features that were just detected")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod ordinal_set;
mod portable;

use crate::bytes::packed::{GROUP, Packed};
use crate::search::simd::kernels;
#[cfg(target_arch = "x86_64")]
use crate::search::simd::unpack_avx2;
pub(crate) use ordinal_set::{Keys, OrdinalSet};

/// The cost of a pass over a column of `bits` bits on this processor, in tenths of a nanosecond per
/// 64 documents.
pub(crate) fn cost(bits: usize) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if kernels::has_avx512_vbmi() {
            return match bits {
                0..=8 => 12,
                9..=avx512::HALF_BITS => 21,
                16..=avx512::RANGE_BITS => 48,
                _ => 500,
            };
        }
        if kernels::has_avx2() {
            return match bits {
                0..=3 => 26,
                4 => 18,
                5..=7 => 35,
                8 => 22,
                9..=unpack_avx2::HALF_BITS => 44,
                17..=unpack_avx2::MAX_BITS => 54,
                _ => 500,
            };
        }
    }
    portable::cost(bits)
}

/// The cost of looking up 64 documents one by one, in the same unit.
const LOOKUP_COST: u64 = 1000;

/// The cost of finding the documents of a set of ordinals, in the unit of [`cost`].
pub(crate) fn cost_of(column: Packed, wanted: &OrdinalSet) -> u64 {
    let bits = column.raw().1;
    match wanted {
        OrdinalSet::Small(_) | OrdinalSet::Range { .. } => cost(bits),
        OrdinalSet::Ranges(ranges) => cost(bits) * ranges.len() as u64,
        OrdinalSet::Many { .. } => LOOKUP_COST,
    }
}

/// Sets word `i` of `out` to the mask of those of the 64 documents from `64 * (first + i)` on whose
/// ordinals are in the set.
pub(crate) fn fill(column: Packed, wanted: &OrdinalSet, first: usize, out: &mut [u64]) {
    let done = match fill_fast(column, wanted, first, out) {
        0 => fill_portable(column, wanted, first, out),
        done => done,
    };
    if done == out.len() {
        return;
    }
    let (first, out) = (first + done, &mut out[done..]);
    match wanted {
        OrdinalSet::Small(keys) => fill_each(column, |ord| keys.bit(ord) == 1, first, out),
        OrdinalSet::Range { first: start, len } => {
            fill_each(column, |ord| ord.wrapping_sub(*start) < *len, first, out);
        }
        OrdinalSet::Ranges(ranges) => fill_ranges(column, ranges, first, out),
        OrdinalSet::Many { bits, beyond } => {
            fill_each(column, |ord| ordinal_set::has(bits, *beyond, ord), first, out);
        }
    }
}

/// [`fill`] with SIMD for as many of the first words as possible. Returns their number.
#[cfg(target_arch = "x86_64")]
fn fill_fast(column: Packed, wanted: &OrdinalSet, first: usize, out: &mut [u64]) -> usize {
    let (wide, narrow) = (kernels::has_avx512_vbmi(), kernels::has_avx2());
    // SAFETY: the features were just detected.
    unsafe {
        match wanted {
            OrdinalSet::Small(keys) if wide => avx512::fill(column, keys, first, out),
            OrdinalSet::Small(keys) if narrow => avx2::fill(column, keys, first, out),
            OrdinalSet::Range { first: start, len } if wide => {
                avx512::fill_range(column, (*start, *len), first, out)
            }
            OrdinalSet::Range { first: start, len } if narrow => {
                avx2::fill_range(column, (*start, *len), first, out)
            }
            _ => 0,
        }
    }
}

/// The bytes of a column from word `first` on, and the words of `out` for which the column has all
/// 64 documents.
#[inline(always)]
fn whole<'c, 'o>(
    column: Packed<'c>,
    first: usize,
    out: &'o mut [u64],
) -> (&'c [u8], &'o mut [u64]) {
    let (bytes, bits) = column.raw();
    let words = (column.len() / 64).saturating_sub(first).min(out.len());
    (bytes.get(first * 8 * bits..).unwrap_or(&[]), &mut out[..words])
}

#[cfg(not(target_arch = "x86_64"))]
fn fill_fast(_: Packed, _: &OrdinalSet, _: usize, _: &mut [u64]) -> usize {
    0
}

/// [`fill_fast`] without vector instructions.
fn fill_portable(column: Packed, wanted: &OrdinalSet, first: usize, out: &mut [u64]) -> usize {
    match wanted {
        OrdinalSet::Small(keys) => portable::fill(column, keys, first, out),
        OrdinalSet::Range { first: start, len } => {
            portable::fill_range(column, (*start, *len), first, out)
        }
        _ => 0,
    }
}

/// [`fill`] for several ranges.
fn fill_ranges(column: Packed, ranges: &[(u32, u32)], first: usize, out: &mut [u64]) {
    out.fill(0);
    let mut found = [0; BLOCK];
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let found = &mut found[..out.len()];
        for &(start, len) in ranges {
            fill(column, &OrdinalSet::Range { first: start, len }, first + i * BLOCK, found);
            kernels::or(out, found);
        }
    }
}

/// The portable version of [`fill`].
fn fill_each(column: Packed, has: impl Fn(u32) -> bool, first: usize, out: &mut [u64]) {
    let (groups, words) = (column.len() / GROUP, out.len());
    out.fill(0);
    let mut group = 0;
    let range = first * 64 / GROUP..groups.min((first + words) * 64 / GROUP);
    column.for_each_group(range, |ords| {
        let bit = |(i, &ord): (usize, &u32)| u64::from(has(ord)) << i;
        let bits = ords.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit);
        out[group * GROUP / 64] |= bits << (group * GROUP % 64);
        group += 1;
    });
    for doc in (groups * GROUP).max(first * 64)..column.len().min((first + words) * 64) {
        out[doc / 64 - first] |= u64::from(has(column.get(doc))) << (doc % 64);
    }
}

/// The number of words in a temporary buffer.
pub(crate) const BLOCK: usize = 64;

/// Adds the documents whose ordinals are in the set to a bitset.
pub(crate) fn add(column: Packed, wanted: &OrdinalSet, bits: &mut [u64]) {
    let mut found = [0; BLOCK];
    for (i, bits) in bits.chunks_mut(BLOCK).enumerate() {
        let found = &mut found[..bits.len()];
        fill(column, wanted, i * BLOCK, found);
        kernels::or(bits, found);
    }
}

/// How many documents of a bitset have ordinals in the set.
pub(crate) fn count(column: Packed, wanted: &OrdinalSet, bits: &[u64]) -> u64 {
    let (mut found, mut sum) = ([0; BLOCK], 0);
    for (i, bits) in bits.chunks(BLOCK).enumerate() {
        let found = &mut found[..bits.len()];
        fill(column, wanted, i * BLOCK, found);
        kernels::and(found, bits);
        sum += kernels::count(found);
    }
    sum
}

/// How many documents have ordinals in the respective sets in both of two columns over the same
/// documents.
pub(crate) fn count_both(a: (Packed, &OrdinalSet), b: (Packed, &OrdinalSet)) -> u64 {
    #[allow(unused_mut, reason = "the fast version is for x86-64")]
    let (mut first, mut sum) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if let ((c, OrdinalSet::Small(x)), (d, OrdinalSet::Small(y))) = (a, b)
        && [c, d].iter().all(|column| column.raw().1 == 4)
    {
        let (a, b) = ((c, x), (d, y));
        // SAFETY: the features are detected right here; `has_avx512_vbmi` includes POPCNT.
        (first, sum) = unsafe {
            if kernels::has_avx512_vbmi() {
                avx512::count_nibbles(a, b)
            } else if kernels::has_avx2() {
                avx2::count_nibbles(a, b)
            } else {
                (0, 0)
            }
        };
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

/// Replaces `out` by the next documents from word `*word` on whose ordinals are in the set: about
/// `size` of them, and at most 1,024. Documents after `last` may be omitted.
pub(crate) fn push(
    column: Packed,
    wanted: &OrdinalSet,
    (word, last): (&mut usize, u32),
    size: usize,
    out: &mut Vec<u32>,
) {
    out.clear();
    let end = (last as usize).min(column.len()).div_ceil(64);
    let mut found = [0; BLOCK / 4];
    let mut room = found.len();
    // Stop while there is little room left: a call to `fill` for a few words does not pay off.
    while *word < end && out.len() < size && room > BLOCK / 16 {
        let found = &mut found[..(end - *word).min(room)];
        fill(column, wanted, *word, found);
        for (i, &bits) in found.iter().enumerate() {
            kernels::push_word(bits, (*word + i) as u32 * 64, out);
        }
        *word += found.len();
        room = BLOCK / 4 - out.len().div_ceil(64);
    }
}

#[cfg(test)]
mod tests;
