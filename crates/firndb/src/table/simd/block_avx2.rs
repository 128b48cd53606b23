//! The search in the body that small records mostly make: at most 128 of them, keys of one length,
//! values whose lengths take a byte each. In a few vectors of 32 bytes, for the fewer instructions
//! a get takes, the more of the next one the processor does while this one waits for memory.

#![expect(unsafe_code, reason = "loads of whole arrays: see the SAFETY notes")]

use crate::bytes::int::u32_at;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::table::simd::block_search::{
    BODY_HEADER, FRACTION_ONE, RecordSpan, VALUE_LINES, keys_equal,
};
use crate::table::simd::kernels::GROUP;
use std::arch::x86_64::*;

/// Bytes of a vector.
const WIDE: usize = 32;
/// Bytes that hold the head, the lengths and the tags of any such body, and what a vector from the
/// last tag on has behind it.
const FRONT: usize = BODY_HEADER + 2 * GROUP + WIDE;
/// Records before the place where one is expected that are looked at first: twice the deviation in
/// the middle of a block of 100. More would have others of the same tag looked at before it, fewer
/// would miss it.
const NEAR: usize = 10;

/// A body of the usual shape.
struct Usual<'a> {
    front: &'a [u8; FRONT],
    records: usize,
    key_len: usize,
}

/// That the processor has what the search takes.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Search(());

impl Avx2Search {
    pub(crate) fn detect() -> Option<Avx2Search> {
        let is_wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
        is_wide.then_some(Avx2Search(()))
    }

    /// Where the record of a key is in a usual body. Where in it the record is likely to stand, as
    /// a share of [`FRACTION_ONE`], saves looking at a wrong one of the same tag first.
    #[inline(always)]
    pub(crate) fn find(self, body: &[u8], tag: u8, fraction: usize, key: &[u8]) -> RecordSpan {
        // SAFETY: the processor has what the function asks for.
        unsafe { find(body, tag, fraction, key) }
    }

    /// Where in a usual body the record is that is most likely that of a key of this length. The
    /// body may not have been checked.
    #[inline(always)]
    pub(crate) fn first(self, body: &[u8], tag: u8, fraction: usize, key_len: usize) -> RecordSpan {
        // SAFETY: the processor has what the function asks for.
        unsafe { first(body, tag, fraction, key_len) }
    }
}

#[target_feature(enable = "avx2,bmi2")]
fn find(body: &[u8], tag: u8, fraction: usize, key: &[u8]) -> RecordSpan {
    let Some(usual) = Usual::new(body, key.len()) else { return RecordSpan::UNKNOWN };
    let near = usual.near(fraction);
    let equal = usual.equal(near, tag);
    if equal != 0 {
        let spot = usual.spot(near + equal.trailing_zeros() as usize);
        if let Some((found, value)) = spot.split(body, key.len()) {
            if value.len() > LINE {
                prefetch(value, VALUE_LINES);
            }
            if keys_equal(found, key) {
                return spot;
            }
        }
    }
    find_anywhere(body, tag, key)
}

/// [`find`] among all records: apart from what most gets do, and without asking for values, of
/// which most are not the one.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn find_anywhere(body: &[u8], tag: u8, key: &[u8]) -> RecordSpan {
    let Some(usual) = Usual::new(body, key.len()) else { return RecordSpan::UNKNOWN };
    for from in (0..GROUP).step_by(WIDE) {
        let mut equal = usual.equal(from, tag);
        while equal != 0 {
            let spot = usual.spot(from + equal.trailing_zeros() as usize);
            match spot.split(body, key.len()) {
                Some((found, _)) if keys_equal(found, key) => return spot,
                Some(_) => equal &= equal - 1,
                None => return RecordSpan::UNKNOWN,
            }
        }
    }
    RecordSpan::ABSENT
}

#[target_feature(enable = "avx2,bmi2")]
fn first(body: &[u8], tag: u8, fraction: usize, key_len: usize) -> RecordSpan {
    let Some(usual) = Usual::new(body, key_len) else { return RecordSpan::UNKNOWN };
    let near = usual.near(fraction);
    for from in [near, 0, WIDE, 2 * WIDE, 3 * WIDE] {
        let equal = usual.equal(from, tag);
        if equal != 0 {
            return usual.spot(from + equal.trailing_zeros() as usize);
        }
    }
    RecordSpan::ABSENT
}

impl<'a> Usual<'a> {
    /// `None` if the body is another one, or has keys of another length.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn new(body: &'a [u8], key_len: usize) -> Option<Usual<'a>> {
        let front: &[u8; FRONT] = body.first_chunk()?;
        let (head, its_len) = (u32_at(front, 0), u32_at(front, 4) as usize);
        let records = (head ^ 1 << 28) as usize;
        let is_usual = records <= GROUP && its_len == key_len;
        is_usual.then_some(Usual { front, records, key_len })
    }

    /// The first of the records that are looked at first.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn near(&self, fraction: usize) -> usize {
        (fraction * self.records / FRACTION_ONE).saturating_sub(NEAR) % GROUP
    }

    /// A bit for each of the records from `from` on, before 128, that has the tag.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn equal(&self, from: usize, tag: u8) -> u32 {
        let tags = self.front[BODY_HEADER + self.records + from..].first_chunk();
        let equal = tags.map_or(0, |tags| equal(tags, tag));
        _bzhi_u32(equal, self.records.saturating_sub(from) as u32)
    }

    /// Where record `i` is.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn spot(&self, i: usize) -> RecordSpan {
        let Some(lengths) = self.front[BODY_HEADER..].first_chunk() else {
            return RecordSpan::UNKNOWN;
        };
        let before = i * self.key_len + prefix_sum(lengths, i);
        let start = BODY_HEADER + 2 * self.records + before;
        let end = start + self.key_len + usize::from(lengths[i % GROUP]);
        RecordSpan { start: start as u32, end: end as u32 }
    }
}

/// A bit for each byte that is `tag`.
#[inline]
#[target_feature(enable = "avx2")]
fn equal(bytes: &[u8; WIDE], tag: u8) -> u32 {
    // SAFETY: 32 bytes are read from an array of 32.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(tag as i8))) as u32
}

/// From byte 128 - n on, 1s for n bytes, then zeros.
static KEEP: [u8; 2 * GROUP] = {
    let (mut keep, mut i) = ([0; 2 * GROUP], 0);
    while i < GROUP {
        keep[i] = 0xff;
        i += 1;
    }
    keep
};

/// Sum of the first `n` bytes of a group, at most 127.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_sum(group: &[u8; GROUP], n: usize) -> usize {
    let keep = KEEP[GROUP - n % GROUP..].as_chunks::<WIDE>().0;
    let mut sums = _mm256_setzero_si256();
    for pair in group.as_chunks::<WIDE>().0.iter().zip(keep) {
        // SAFETY: 32 bytes are read from arrays of 32.
        let [bytes, keep] = <[_; 2]>::from(pair)
            .map(|bytes: &[u8; WIDE]| unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
        let kept = _mm256_and_si256(bytes, keep);
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(kept, _mm256_setzero_si256()));
    }
    let half = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(half, half));
    (_mm_cvtsi128_si64(half) + upper) as usize
}
