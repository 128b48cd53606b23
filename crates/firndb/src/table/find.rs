//! The search in a body, as `block.rs` describes it, for the body that small records mostly make:
//! no loop but over equal tags, and nothing for what it does not have. [`Body::find`] does the
//! others.

use super::block::{Body, HEAD, VALUE_LINES, tag};
use super::directory::Place;
use super::kernels::{GROUP, equal_in_whole, sum_of_whole};
use crate::Result;
use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::prefetch::{LINE, prefetch};

/// The stored value of a key in a body.
#[inline(always)]
pub(crate) fn find<'a>(body: &'a [u8], place: Place, key: &[u8]) -> Result<Option<&'a [u8]>> {
    match find_usual(body, tag(place), key) {
        Some(found) => Ok(found),
        None => find_any(body, place, key),
    }
}

#[inline(never)]
fn find_any<'a>(body: &'a [u8], place: Place, key: &[u8]) -> Result<Option<&'a [u8]>> {
    Body::parse(body)?.find(place, key)
}

/// [`find`] in the body that small records mostly make: at most 128 of them, keys of one length,
/// values whose lengths take a byte each. `None` if it is another one, or damaged.
#[inline(always)]
fn find_usual<'a>(body: &'a [u8], tag: u8, key: &[u8]) -> Option<Option<&'a [u8]>> {
    let (head, key_len) = (u32_at(body, 0), u32_at(body, 4) as usize);
    let records = (head ^ 1 << 28) as usize;
    if records > GROUP || key_len != key.len() {
        return None;
    }
    let tags = body.get(HEAD..)?.first_chunk()?;
    let lengths = body.get(HEAD + records..)?.first_chunk()?;
    let mut equal = equal_in_whole(tags, records, tag);
    while equal != 0 {
        let i = equal.trailing_zeros() as usize;
        let start = HEAD + 2 * records + i * key_len + sum_of_whole(lengths, i);
        let (found, rest) = body.get(start..)?.split_at_checked(key_len)?;
        let value = rest.get(..usize::from(*lengths.get(i)?))?;
        if value.len() > LINE {
            prefetch(value, VALUE_LINES);
        }
        if is_same(found, key) {
            return Some(Some(value));
        }
        equal &= equal - 1;
    }
    Some(None)
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
    fn body(rng: &mut Rng, n: usize) -> (Vec<u8>, Vec<(Place, Vec<u8>)>) {
        let (mut items, mut bytes, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut records = Vec::new();
        for i in 0..n {
            // Few tags: many records of one.
            let place = Place { slot: 0, step: rng.below(40u64) as u16 * 32 };
            let (key, value) = (format!("key{i:010}").into_bytes(), rng.below(90usize));
            items.push(Item { place, key: key.len() as u32, value: value as u32 });
            bytes.extend_from_slice(&key);
            bytes.extend(std::iter::repeat_n(i as u8, value));
            records.push((place, key));
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
            for (place, key) in &records {
                let found = find(&bytes, *place, key).unwrap();
                assert_eq!(found, find_any(&bytes, *place, key).unwrap());
                assert!(found.is_some());
                assert!(find_usual(&bytes, tag(*place), key).is_some() == (n <= GROUP));
                assert_eq!(find(&bytes, *place, b"key-not-there").unwrap(), None);
                assert_eq!(find(&bytes, *place, &key[..9]).unwrap(), None);
            }
            for _ in 0..2000 {
                let at = rng.below(bytes.len().min(12 + 2 * n + 20));
                let (before, (place, key)) = (bytes[at], rng.pick(&records));
                bytes[at] = rng.next() as u8;
                let cut = &bytes[..bytes.len() - rng.below(bytes.len())];
                for body in [&bytes[..], cut] {
                    let general = find_any(body, *place, key).ok();
                    assert_eq!(find(body, *place, key).ok(), general);
                }
                bytes[at] = before;
            }
        }
    }
}
