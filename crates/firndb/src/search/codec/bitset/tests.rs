//! Both forms of bitsets against the documents they are of; damaged ones.

use crate::search::codec::bitset::*;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::Rng;

/// Documents that are a share, or stand together, or at the ends.
fn shapes(rng: &mut Rng, documents: usize) -> Vec<u32> {
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
fn both_forms_are_the_documents() {
    let seed = 0xB17_5E7;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for round in 0..60 {
        let documents = [1, 63, 64, 255, 256, 257, 4096, 5000, 70_001, 140_000][rng.below(10)];
        let docs = shapes(&mut rng, documents);
        let mut plain = vec![0xAA; 5];
        plain.resize(5 + size(documents), 0);
        docs.iter().for_each(|&doc| plain[5 + doc as usize / 8] |= 1 << (doc % 8));
        let mut sparse = vec![0xAA; 3];
        sparse.extend(encode(&plain[5..], documents));
        let words = documents.div_ceil(64);
        let with: Vec<u64> = (0..words).map(|_| rng.next()).collect();
        let first = rng.below(words);
        let end = first + rng.below(words - first + 1);
        let mut truth = vec![0u64; words];
        docs.iter().for_each(|&doc| truth[doc as usize / 64] |= 1 << (doc % 64));
        with_each_version(|version| {
            let forms =
                [Bitset::plain(&plain, 5, documents), Bitset::sparse(&sparse, 3, documents)];
            for (form, bitset) in forms.iter().enumerate() {
                let at = format!("{version}, round {round}, {documents} documents, {form}");
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
            }
        });
    }
}

#[test]
fn bytes_are_as_specified() {
    // Document 1, and of the second group the documents 0, 4 and 5, and 255.
    let mut plain = [0; 64];
    (plain[0], plain[32], plain[63]) = (0b10, 0b0011_0001, 0b1000_0000);
    let head = [0, 0, 0, 0, 3, 0, 0, 0];
    let masks = [1, 0, 0, 0, 0, 0, 0, 0, 0b11, 0, 0, 0, 0, 0, 0, 0x80];
    let nibbles = [0b10, 0b0011_0001, 0b1000];
    assert_eq!(encode(&plain, 500), [&head[..], &masks, &nibbles, &[0; END]].concat());
}

#[test]
fn bitsets_are_sparse_where_that_saves_an_eighth() {
    let is_sparse = |documents: usize, step: usize| {
        let docs: Vec<u32> = (0..documents as u32).step_by(step).collect();
        let mut out = vec![7];
        let sparse = push(&mut out, &docs, documents);
        let bitset = match sparse {
            true => Bitset::sparse(&out, 1, documents),
            false => Bitset::plain(&out, 1, documents),
        };
        assert!(
            (0..documents as u32).all(|doc| bitset.has(doc) == (doc as usize).is_multiple_of(step))
        );
        assert_eq!(sparse, out.len() - 1 < size(documents));
        sparse
    };
    assert!(is_sparse(100_000, 10) && is_sparse(5000, 16));
    assert!(!is_sparse(100_000, 5) && !is_sparse(4096, 16));
}

#[test]
fn damaged_bytes_give_some_documents_and_an_end() {
    let mut rng = Rng(11);
    let docs: Vec<u32> = (0..9000).step_by(11).collect();
    let mut bytes = Vec::new();
    assert!(push(&mut bytes, &docs, 9000));
    assert!(Bitset::sparse(&bytes, 1, 9000).is_empty());
    assert!(Bitset::sparse(&bytes, usize::MAX, 9000).is_empty());
    assert!(Bitset::sparse(&bytes, 0, 90_000).is_empty());
    assert!(Bitset::plain(&bytes, usize::MAX - 3, 9000).is_empty());
    let (head, _) = sizes(9000);
    for round in 0..200 {
        let mut bytes = bytes.clone();
        match round % 4 {
            0 => bytes[head..].fill(0xFF),
            1 => bytes[..head - 4].fill(0xFF),
            2 => bytes[head..].iter_mut().for_each(|byte| *byte = rng.next() as u8),
            _ => bytes[..head - 4].iter_mut().for_each(|byte| *byte = rng.next() as u8),
        }
        let bitset = Bitset::sparse(&bytes, 0, 9000);
        with_each_version(|_| {
            let mut bits = vec![0; 9000 / 64 + 1];
            bitset.or(&mut bits);
            (0..10_000).for_each(|doc| _ = bitset.has(doc));
            bitset.count_and(&[u64::MAX; 160]);
            // The last group ends with word 144.
            let mut bits = [u64::MAX; 150];
            bitset.and(17, &mut bits, false);
            assert!(bits[144 - 17..].iter().all(|word| *word == 0));
            let (mut word, mut out) = (0, Vec::new());
            while bitset.next(&mut word, 100, &mut out) {
                assert!(out.len() < 200);
                out.clear();
            }
        });
    }
}
