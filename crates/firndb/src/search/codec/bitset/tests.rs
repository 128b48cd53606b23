//! Checks bitsets against lists of documents, and bitsets out of bounds.

use crate::search::codec::bitset::*;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::Rng;

/// Random documents: scattered, in a range, and at both ends.
fn documents_of_some_shape(rng: &mut Rng, documents: usize) -> Vec<u32> {
    let share = [1, 2, 7, 20, 300][rng.below(5)];
    let (from, to) = (rng.below(documents), rng.below(documents + 1));
    let last = documents as u32 - 1;
    let all = (0..documents as u32).filter(|&doc| match rng.below(3 * share) {
        0 => true,
        1 => (from..to).contains(&(doc as usize)),
        _ => doc == 0 || doc == last,
    });
    all.collect()
}

#[test]
fn bitsets_match_their_documents() {
    let seed = 0xB17_5E7;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for round in 0..60 {
        let documents = [1, 63, 64, 255, 256, 257, 4096, 5000, 70_001, 140_000][rng.below(10)];
        let docs = documents_of_some_shape(&mut rng, documents);
        let mut bytes = vec![0xAA; 5];
        push(&mut bytes, &docs, documents);
        let words = documents.div_ceil(64);
        let with: Vec<u64> = (0..words).map(|_| rng.next()).collect();
        let first = rng.below(words);
        let end = first + rng.below(words - first + 1);
        let mut truth = vec![0u64; words];
        docs.iter().for_each(|&doc| truth[doc as usize / 64] |= 1 << (doc % 64));
        with_each_version(|version| {
            let bitset = Bitset::new(&bytes, 5, documents);
            let at = format!("{version}, round {round}, {documents} documents");
            assert!(!bitset.is_empty(), "{at}");
            let has = (0..documents as u32).filter(|&doc| bitset.has(doc));
            assert!(has.eq(docs.iter().copied()), "{at}");
            let mut bits = with.clone();
            bitset.or(&mut bits);
            assert!(bits.iter().zip(&with).zip(&truth).all(|((b, w), t)| *b == w | t));
            for negate in [false, true] {
                let mut bits = with[first..end].to_vec();
                bitset.and(first, &mut bits, negate);
                let truth = truth[first..end].iter().map(|t| if negate { !t } else { *t });
                let wanted = with[first..end].iter().zip(truth).map(|(w, t)| w & t);
                assert!(bits.iter().copied().eq(wanted), "{at}, {first}..{end}, {negate}");
            }
            let both = with.iter().zip(&truth).map(|(w, t)| u64::from((w & t).count_ones()));
            assert_eq!(bitset.count_and(&with), both.sum::<u64>(), "{at}");
            for most in [1, 100, 1 << 20] {
                let (mut word, mut all, mut more) = (0, Vec::new(), true);
                while more {
                    let mut out = Vec::new();
                    more = bitset.next(&mut word, most, &mut out);
                    assert!(out.len() < most + 64 && (!more || !out.is_empty()), "{at}");
                    all.extend(out);
                }
                assert!(all == docs, "{at}, {most} at a time");
            }
        });
    }
}

#[test]
fn a_bitset_out_of_bounds_is_empty() {
    let mut bytes = Vec::new();
    push(&mut bytes, &[1, 8_999], 9_000);
    assert!(!Bitset::new(&bytes, 0, 9_000).is_empty());
    assert!(Bitset::new(&bytes, 1, 9_000).is_empty());
    assert!(Bitset::new(&bytes, 0, 90_000).is_empty());
    assert!(Bitset::new(&bytes, usize::MAX - 3, 9_000).is_empty());
}
