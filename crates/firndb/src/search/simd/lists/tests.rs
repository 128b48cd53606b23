//! Checks every version of the list kernels against one document at a time.

use crate::bytes::int::Encoder;
use crate::bytes::packed::PackedWriter;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::simd::lists::*;
use crate::search::testing::Rng;

#[test]
fn count_and_set_work_for_every_width() {
    let seed = 0x5E7_1157;
    println!("seed {seed:#x}");
    let mut rng = Rng(seed);
    for bits in 0..=32u8 {
        for round in 0..20 {
            let len = if round % 4 == 0 { rng.below(80) } else { 64 + rng.below(400) };
            // Some documents are beyond the end of the bitset.
            let words = rng.below(70);
            let most = if bits < 13 { 1 << bits } else { words * 64 + 9 };
            let docs: Vec<u32> = (0..len).map(|_| rng.below(most.max(1)) as u32).collect();
            let mut w = PackedWriter::new(bits);
            let fit = |doc: u32| (u64::from(doc) & ((1 << bits) - 1)) as u32;
            let docs: Vec<u32> = docs.into_iter().map(fit).collect();
            docs.iter().for_each(|&doc| w.push(doc));
            let bytes = w.finish();
            let list = Packed::new(&bytes, bits, len).unwrap();
            let first = rng.below(len + 1);
            let last = first + rng.below(len - first + 1);
            let before: Vec<u64> = (0..words).map(|_| rng.next()).collect();
            let mut with = before.clone();
            let mut total = 0;
            for &doc in &docs[first..last] {
                let word = doc as usize / 64;
                total += before.get(word).map_or(0, |bits| bits >> (doc % 64) & 1);
                set_one(&mut with, doc);
            }
            with_each_version(|version| {
                let at = format!("{version}, {bits} bits, {first}..{last} of {len}");
                assert_eq!(count(list, first, last, &before), total, "{at}");
                let mut bits = before.clone();
                set(list, first, last, &mut bits);
                assert_eq!(bits, with, "{at}");
            });
        }
    }
}

#[test]
fn join_works_for_every_width() {
    let mut rng = Rng(0x101);
    for bits in 0..=26u8 {
        for _ in 0..20 {
            let len = 1 + rng.below(300);
            let lows: Vec<u32> = (0..len).map(|_| rng.below(1 << bits) as u32).collect();
            let mut w = PackedWriter::new(bits);
            lows.iter().for_each(|&low| w.push(low));
            let bytes = w.finish();
            let list = Packed::new(&bytes, bits, len).unwrap();
            let first = rng.below(len);
            let count = rng.below(len - first + 1);
            // The high bit of entry j is at `bucket + j - before`.
            let before = rng.below(100) as u32;
            let bucket = |j: usize| (j as u32 * 3) % (1 << (31 - bits.min(26)));
            let bit = |j: usize| bucket(j).wrapping_add(j as u32).wrapping_sub(before);
            let expected: Vec<u32> =
                (0..count).map(|j| bucket(j) << bits | lows[first + j]).collect();
            with_each_version(|version| {
                let mut docs: Vec<u32> = (0..count).map(bit).collect();
                join(list, first, before, &mut docs);
                assert_eq!(docs, expected, "{version}, {bits} bits, {first} and {count} of {len}");
            });
        }
    }
}

#[test]
fn push_ones_matches_bit_by_bit_results() {
    let mut rng = Rng(0x0E5);
    for round in 0..500 {
        let words: Vec<u64> = (0..rng.below(20))
            .map(|_| match round % 4 {
                0 => rng.next() & rng.next() & rng.next(),
                1 => u64::MAX,
                _ => rng.next(),
            })
            .collect();
        let mut bytes = Encoder::default();
        words.iter().for_each(|&word| bytes.u64(word));
        let (skipped, base) = (rng.below(64) as u32, rng.next() as u32 >> 4);
        let mask = u64::MAX << skipped;
        let bit = |i: &usize| words[i / 64] >> (i % 64) & 1 == 1;
        let all = (skipped as usize..words.len() * 64).filter(bit);
        let expected: Vec<u32> = [7].into_iter().chain(all.map(|i| base + i as u32)).collect();
        with_each_version(|version| {
            let mut out = vec![7];
            push_ones(&bytes.0, mask, base, &mut out);
            assert_eq!(out, expected, "{version}, round {round}");
        });
    }
}

#[test]
fn range_masks_match_one_by_one_comparison() {
    let mut rng = Rng(0x1D5);
    for bits in 0..=26u8 {
        let edges = [0, 1, (1 << bits) - 1, 1 << bits, 1 << 31, u32::MAX];
        for round in 0..edges.len() * 16 {
            let numbers: Vec<u32> = (0..64).map(|_| rng.below(1 << bits) as u32).collect();
            let mut w = PackedWriter::new(bits);
            numbers.iter().for_each(|&number| w.push(number));
            // With and without readable bytes after the last number.
            let mut bytes = w.finish();
            bytes.resize(bytes.len() + 60 * rng.below(2), 0);
            let low = match round % 2 {
                0 => edges[round / 2 % edges.len()],
                _ => rng.below(1 << bits) as u32,
            };
            let span = match round / 2 / edges.len() {
                i @ 0..6 => edges[i],
                6 => low.wrapping_neg(),
                _ => rng.below(1 << bits) as u32,
            };
            let expected = (0..).zip(&numbers).fold(0, |found, (i, number)| {
                found | u64::from(number.wrapping_sub(low) < span) << i
            });
            with_each_version(|version| {
                let found = inside(&bytes, bits, low, span);
                assert_eq!(found, expected, "{version}, {bits} bits, {span} from {low}");
            });
        }
    }
}
