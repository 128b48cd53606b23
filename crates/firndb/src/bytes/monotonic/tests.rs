//! Both forms of sequences: round trips, the choice between them, stable bytes.

use super::*;
use crate::bytes::testing::print_nanoseconds;
use crate::testing::Rng;
use xxhash_rust::xxh3::xxh3_64;

/// Sequences of many shapes.
pub(super) fn shapes() -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = vec![
        vec![],
        vec![0],
        vec![u64::MAX],
        vec![0, u64::MAX],
        vec![u64::MAX - 3, u64::MAX - 2, u64::MAX],
        (0..1000).collect(),
        (0..63).map(|i| i * (1 << 58)).collect(),
        (0..300).map(|i| (i << 44) + (i * i) % 97).collect(),
        // The widest gap: in a block, at the border of a block, at the end.
        (0..300).map(|i| if i < 150 { i } else { u64::MAX - 300 + i }).collect(),
        (0..300).map(|i| if i < 128 { i } else { u64::MAX - 300 + i }).collect(),
        (0..300).chain([u64::MAX - 1]).collect(),
    ];
    let mut rng = Rng(7);
    for shift in 0..60 {
        // Evenly spread numbers, then clusters with wide gaps between them.
        for cluster in [1, 9, 200] {
            let (mut v, mut values) = (0u64, Vec::new());
            for _ in 0..100 + rng.below(300) {
                let apart = rng.next() >> (4 + shift);
                let gap = if rng.below(cluster) == 0 { 1 + apart } else { 1 };
                match v.checked_add(gap) {
                    Some(next) => v = next,
                    None => break,
                }
                values.push(v);
            }
            all.push(values);
        }
    }
    all
}

/// Compares every function of a sequence with the numbers themselves.
pub(super) fn check_sequence(s: Increasing, values: &[u64]) {
    assert_eq!(s.len(), values.len());
    assert_eq!(s.decode(), values);
    for (i, &v) in values.iter().enumerate() {
        assert_eq!(s.get(i), v, "number {i} of {}", values.len());
        assert_eq!(s.find(v), Some(i));
        s.fetch_head(i);
        s.fetch(i);
        let next = values.get(i + 1).copied();
        if let Some(next) = next {
            assert_eq!(s.pair(i), (v, next));
        }
        let gap = next.unwrap_or(u64::MAX) - v;
        for step in [0, 1, 2, gap / 3, gap / 2, gap.saturating_sub(1)] {
            for probe in [v.saturating_sub(step), v.saturating_add(step)] {
                let expected = values.partition_point(|&x| x < probe);
                assert_eq!(s.lower_bound(probe), expected, "{probe} near number {i}");
            }
        }
    }
    for (i, &a) in values.iter().enumerate().step_by(7) {
        for &b in values[i..].iter().step_by(11) {
            let expected = (i, values.partition_point(|&x| x < b));
            assert_eq!(s.lower_bounds(a, b), expected);
        }
    }
    let end = values.partition_point(|&x| x < u64::MAX);
    assert_eq!((s.lower_bound(0), s.lower_bound(u64::MAX)), (0, end));
    assert_eq!(s.lower_bounds(0, u64::MAX), (0, end));
    s.verify().unwrap();
}

/// Whether the encoder takes the partitioned form, which must be the smaller one then.
fn takes_partitioned(values: &[u64]) -> bool {
    let bytes = encode(values.iter().copied());
    let s = Increasing::new(&bytes, values.len()).unwrap();
    assert_eq!(s.decode(), values);
    s.verify().unwrap();
    assert!(Increasing::new(&bytes, values.len() + 1).is_err());
    assert!(Increasing::new(&bytes, values.len() - 1).is_err());
    let trusted = Increasing::trusted(&bytes, values.len());
    for i in (0..values.len()).step_by(97) {
        assert_eq!((trusted.get(i), trusted.find(values[i])), (values[i], Some(i)));
    }
    let linear =
        values.chunks(linear::BLOCK).fold(linear::Writer::new(values.len()), |mut w, b| {
            w.push(b);
            w
        });
    let partitioned = matches!(s, Increasing::Partitioned(_));
    assert_eq!(bytes.len() < linear.size(), partitioned, "the other form is not smaller");
    assert_eq!(matches!(trusted, Increasing::Partitioned(_)), partitioned);
    partitioned
}

#[test]
fn long_sequences_take_the_smaller_form() {
    let mut rng = Rng(3);
    let mut v = 0;
    let mut numbers = |most: u64| {
        v += 1 + rng.below(most);
        v
    };
    let far_apart: Vec<u64> = (0..LONG).map(|_| numbers(1000)).collect();
    let close: Vec<u64> = (0..LONG).map(|_| numbers(2)).collect();
    let line: Vec<u64> = (0..LONG as u64).map(|i| i * 5000 + i * i % 61).collect();
    assert!(
        takes_partitioned(&far_apart) && takes_partitioned(&close) && !takes_partitioned(&line)
    );
    assert!(takes_partitioned(&(9..9 + LONG as u64).collect::<Vec<_>>()));
    assert!(
        !takes_partitioned(&far_apart[1..]) && !takes_partitioned(&close[1..]),
        "short sequences are linear"
    );
}

#[test]
fn encode_vouching_keeps_the_minimum_size() {
    let same = |values: &[u64]| {
        let bytes = encode_vouching(values.iter().copied());
        assert!(bytes.len() >= least_size(values.len()));
        let s = Increasing::new(&bytes, values.len()).unwrap();
        assert_eq!(s.decode(), values);
        bytes == encode(values.iter().copied())
    };
    let values = |gap: u64| -> Vec<u64> {
        (0..2 * LONG as u64).map(|i| i * gap + i.wrapping_mul(0x9E37_79B9) % gap).collect()
    };
    assert!(same(&values(1000)) && same(&[]) && same(&[5]));
    assert!(!same(&values(1)), "consecutive numbers take 16 bytes otherwise");
}

#[test]
fn encoding_of_long_sequences_is_stable() {
    let mut rng = Rng(5);
    let mut v = 0;
    let mut numbers = Vec::new();
    for i in 0..50_000 {
        // Dense and sparse stretches and runs, each longer than a block.
        let most = [1, 3, 200, 1 << 20, 1 << 40][i / 777 % 5];
        v += 1 + rng.below(most);
        numbers.push(v);
    }
    let bytes = encode(numbers.iter().copied());
    assert!(takes_partitioned(&numbers));
    assert_eq!((bytes.len(), xxh3_64(&bytes)), (101_321, 0x01CA_4366_067E_1BBC));
}

#[test]
#[ignore = "prints times"]
fn times_of_long_sequences() {
    for gap in [20, 1000, 1 << 20] {
        let mut rng = Rng(9);
        let mut v = 0;
        let next = |_| {
            v += 1 + rng.below(gap);
            v
        };
        let values: Vec<u64> = (0..200_000).map(next).collect();
        let bytes = encode(values.iter().copied());
        let s = Increasing::trusted(&bytes, values.len());
        assert!(matches!(s, Increasing::Partitioned(_)));
        println!("{} bytes of {} numbers", bytes.len(), values.len());
        let order: Vec<usize> = (0..200_000).map(|_| rng.below(values.len() - 1)).collect();
        let per = |i: &usize| (*i, values[*i] - 1);
        let probes: Vec<(usize, u64)> = order.iter().map(per).collect();
        let time = |what: &str, one: &dyn Fn(usize, u64) -> u64| {
            print_nanoseconds(&format!("monotonic, gap {gap}: {what}"), || {
                let sum = probes.iter().fold(0, |a: u64, p| a.wrapping_add(one(p.0, p.1)));
                (probes.len(), sum)
            });
        };
        time("get", &|i, _| s.get(i));
        time("pair", &|i, _| s.pair(i).1);
        time("lower_bound", &|_, v| s.lower_bound(v) as u64);
        time("lower_bounds", &|_, v| s.lower_bounds(v, v + 99).1 as u64);
        print_nanoseconds(&format!("monotonic, gap {gap}: decode"), || {
            (values.len(), s.decode().iter().fold(0, |a, v| a ^ v))
        });
        print_nanoseconds(&format!("monotonic, gap {gap}: encode"), || {
            (values.len(), encode(values.iter().copied()).len() as u64)
        });
    }
}
