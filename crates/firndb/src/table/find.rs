//! The search in a body, as `block.rs` describes it, for the body that small records mostly make:
//! no loop but over equal tags, and nothing for what it does not have. [`Body::find`] does the
//! others.

use super::block::{Body, HEAD, VALUE_LINES};
use super::kernels::{GROUP, equal_in_whole, sum_within};
use crate::Result;
use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::prefetch::{LINE, prefetch};

/// The stored value of a key in a body. Where in it the record is likely to stand, as a share of
/// [`WHOLE`], saves looking at a wrong one of the same tag first.
#[inline(always)]
pub(crate) fn find<'a>(
    body: &'a [u8],
    tag: u8,
    share: Option<usize>,
    key: &[u8],
) -> Result<Option<&'a [u8]>> {
    match find_usual(body, tag, share, key) {
        Some(found) => Ok(found),
        None => find_any(body, tag, key),
    }
}

#[inline(never)]
fn find_any<'a>(body: &'a [u8], tag: u8, key: &[u8]) -> Result<Option<&'a [u8]>> {
    Body::parse(body)?.find(tag, key)
}

/// [`find`] in the body that small records mostly make. `None` if it is another one, or damaged.
#[inline(always)]
fn find_usual<'a>(
    body: &'a [u8],
    tag: u8,
    share: Option<usize>,
    key: &[u8],
) -> Option<Option<&'a [u8]>> {
    let mut equal = Equal::new(body, tag, share, key.len())?;
    while !equal.is_over() {
        let (found, value) = equal.next()?;
        if value.len() > LINE {
            prefetch(value, VALUE_LINES);
        }
        if is_same(found, key) {
            return Some(Some(value));
        }
    }
    Some(None)
}

/// The records of one tag in the body that small records mostly make: at most 128 of them, keys of
/// one length, values whose lengths take a byte each.
pub(crate) struct Equal<'a> {
    body: &'a [u8],
    records: usize,
    key_len: usize,
    /// Bytes up to the last length of a value, if they are so many, and where in them the first one
    /// is. Those that come after the lengths of a full block would be in one cache line more.
    window: &'a [u8; GROUP],
    lengths: usize,
    /// A bit a record.
    left: u128,
    /// Those that come first.
    near: u128,
}

/// What a share is of.
pub(crate) const WHOLE: usize = 1 << 16;
/// Records before the place where one is expected: twice the deviation in the middle of a block of
/// 100. More would have others of the same tag looked at first, fewer would miss the right one.
const NEAR: usize = 10;

impl<'a> Equal<'a> {
    /// `None` if the body is another one, or has keys of another length.
    #[inline(always)]
    pub(crate) fn new(
        body: &'a [u8],
        tag: u8,
        share: Option<usize>,
        key_len: usize,
    ) -> Option<Equal<'a>> {
        let (head, its_len) = (u32_at(body, 0), u32_at(body, 4) as usize);
        let records = (head ^ 1 << 28) as usize;
        if records > GROUP || its_len != key_len {
            return None;
        }
        let tags = body.get(HEAD..)?.first_chunk()?;
        let start = (HEAD + 2 * records).saturating_sub(GROUP);
        let window = body.get(start..)?.first_chunk()?;
        let lengths = HEAD + records - start;
        let left = equal_in_whole(tags, records, tag);
        let near = share.map_or(u128::MAX, |share| {
            let expected = share * records / WHOLE;
            u128::from(u64::MAX) << expected.saturating_sub(NEAR)
        });
        Some(Equal { body, records, key_len, window, lengths, left, near })
    }

    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Key and stored value of the next one; `None` if the body is damaged. There must be one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let near = self.left & self.near;
        let i = (if near != 0 { near } else { self.left }).trailing_zeros() as usize;
        let before = i * self.key_len + sum_within(self.window, self.lengths, self.lengths + i);
        let record = self.body.get(HEAD + 2 * self.records + before..)?;
        let (key, rest) = record.split_at_checked(self.key_len)?;
        self.left &= !(1 << i);
        Some((key, rest.get(..usize::from(*self.window.get(self.lengths + i)?))?))
    }
}

/// Whether two keys of one length are equal; usual ones are compared without a call.
#[inline(always)]
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    match b.len() {
        8..=16 => {
            let end = b.len() - 8;
            a.len() == b.len() && (u64_at(a, 0), u64_at(a, end)) == (u64_at(b, 0), u64_at(b, end))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{Item, Shape, encode_body};
    use super::*;
    use crate::testing::Rng;

    /// A body of records of 13-byte keys, with zeros behind it as in a block, and its records.
    fn body(rng: &mut Rng, n: usize) -> (Vec<u8>, Vec<(u8, Vec<u8>)>) {
        let (mut items, mut bytes, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut records = Vec::new();
        for i in 0..n {
            // Few tags: many records of one.
            let tag = rng.below(40u64) as u8;
            let (key, value) = (format!("key{i:010}").into_bytes(), rng.below(90usize));
            items.push(Item { hash: tag.into(), key: key.len() as u32, value: value as u32 });
            bytes.extend_from_slice(&key);
            bytes.extend(std::iter::repeat_n(i as u8, value));
            records.push((tag, key));
        }
        let shape = Shape::of(&items);
        encode_body(shape, &items, &bytes, &mut out);
        out.resize(out.len() + 200, 0);
        (out, records)
    }

    #[test]
    fn the_usual_search_agrees_with_the_general_one() {
        let mut rng = Rng(11);
        for n in [2, 3, 15, 16, 17, 63, 64, 65, 86, 127, 128, 129, 300] {
            let (mut bytes, records) = body(&mut rng, n);
            for (tag, key) in &records {
                let share = [None, Some(rng.below(WHOLE + 1))][rng.below(2usize)];
                let found = find(&bytes, *tag, share, key).unwrap();
                assert_eq!(found, find_any(&bytes, *tag, key).unwrap());
                assert!(found.is_some());
                assert!(find_usual(&bytes, *tag, share, key).is_some() == (n <= GROUP));
                assert_eq!(find(&bytes, *tag, share, b"key-not-there").unwrap(), None);
                assert_eq!(find(&bytes, *tag, share, &key[..9]).unwrap(), None);
            }
            for _ in 0..2000 {
                let at = rng.below(bytes.len().min(12 + 2 * n + 20));
                let (before, (tag, key)) = (bytes[at], rng.pick(&records));
                bytes[at] = rng.next() as u8;
                let cut = &bytes[..bytes.len() - rng.below(bytes.len())];
                let share = Some(rng.below(WHOLE + 1));
                for body in [&bytes[..], cut] {
                    let general = find_any(body, *tag, key).ok();
                    assert_eq!(find(body, *tag, share, key).ok(), general);
                }
                bytes[at] = before;
            }
        }
    }
}
