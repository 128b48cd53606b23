//! Checks every version of column scans against one document at a time.

use crate::bytes::packed::PackedWriter;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::simd::scan::*;
use crate::search::testing::Rng;

fn packed(bits: u8, ords: &[u32]) -> Vec<u8> {
    let mut w = PackedWriter::new(bits);
    ords.iter().for_each(|&ord| w.push(ord));
    w.finish()
}

/// A random column, and a set of some ranges of ordinals or its complement. The last ordinal, which
/// may stand for a missing value, always occurs.
fn column(rng: &mut Rng, bits: u8, documents: usize) -> (Vec<u32>, OrdinalSet) {
    let most = 1 << bits;
    let ord = |i: usize| if i % 50 == 49 { most as u32 - 1 } else { rng.below(most) as u32 };
    let ords = (0..documents).map(ord).collect();
    let mut intervals: Vec<(u32, u32)> = Vec::new();
    for i in 0..rng.below(60) as u32 {
        // Many short ranges with gaps between them.
        if most > 400 && i % 3 == 1 {
            intervals.push((5 * i, 5 * i + 1 + i % 4));
        }
    }
    if rng.below(2) == 0 {
        intervals.clear();
    }
    for _ in 0..rng.below(4) {
        let start = rng.below(most) as u32;
        let end = start + 1 + rng.below((most / 2).max(1)) as u32;
        intervals.push((start, end.min(most as u32)));
    }
    let wanted = OrdinalSet::new(&intervals, bits.into());
    (ords, if rng.below(3) == 0 { wanted.complement() } else { wanted })
}

#[test]
fn scans_work_for_every_width() {
    let seed = 0x5CA_4E0;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for bits in 0..=26u8 {
        for round in 0..30 {
            let documents = [0, 1, 63, 64, 128, 777, 4096, 5000][round % 8] + rng.below(99);
            let (ords, wanted) = column(&mut rng, bits, documents);
            let bytes = packed(bits, &ords);
            let column = Packed::new(&bytes, bits, documents).unwrap();
            let inside = |doc: usize| ords.get(doc).is_some_and(|&ord| wanted.has(ord));
            let words = documents.div_ceil(64) + rng.below(3);
            let first = rng.below(words + 1);
            let before: Vec<u64> = (0..words).map(|_| rng.next()).collect();
            let has = |bits: &[u64], doc: usize| bits[doc / 64] >> (doc % 64) & 1 == 1;
            with_each_version(|version| {
                let at = format!("{version}, {bits} bits, {documents} documents");
                let mut found = before.clone();
                fill(column, &wanted, first, &mut found[first..]);
                for doc in first * 64..words * 64 {
                    assert_eq!(has(&found, doc), inside(doc), "{at}, {doc} from {first}");
                }
                let mut more = before.clone();
                add(column, &wanted, &mut more);
                for doc in 0..words * 64 {
                    assert_eq!(has(&more, doc), has(&before, doc) || inside(doc), "{at}, {doc}");
                }
                let both = (0..documents).filter(|&doc| inside(doc) && has(&before, doc));
                assert_eq!(count(column, &wanted, &before), both.count() as u64, "{at}");
                let (mut word, mut docs, mut block) = (first, Vec::new(), Vec::new());
                let size = [1, 64, 1024][round % 3];
                loop {
                    push(column, &wanted, (&mut word, u32::MAX), size, &mut block);
                    assert!(block.len() <= 1024, "{at}");
                    if block.is_empty() {
                        break;
                    }
                    docs.append(&mut block);
                }
                let expected = (first * 64..documents).filter(|&doc| inside(doc));
                assert!(docs.iter().map(|&doc| doc as usize).eq(expected), "{at}");
            });
        }
    }
}

#[test]
fn count_both_counts_documents_in_both_sets() {
    let mut rng = Rng(7);
    for round in 0..300 {
        // The 8-bit counters of the kernels must not overflow with many documents.
        let many = round % 50 == 0;
        let documents = if many { 20_000 } else { rng.below(2000) };
        let bits = if round % 2 == 0 { [4, 4] } else { [1, 1].map(|n| n + rng.below(18) as u8) };
        let [(a, mut keys), (b, mut others)] = bits.map(|bits| column(&mut rng, bits, documents));
        if many {
            keys = OrdinalSet::new(&[(0, 16)], 4);
            others = keys.clone();
        }
        let bytes = [packed(bits[0], &a), packed(bits[1], &b)];
        let [x, y] = [0, 1].map(|i| Packed::new(&bytes[i], bits[i], documents).unwrap());
        let both = a.iter().zip(&b).filter(|(a, b)| keys.has(**a) && others.has(**b)).count();
        with_each_version(|version| {
            let found = count_both((x, &keys), (y, &others));
            assert_eq!(found, both as u64, "{version}, {bits:?} bits, {documents} documents");
        });
    }
}

#[test]
fn others_is_the_complement() {
    let many = (0..20).map(|i| (6 * i, 6 * i + 3)).collect();
    for intervals in [vec![], vec![(3, 5)], vec![(3, 5), (60, 100)], vec![(0, 128)], many] {
        for bits in [7, 8, 12, 26] {
            let wanted = OrdinalSet::new(&intervals, bits);
            let others = wanted.complement();
            for ord in (0..128).chain([(1 << bits) - 1]) {
                let inside = intervals.iter().any(|&(start, end)| (start..end).contains(&ord));
                assert_eq!((wanted.has(ord), others.has(ord)), (inside, !inside), "{ord}");
            }
        }
    }
}
