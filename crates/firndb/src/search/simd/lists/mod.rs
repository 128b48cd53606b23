//! Kernels for packed lists of documents: count and set their bits in a bitset, join the low and
//! high bits of Elias-Fano lists, extract set bits, and compare packed numbers with a range.
//!
//! A range query reads the lists of many keys and would spend half of its time on unpacking
//! documents one by one. With AVX-512 VBMI, one instruction moves the bytes of 16 numbers to their
//! lanes, and a gather looks up 16 documents in the bitset. AVX2 joins and compares eight numbers
//! at a time, and looks up the set bits of a byte in a table; for counting and setting it has no
//! version. The portable version handles one document at a time.
#![expect(unsafe_code, reason = "calling functions compiled for features that were just detected")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::bytes::int::u64_at;
use crate::bytes::packed::Packed;
use crate::search::simd::kernels;

/// How many of the entries `first..last` of a list are in a bitset.
pub(crate) fn count(list: Packed, first: usize, last: usize, bits: &[u64]) -> u64 {
    let mut total = 0;
    #[allow(unused_mut, reason = "the fast version is for x86-64")]
    let mut one = |doc: u32| {
        total += bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
    };
    #[cfg(target_arch = "x86_64")]
    if let Some((start, end)) = avx512::groups(list, first, last) {
        list.for_each(first, start, &mut one);
        list.for_each(end, last, &mut one);
        // SAFETY: `groups` returns `None` on processors without the features.
        return total + unsafe { avx512::count(list, start, end, bits) };
    }
    list.for_each(first, last, one);
    total
}

/// Sets the bits of the entries `first..last` of a list.
pub(crate) fn set(list: Packed, first: usize, last: usize, bits: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    if let Some((start, end)) = avx512::groups(list, first, last) {
        list.for_each(first, start, |doc| set_one(bits, doc));
        // SAFETY: `groups` returns `None` on processors without the features.
        unsafe { avx512::set(list, start, end, bits) };
        list.for_each(end, last, |doc| set_one(bits, doc));
        return;
    }
    list.for_each(first, last, |doc| set_one(bits, doc));
}

/// Sets the bits of documents.
pub(crate) fn set_each(docs: &[u32], bits: &mut [u64]) {
    docs.iter().for_each(|&doc| set_one(bits, doc));
}

/// How many documents are in a bitset.
pub(crate) fn count_each(docs: &[u32], bits: &[u64]) -> u64 {
    let bit = |&doc: &u32| bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
    docs.iter().map(bit).sum()
}

/// Appends the positions of the set bits of words, plus `base`. `mask` is applied to the first
/// word.
pub(crate) fn push_ones(words: &[u8], mask: u64, base: u32, out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if kernels::has_avx512_vbmi() {
        // SAFETY: the processor has the features.
        return unsafe { avx512::push_ones(words, mask, base, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if kernels::has_avx2() {
        // SAFETY: the processor has the features: every version but the portable one has POPCNT.
        return unsafe { avx2::push_ones(words, mask, base, out) };
    }
    let mut mask = mask;
    for (i, word) in words.as_chunks::<8>().0.iter().enumerate() {
        kernels::push_word(u64_at(word, 0) & mask, base + i as u32 * 64, out);
        mask = u64::MAX;
    }
}

/// Which of 64 packed numbers are in `low..low + span`: bit i stands for number i.
pub(crate) fn inside(bytes: &[u8], bits: u8, low: u32, span: u32) -> u64 {
    let bits = usize::from(bits);
    #[cfg(target_arch = "x86_64")]
    if let Some(bytes) = avx512::window_of(bytes, bits) {
        // SAFETY: `window_of` returns `None` on processors without the features.
        return unsafe { avx512::inside(bytes, bits, low, span) };
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(bytes) = avx2::window_of(bytes, bits) {
        // SAFETY: `window_of` returns `None` on processors without the features.
        return unsafe { avx2::inside(bytes, bits, low, span) };
    }
    let mask = (1u64 << bits) - 1;
    (0..64).fold(0, |found, i| {
        let number = (u64_at(bytes, i * bits / 8) >> (i * bits % 8) & mask) as u32;
        found | u64::from(number.wrapping_sub(low) < span) << i
    })
}

/// Decodes entries of an Elias-Fano list in place. On entry, `docs[j]` is the position of the high
/// bit of entry `first + j`; its bucket is `docs[j] + before - j` (modulo 2^32). On return,
/// `docs[j]` is the document: the bucket followed by the low bits from `list`.
pub(crate) fn join(list: Packed, first: usize, before: u32, docs: &mut [u32]) {
    #[allow(unused_mut, reason = "the fast version is for x86-64")]
    let mut start = 0;
    #[cfg(target_arch = "x86_64")]
    {
        let last = first + docs.len();
        let wide = avx512::groups(list, first, last);
        if let Some((from, end)) = wide.or_else(|| avx2::groups(list, first, last)) {
            let part = (from - first, end - first);
            join_each(list, first, before, (0, part.0), docs);
            // SAFETY: `groups` returns `None` on processors without the features.
            unsafe {
                match wide {
                    Some(_) => avx512::join(list, first, before, part, docs),
                    None => avx2::join(list, first, before, part, docs),
                }
            }
            start = part.1;
        }
    }
    join_each(list, first, before, (start, docs.len()), docs);
}

/// [`join`] for the entries `from..to`, one by one.
#[inline(always)]
fn join_each(
    list: Packed,
    first: usize,
    before: u32,
    (from, to): (usize, usize),
    docs: &mut [u32],
) {
    let bits = list.raw().1;
    for (j, doc) in docs[..to].iter_mut().enumerate().skip(from) {
        let bucket = doc.wrapping_add(before).wrapping_sub(j as u32);
        *doc = bucket << bits | list.get(first + j);
    }
}

#[inline(always)]
fn set_one(bits: &mut [u64], doc: u32) {
    if let Some(word) = bits.get_mut(doc as usize / 64) {
        *word |= 1 << (doc % 64);
    }
}

#[cfg(test)]
mod tests;
