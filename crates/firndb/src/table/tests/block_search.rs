//! The AVX2 search in a block agrees with the general one.

use crate::table::build::encode::{BodyShape, Item, Run, encode_body};
use crate::table::format::block::find_in_body;
use crate::table::simd::Avx2Search;
use crate::table::simd::block_search::{FRACTION_ONE, RecordSpan};
use crate::table::simd::kernels::GROUP;
use crate::testing::Rng;

/// A body of records with 13-byte keys, padded with zeros as in a block, and its records.
fn body(rng: &mut Rng, n: usize) -> (Vec<u8>, Vec<(u8, Vec<u8>)>) {
    let (mut items, mut bytes, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let mut records = Vec::new();
    for i in 0..n {
        // Few tags, so that many records share one.
        let tag = rng.below(40u64) as u8;
        let (key, value) = (format!("key{i:010}").into_bytes(), rng.below(90usize));
        items.push(Item { hash: tag.into(), key: key.len() as u32, value: value as u32 });
        bytes.extend_from_slice(&key);
        bytes.extend(std::iter::repeat_n(i as u8, value));
        records.push((tag, key));
    }
    let shape = BodyShape::of(&items);
    encode_body(shape, Run { items: &items, bytes: &bytes }.split(0), &mut out);
    out.resize(out.len() + 200, 0);
    (out, records)
}

/// The result of the AVX2 search, if it supports the body.
fn known<'a>(
    avx2: Avx2Search,
    body: &'a [u8],
    tag: u8,
    fraction: usize,
    key: &[u8],
) -> Option<Option<&'a [u8]>> {
    match avx2.find(body, tag, fraction, key) {
        RecordSpan::UNKNOWN => None,
        RecordSpan::ABSENT => Some(None),
        span => Some(Some(span.split(body, key.len()).unwrap().1)),
    }
}

#[test]
fn avx2_search_agrees_with_the_general_search() {
    let Some(avx2) = Avx2Search::detect() else { return println!("not on this processor") };
    let mut rng = Rng(11);
    for n in [2, 3, 15, 16, 17, 63, 64, 65, 86, 127, 128, 129, 300] {
        let (mut bytes, records) = body(&mut rng, n);
        let few = n <= GROUP;
        for (i, (tag, key)) in records.iter().enumerate() {
            let general = find_in_body(&bytes, *tag, key).unwrap();
            assert!(general.is_some());
            for fraction in [rng.below(FRACTION_ONE + 1), i * FRACTION_ONE / n] {
                let found = known(avx2, &bytes, *tag, fraction, key);
                assert_eq!(found, few.then_some(general));
                let absent = known(avx2, &bytes, *tag, fraction, b"key-not-there");
                assert_eq!(absent, few.then_some(None));
                assert_eq!(known(avx2, &bytes, *tag, fraction, &key[..9]), None);
                let first = avx2.first(&bytes, *tag, fraction, key.len());
                let first = first.split(&bytes, key.len()).map(|(key, _)| key);
                // It searches 32 records from ten before the expected position, then all.
                let near = (fraction * n / FRACTION_ONE).saturating_sub(10);
                let mut near = records.iter().skip(near).take(32).chain(&records);
                let expected = near.find(|other| other.0 == *tag).map(|other| &other.1[..]);
                assert_eq!(first, expected.filter(|_| few));
            }
        }
        for _ in 0..2000 {
            let at = rng.below(bytes.len().min(12 + 2 * n + 20));
            let (before, (tag, key)) = (bytes[at], rng.pick(&records));
            bytes[at] = rng.next() as u8;
            let cut = &bytes[..bytes.len() - rng.below(bytes.len())];
            let fraction = rng.below(FRACTION_ONE + 1);
            for body in [&bytes[..], cut] {
                avx2.first(body, *tag, fraction, key.len());
                if let Some(found) = known(avx2, body, *tag, fraction, key) {
                    assert_eq!(find_in_body(body, *tag, key).ok(), Some(found));
                }
            }
            bytes[at] = before;
        }
    }
}
