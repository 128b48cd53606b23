//! Partitioned sequences: their bytes, round trips, damage.

use super::*;
use crate::bytes::monotonic::Increasing;
use crate::bytes::monotonic::tests::{check_sequence, shapes};
use crate::bytes::testing::damage;
use crate::testing::Rng;

fn encode(values: &[u64]) -> Vec<u8> {
    let mut writer = Writer::new(values.len());
    values.chunks(BLOCK).for_each(|block| writer.push(block));
    let size = writer.size();
    let bytes = writer.finish();
    assert_eq!(bytes.len(), size);
    bytes
}

#[test]
fn sequences_round_trip() {
    for values in shapes() {
        let bytes = encode(&values);
        assert!(is_partitioned(&bytes, values.len()));
        let sequence = Partitioned::new(&bytes).unwrap();
        check_sequence(Increasing::Partitioned(sequence), &values);
        for i in 0..values.len() {
            // The versions for processors without bit deposit.
            assert_eq!(sequence.portable_get(i), values[i]);
            if let Some(next) = values.get(i + 1).filter(|_| i % BLOCK + 1 < BLOCK) {
                assert_eq!(sequence.portable_pair(i), (values[i], *next));
            }
        }
    }
}

#[test]
fn bytes_match_the_specification() {
    let consecutive = [
        3, 0, 0, 0, 0, 0, 0, 1, // n, no heads, the form
        7, 0, 0, 0, 0, 0, 0, 0, // first number
    ];
    assert_eq!(encode(&[7, 8, 9]), consecutive);
    #[rustfmt::skip]
    let without_lows = [
        3, 0, 0, 0, 0, 0, 0x11, 1, // n, heads of 1 and 1 bytes, the form
        5, 0, 0, 0, 0, 0, 0, 0, // first number
        0, // block 0: start
        0b000001, // 1 + l, offset 0
        0b10_0011, // residuals of 5, 6, 10: 0, 0, 3
        0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode(&[5, 6, 10]), without_lows);
    let mut with_lows = vec![3, 0, 0, 0, 0, 0, 0x11, 1, 100, 0, 0, 0, 0, 0, 0, 0, 0];
    with_lows.push(0b000100); // l = 3
    let (lows, highs) = (with_lows.len(), with_lows.len() + 16 * 3);
    with_lows.resize(highs + 16 + 8, 0);
    // Residuals of 100, 101, 1101: 0, 0, 999, which is 124 << 3 | 7.
    with_lows[lows..lows + 2].copy_from_slice(&[0b1100_0000, 0b1]);
    (with_lows[highs], with_lows[highs + 15]) = (0b11, 0b0100_0000);
    assert_eq!(encode(&[100, 101, 1101]), with_lows);
    #[rustfmt::skip]
    let two_blocks = [
        130, 0, 0, 0, 0, 0, 0x11, 1, // n, heads of 1 and 1 bytes, the form
        9, 0, 0, 0, 0, 0, 0, 0, // first number
        0, 0, // block 0: 9 and so on, no bits
        2, 0, // block 1: 9 + 128 + 2 and so on, no bits
        0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode(&(9..137).chain(139..141).collect::<Vec<_>>()), two_blocks);
}

/// Calls every function, in bounds and out of bounds.
fn read_everything(bytes: &[u8], len: usize) {
    let sequence = Partitioned::trusted(bytes);
    let far = [len, len + 1000, usize::MAX / 2, usize::MAX - 1];
    for i in (0..len).step_by(5).chain(far) {
        sequence.fetch(i);
        let (number, pair) = (sequence.get(i), sequence.pair(i));
        let portable = (sequence.portable_get(i), sequence.portable_pair(i));
        for v in [number.wrapping_sub(1), number, pair.1, portable.0, portable.1.1] {
            let end = v.saturating_add(1000);
            let (low, high) = sequence.lower_bounds(v, end);
            assert!(sequence.lower_bound(v) <= len && low <= high && high <= len);
        }
    }
    assert_eq!(sequence.decode().len(), len);
}

/// Whether the bytes pass verification. If so, they are what the writer writes for their numbers.
fn passes(bytes: &[u8], len: usize) -> bool {
    if !is_partitioned(bytes, len) {
        return false;
    }
    read_everything(bytes, len);
    let verified = Partitioned::new(bytes).and_then(|s| s.verify().map(|_| s.decode()));
    verified.is_ok_and(|values| {
        assert!(values.is_sorted_by(|a, b| a < b));
        assert_eq!(encode(&values), bytes);
        true
    })
}

#[test]
fn damage_is_detected_or_makes_another_sequence() {
    let mut rng = Rng(11);
    for values in shapes().into_iter().filter(|values| (1..300).contains(&values.len())) {
        let good = encode(&values);
        assert!(passes(&good, values.len()));
        let step = 1 + good.len() / 64;
        for at in (rng.below(step)..good.len()).step_by(step) {
            for xor in [1, 0x80, 0xFF, 1 << rng.below(8)] {
                let mut bad = good.clone();
                bad[at] ^= xor;
                passes(&bad, values.len());
                bad = good[..at].to_vec();
                assert!(!passes(&bad, values.len()), "cut at {at}");
            }
        }
        for _ in 0..20 {
            let mut bad = good.clone();
            damage(&mut rng, &mut bad);
            passes(&bad, values.len());
        }
        assert!(!passes(&[&good[..], &[0]].concat(), values.len()));
    }
}

#[test]
fn verify_rejects_every_contradiction() {
    let values: Vec<u64> = (0..300u64).map(|i| 1000 + i * 37 + i * i % 31).collect();
    let good = encode(&values);
    let view = View::new(&good);
    let (stride, area) = (view.stride(), view.area);
    let (low, offset) = unpack_location(view.location(view.head(2)));
    let (lows, low) = (area + offset, low.unwrap() as usize);
    let highs = lows + 16 * low;
    // Heads: l and the offset. Code: low bits after the last number, all high bits, the zeros at the
    // end.
    let heads = (16..16 + 3 * stride)
        .filter(|at| (at - 16) % stride >= stride - usize::from(view.widths.1));
    let unused = lows + (44 * low).div_ceil(8)..highs;
    for at in heads.chain(unused).chain(highs..good.len()) {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let found = Partitioned::new(&bad).and_then(Partitioned::verify);
            assert!(found.is_err(), "bit {bit} of byte {at}");
        }
    }
    // A number twice: residuals of 0, 0, 999, 999 in 3 low bits, the last of them one less.
    let mut again = encode(&[100, 101, 1101, 1102]);
    let lows = View::new(&again).area;
    again[lows + 1] ^= 0b10;
    let again = Partitioned::new(&again).unwrap();
    assert_eq!((again.get(2), again.get(3)), (1101, 1101));
    assert!(again.verify().is_err());
    // Heads that are wider than necessary.
    let mut wide = good[..16].to_vec();
    wide[6] += 0x10;
    (0..3).for_each(|block| {
        wide.extend_from_slice(&good[16 + block * stride..][..stride]);
        wide.push(0);
    });
    wide.extend_from_slice(&good[area..]);
    let wide = Partitioned::new(&wide).unwrap();
    assert_eq!(wide.decode(), values);
    assert!(wide.verify().is_err());
    // Consecutive numbers that overflow.
    let mut end = encode(&[7, 8, 9]);
    end[8..16].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    assert!(Partitioned::new(&end).unwrap().verify().is_err());
}
