//! Elias-Fano sequences: their bytes, and every way of reading them against the values.

use super::*;
use crate::testing::Rng;

/// Values below `universe` that never decrease.
fn values(rng: &mut Rng, universe: u64, len: usize) -> Vec<u64> {
    let mut values: Vec<u64> = (0..len).map(|_| rng.below(universe)).collect();
    // Some are equal, some close together.
    (1..len).filter(|i| i % 3 == 0).for_each(|i| values[i] = values[i - 1]);
    (1..len / 5).for_each(|i| values[i] = (values[0] + i as u64 / 2).min(universe - 1));
    values.sort_unstable();
    values
}

/// The sequence, other bytes around it.
fn encoded(values: &[u64], layout: Layout) -> Vec<u8> {
    let mut out = vec![0xFF; 3];
    encode(values.iter().copied(), layout, &mut out);
    assert_eq!((out.len(), &out[..3]), (3 + layout.size(), &[0xFF; 3][..]));
    out.extend_from_slice(&[0xFF; 8]);
    out[3..].to_vec()
}

#[test]
fn bytes_match_the_specification() {
    // Ten values fit below 32 with one low bit: 16 buckets.
    let layout = Layout::new(32, 10);
    assert_eq!(layout, Layout { low: 1, lows: 2, highs: 4 });
    let mut out = Vec::new();
    encode([0, 1, 1, 4, 31].into_iter(), layout, &mut out);
    // High bits 0, 0+1, 0+2, 2+3, 15+4.
    assert_eq!(out, [0b1_0110, 0, 0b0010_0111, 0, 0b1000, 0]);
}

#[test]
fn layouts_take_few_bits() {
    let layout = |universe, len| Layout::new(universe, len);
    let low = |len| layout(1_000_000, len).low;
    assert_eq!([1, 1000, 100_000, 600_000, 1_000_000].map(low), [19, 9, 3, 0, 0]);
    assert_eq!(layout(1_000_000, 1000).highs, (1000 + 1954) / 8 + 1);
    assert_eq!(layout(1_000_000, 1000).lows, 9000 / 8);
    assert_eq!(layout(10, usize::from(u16::MAX)).highs, 65_545 / 8 + 1, "more values than room");
    assert_eq!(layout(1 << 38, 0), Layout { low: 38, lows: 0, highs: 1 });
}

#[test]
fn values_and_positions_come_back() {
    let mut rng = Rng(0xE11A5);
    for len in [0, 1, 2, 63, 64, 65, 500, 3000] {
        for universe in [1, 2, 100, 5000, 1 << 20, 1 << 38] {
            let values = values(&mut rng, universe, len);
            let layout = Layout::new(universe as usize, len);
            let bytes = encoded(&values, layout);
            let read = EliasFano::new(&bytes, 0, layout);
            assert!(read.iter(len).eq(values.iter().copied()), "{len} below {universe}");
            for (i, &value) in values.iter().enumerate() {
                assert_eq!(read.value(i, (value >> layout.low) as usize + i), value);
                if layout.low <= 32 {
                    let low = value & ((1 << layout.low) - 1);
                    assert_eq!(u64::from(read.lows(len).get(i)), low);
                }
            }
            for _ in 0..50 {
                let [a, b] = [0, 0].map(|_| (rng.below(universe) >> layout.low) as usize);
                let (first, second) = (a.min(b), a.max(b));
                let index = |bucket: usize| {
                    values.partition_point(|value| (value >> layout.low) < bucket as u64)
                };
                let start = read.skip(Position::default(), first);
                assert_eq!(start.index, index(first), "bucket {first} of {len} below {universe}");
                assert!(read.iter_from(start, len).eq(values[start.index..].iter().copied()));
                let next = read.skip(start, second - first);
                assert_eq!(next, read.skip(Position::default(), second));
                assert_eq!(next.index, index(second));
            }
        }
    }
}

#[test]
fn short_sequences_have_random_access() {
    let mut rng = Rng(0xE11A6);
    for round in 0..300 {
        let len = 1 + rng.below(128);
        let low = rng.below(58u32);
        let universe = (1 + rng.below(128u64)) << low;
        let values = values(&mut rng, universe, len);
        let layout = Layout { low, lows: 16 * low as usize, highs: 32 };
        let bytes = encoded(&values, layout);
        let read = EliasFano::new(&bytes, 0, layout);
        if len <= 64 && values[len - 1] >> low < 64 {
            let (mask, mut seen) = (rng.next() & rng.next(), Vec::new());
            read.for_each_in(mask, &mut |value| seen.push(value));
            let expected = (0..len).filter(|i| mask >> i & 1 == 1).map(|i| values[i]);
            assert!(expected.eq(seen), "round {round}");
        }
        for (i, &value) in values.iter().enumerate() {
            assert_eq!(read.get(i, select::portable), value, "value {i} of round {round}");
            if let Some(&next) = values.get(i + 1) {
                assert_eq!(read.pair(i, select::portable), (value, next));
            }
            for above in [0, 1, 2, 3, rng.below(universe)] {
                let bound = (value + i as u64 + above).max(1);
                let below = |i: &usize| values[*i] + (*i as u64) < bound;
                let expected = (0..len).filter(below).count();
                assert_eq!(read.count_below(bound, len), expected, "{bound}");
            }
        }
    }
}

#[test]
fn damaged_bytes_yield_some_values() {
    let mut rng = Rng(0xE11A7);
    for _ in 0..300 {
        let len = 1 + rng.below(300);
        let layout = Layout::new(5000, len);
        let size = rng.below(layout.size() + 16);
        let bytes = rng.fill(size);
        let read = EliasFano::new(&bytes, 0, layout);
        assert!(read.iter(len).count() <= len);
        for i in [0, len - 1, len + 1000, usize::MAX / 64] {
            let _ = (read.get(i, select::portable), read.pair(i, select::portable));
            let _ = read.count_below(1 + rng.next() % 9000, len);
            let position = read.skip(Position::default(), i);
            assert!(position.bit <= layout.highs * 8 + 64);
            assert!(read.iter_from(position, len).count() <= len);
            let _ = read.words(i, i);
        }
    }
}
