//! Search in a block body of the most common shape: at most 128 records, keys of one length, and
//! one-byte value lengths. It uses a few 32-byte vectors. Fewer instructions per get let the
//! processor execute more of the next get while this one waits for memory.

#![expect(unsafe_code, reason = "loads of whole arrays: see the SAFETY notes")]

use crate::bytes::int::u32_at;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::table::simd::block_search::{
    BODY_HEADER, FRACTION_ONE, RecordSpan, VALUE_LINES, keys_equal,
};
use crate::table::simd::kernels::GROUP;
use std::arch::x86_64::*;

/// Bytes of a vector.
const VECTOR: usize = 32;
/// Bytes that hold the header, lengths and tags of any body of this shape, plus one vector that is
/// loaded from the last tag.
const PREFIX: usize = BODY_HEADER + 2 * GROUP + VECTOR;
/// Records before the expected position at which the search starts: twice the standard deviation in
/// the middle of a block of 100 records. With more, records with the same tag are compared
/// needlessly; with fewer, the record is missed more often.
const LOOKBACK: usize = 10;

/// A body of the common shape.
struct CommonBody<'a> {
    prefix: &'a [u8; PREFIX],
    records: usize,
    key_len: usize,
}

/// Proof that the processor has AVX2 and BMI2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Search(());

impl Avx2Search {
    pub(crate) fn detect() -> Option<Avx2Search> {
        let is_supported = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
        is_supported.then_some(Avx2Search(()))
    }

    /// Finds the record of a key in a body of the common shape. `fraction`, of [`FRACTION_ONE`], is
    /// the expected position of the record in the body; the search starts there, which avoids
    /// comparing another record with the same tag.
    #[inline(always)]
    pub(crate) fn find(self, body: &[u8], tag: u8, fraction: usize, key: &[u8]) -> RecordSpan {
        // SAFETY: an `Avx2Search` exists only if the processor has AVX2 and BMI2.
        unsafe { find(body, tag, fraction, key) }
    }

    /// The most likely record of a key of this length in a body of the common shape, without
    /// comparing keys. The checksum of the body may not have been checked.
    #[inline(always)]
    pub(crate) fn first(self, body: &[u8], tag: u8, fraction: usize, key_len: usize) -> RecordSpan {
        // SAFETY: an `Avx2Search` exists only if the processor has AVX2 and BMI2.
        unsafe { first(body, tag, fraction, key_len) }
    }
}

#[target_feature(enable = "avx2,bmi2")]
fn find(body: &[u8], tag: u8, fraction: usize, key: &[u8]) -> RecordSpan {
    let Some(common) = CommonBody::new(body, key.len()) else { return RecordSpan::UNKNOWN };
    let start = common.search_start(fraction);
    let equal = common.equal(start, tag);
    if equal != 0 {
        let span = common.span(start + equal.trailing_zeros() as usize);
        if let Some((found, value)) = span.split(body, key.len()) {
            if value.len() > LINE {
                prefetch(value, VALUE_LINES);
            }
            if keys_equal(found, key) {
                return span;
            }
        }
    }
    find_anywhere(body, tag, key)
}

/// Searches all records. A separate function, because most gets do not need it. Does not prefetch
/// values, as most candidates are wrong.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn find_anywhere(body: &[u8], tag: u8, key: &[u8]) -> RecordSpan {
    let Some(common) = CommonBody::new(body, key.len()) else { return RecordSpan::UNKNOWN };
    for from in (0..GROUP).step_by(VECTOR) {
        let mut equal = common.equal(from, tag);
        while equal != 0 {
            let span = common.span(from + equal.trailing_zeros() as usize);
            match span.split(body, key.len()) {
                Some((found, _)) if keys_equal(found, key) => return span,
                Some(_) => equal &= equal - 1,
                None => return RecordSpan::UNKNOWN,
            }
        }
    }
    RecordSpan::ABSENT
}

#[target_feature(enable = "avx2,bmi2")]
fn first(body: &[u8], tag: u8, fraction: usize, key_len: usize) -> RecordSpan {
    let Some(common) = CommonBody::new(body, key_len) else { return RecordSpan::UNKNOWN };
    let start = common.search_start(fraction);
    for from in [start, 0, VECTOR, 2 * VECTOR, 3 * VECTOR] {
        let equal = common.equal(from, tag);
        if equal != 0 {
            return common.span(from + equal.trailing_zeros() as usize);
        }
    }
    RecordSpan::ABSENT
}

impl<'a> CommonBody<'a> {
    /// `None` if the body has another shape, or keys of another length.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn new(body: &'a [u8], key_len: usize) -> Option<CommonBody<'a>> {
        let prefix: &[u8; PREFIX] = body.first_chunk()?;
        let (head, its_len) = (u32_at(prefix, 0), u32_at(prefix, 4) as usize);
        let records = (head ^ 1 << 28) as usize;
        let is_common = records <= GROUP && its_len == key_len;
        is_common.then_some(CommonBody { prefix, records, key_len })
    }

    /// The record at which the search starts.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn search_start(&self, fraction: usize) -> usize {
        (fraction * self.records / FRACTION_ONE).saturating_sub(LOOKBACK) % GROUP
    }

    /// Mask of the records `from..from + 32`, below 128, that have the tag.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn equal(&self, from: usize, tag: u8) -> u32 {
        let tags = self.prefix[BODY_HEADER + self.records + from..].first_chunk();
        let equal = tags.map_or(0, |tags| equal(tags, tag));
        _bzhi_u32(equal, self.records.saturating_sub(from) as u32)
    }

    /// The span of record `i`.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn span(&self, i: usize) -> RecordSpan {
        let Some(lengths) = self.prefix[BODY_HEADER..].first_chunk() else {
            return RecordSpan::UNKNOWN;
        };
        let before = i * self.key_len + prefix_sum(lengths, i);
        let start = BODY_HEADER + 2 * self.records + before;
        let end = start + self.key_len + usize::from(lengths[i % GROUP]);
        RecordSpan { start: start as u32, end: end as u32 }
    }
}

/// Mask of the bytes equal to `tag`.
#[inline]
#[target_feature(enable = "avx2")]
fn equal(bytes: &[u8; VECTOR], tag: u8) -> u32 {
    // SAFETY: reads 32 bytes from an array of 32.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(tag as i8))) as u32
}

/// 128 bytes of ones, then zeros: a load from byte 128 - n keeps n bytes.
static KEEP_FIRST: [u8; 2 * GROUP] = {
    let (mut keep, mut i) = ([0; 2 * GROUP], 0);
    while i < GROUP {
        keep[i] = 0xff;
        i += 1;
    }
    keep
};

/// Sum of the first `n` bytes of a group; `n` is at most 127.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_sum(group: &[u8; GROUP], n: usize) -> usize {
    let keep = KEEP_FIRST[GROUP - n % GROUP..].as_chunks::<VECTOR>().0;
    let mut sums = _mm256_setzero_si256();
    for pair in group.as_chunks::<VECTOR>().0.iter().zip(keep) {
        // SAFETY: each load reads 32 bytes from an array of 32.
        let [bytes, keep] = <[_; 2]>::from(pair)
            .map(|bytes: &[u8; VECTOR]| unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
        let kept = _mm256_and_si256(bytes, keep);
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(kept, _mm256_setzero_si256()));
    }
    let half = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(half, half));
    (_mm_cvtsi128_si64(half) + upper) as usize
}
