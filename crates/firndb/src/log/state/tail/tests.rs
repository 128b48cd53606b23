//! Tails against a sorted map, and how long they take.

use super::*;
use crate::Error;
use crate::bytes::testing::print_nanoseconds;
use crate::testing::Rng;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

const NUMBER: u64 = 7;

/// Keys by offset; a read of one fails on request.
#[derive(Default)]
struct Keys {
    keys: Vec<Vec<u8>>,
    fails: AtomicBool,
}

impl ReadKey for Keys {
    fn read_key<'a>(&'a self, offset: u32, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if self.fails.load(AtomicOrdering::Relaxed) {
            return Err(Error::corrupt("a read failed"));
        }
        Ok(&self.keys[offset as usize])
    }

    fn prefetch_record(&self, offset: u32) {
        assert!((offset as usize) < self.keys.len());
    }
}

type Entries = Vec<(Vec<u8>, u64)>;

/// All entries of a tail from a bound on, part by part.
fn read(
    tail: &Tail,
    keys: &Arc<Keys>,
    end: u64,
    bound: Bound<&[u8]>,
    direction: Direction,
) -> Result<Vec<Entries>> {
    let parts = tail.seek(keys, NUMBER, end, bound, direction)?;
    let read = |mut part: TailIter<Keys>| {
        let mut found = Vec::new();
        while let Some(entry) = part.current() {
            assert_eq!(entry.segment, NUMBER);
            found.push((entry.key.to_vec(), entry.offset));
            part.advance()?;
        }
        assert!(part.advance().is_ok() && part.current().is_none(), "the end stays the end");
        Ok(found)
    };
    parts.into_iter().map(read).collect()
}

/// Checks that each part is sorted and that all parts are the model's entries.
fn check(parts: Vec<Entries>, expected: Entries, direction: Direction) {
    let mut all: Entries = parts.concat();
    for mut part in parts {
        if direction == Direction::Reverse {
            part.reverse();
        }
        assert!(part.is_sorted());
    }
    all.sort();
    assert_eq!(all, expected);
}

fn random_key(rng: &mut Rng, common: &[u8]) -> Vec<u8> {
    let letters = 1 + rng.below(3);
    let mut key = common[..rng.below(common.len() + 1)].to_vec();
    key.extend((0..rng.below(12)).map(|_| rng.below(letters) as u8));
    key
}

#[test]
fn tails_are_like_sorted_maps() {
    let mut rng = Rng(1);
    for round in 0..40 {
        let common = vec![0; rng.below(40)];
        let mut keys = Arc::new(Keys::default());
        let (tail, mut model) = (Tail::default(), BTreeSet::new());
        for _ in 0..12 {
            for _ in 0..rng.below(if round % 8 == 0 { 2000 } else { 60 }) {
                let key = random_key(&mut rng, &common);
                let offset = keys.keys.len() as u64;
                Arc::get_mut(&mut keys).unwrap().keys.push(key.clone());
                tail.push(&key, offset as u32);
                model.insert((key, offset));
            }
            let end = rng.below(keys.keys.len() as u64 + 2);
            let key = random_key(&mut rng, &common);
            for direction in [Direction::Forward, Direction::Reverse] {
                for bound in
                    [Bound::Unbounded, Bound::Included(&key[..]), Bound::Excluded(&key[..])]
                {
                    let is_in = |of: &[u8]| match (bound, direction) {
                        (Bound::Unbounded, _) => true,
                        (Bound::Included(key), Direction::Forward) => of >= key,
                        (Bound::Excluded(key), Direction::Forward) => of > key,
                        (Bound::Included(key), Direction::Reverse) => of <= key,
                        (Bound::Excluded(key), Direction::Reverse) => of < key,
                    };
                    let expected = model.iter().filter(|e| is_in(&e.0) && e.1 < end);
                    let parts = read(&tail, &keys, end, bound, direction).unwrap();
                    check(parts, expected.cloned().collect(), direction);
                }
            }
        }
        assert!(tail.memory() >= 16 * keys.keys.len());
    }
}

#[test]
fn there_are_few_parts() {
    let mut keys = Keys::default();
    let tail = Tail::default();
    let mut rng = Rng(2);
    keys.keys = (0..20_000).map(|_| rng.fill(9)).collect();
    for (i, key) in keys.keys.iter().enumerate() {
        tail.push(key, i as u32);
        if i % 7 == 0 {
            tail.sort(&keys).unwrap();
        }
    }
    let parts = tail.sort(&keys).unwrap();
    assert!(parts.len() <= 8, "{} parts", parts.len());
}

#[test]
fn long_keys_with_a_common_beginning_are_sorted() {
    let mut keys = Keys::default();
    let (tail, mut rng) = (Tail::default(), Rng(3));
    keys.keys = (0..40).map(|_| [&[0; 65_530][..], &rng.fill(2)].concat()).collect();
    keys.keys.extend((0..40).map(|i| vec![0; 65_500 + i]));
    let mut expected: Vec<_> = keys.keys.iter().cloned().zip(0..).collect();
    expected.iter().for_each(|(key, offset)| tail.push(key, *offset as u32));
    expected.sort();
    let parts = read(&tail, &Arc::new(keys), u64::MAX, Bound::Unbounded, Direction::Forward);
    assert_eq!(parts.unwrap().concat(), expected);
}

#[test]
fn a_failed_read_loses_nothing() {
    let keys: Vec<Vec<u8>> = (0..3000_u32).map(|i| vec![5; 20 + i as usize % 7]).collect();
    let keys = Arc::new(Keys { keys, ..Keys::default() });
    let tail = Tail::default();
    let bound = Bound::Included(&[5; 21][..]);
    let mut expected: Entries = Vec::new();
    for (i, key) in keys.keys.iter().enumerate() {
        tail.push(key, i as u32);
        expected.push((key.clone(), i as u64));
        if i % 500 == 499 {
            keys.fails.store(true, AtomicOrdering::Relaxed);
            for direction in [Direction::Forward, Direction::Reverse] {
                assert!(read(&tail, &keys, u64::MAX, bound, direction).is_err());
            }
            keys.fails.store(false, AtomicOrdering::Relaxed);
        }
    }
    expected.sort();
    let parts = read(&tail, &keys, u64::MAX, Bound::Unbounded, Direction::Forward).unwrap();
    check(parts, expected, Direction::Forward);
}

/// Puts and scans at the same time: a scan has all entries that were pushed before it.
#[test]
fn scans_during_puts_are_complete() {
    let mut rng = Rng(4);
    let keys: Vec<Vec<u8>> = (0..20_000).map(|_| rng.fill(5)).collect();
    let keys = Arc::new(Keys { keys, ..Keys::default() });
    let tail = Tail::default();
    let pushed = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (i, key) in keys.keys.iter().enumerate() {
                tail.push(key, i as u32);
                pushed.store(i as u64 + 1, AtomicOrdering::Release);
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let end = pushed.load(AtomicOrdering::Acquire);
                    let found = read(&tail, &keys, end, Bound::Unbounded, Direction::Forward);
                    assert_eq!(found.unwrap().concat().len() as u64, end);
                    if end == keys.keys.len() as u64 {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "prints times"]
fn times_of_tails() {
    let mut rng = Rng(5);
    for common in [0, 20] {
        let keys = (0..100_000).map(|_| [&[b'k'; 20][..common], &rng.fill(16)].concat()).collect();
        let keys = Arc::new(Keys { keys, ..Keys::default() });
        let n = keys.keys.len();
        let push = |tail: &Tail, range: Range<usize>| {
            range.for_each(|i| tail.push(&keys.keys[i], i as u32));
        };
        println!("keys with {common} common bytes");
        print_nanoseconds("tail: push", || {
            let tail = Tail::default();
            push(&tail, 0..n);
            (n, tail.memory() as u64)
        });
        print_nanoseconds("tail: push and sort at the end", || {
            let tail = Tail::default();
            push(&tail, 0..n);
            (n, tail.sort(&*keys).unwrap().len() as u64)
        });
        print_nanoseconds("tail: push and sort every 100", || {
            let tail = Tail::default();
            (0..n).step_by(100).for_each(|i| {
                push(&tail, i..i + 100);
                tail.sort(&*keys).unwrap();
            });
            (n, tail.sort(&*keys).unwrap().len() as u64)
        });
        let tail = Tail::default();
        push(&tail, 0..n);
        print_nanoseconds("tail: seek", || {
            let found = keys.keys.iter().step_by(101).map(|key| {
                let bound = Bound::Included(&key[..]);
                let parts = tail.seek(&keys, 1, u64::MAX, bound, Direction::Forward).unwrap();
                parts[0].current().map_or(0, |entry| entry.offset)
            });
            (n.div_ceil(101), found.sum())
        });
        print_nanoseconds("tail: iterate", || {
            let (all, direction) = (Bound::Unbounded, Direction::Forward);
            let mut parts = tail.seek(&keys, 1, u64::MAX, all, direction).unwrap();
            let mut sum = 0;
            while let Some(entry) = parts[0].current() {
                sum += entry.offset;
                parts[0].advance().unwrap();
            }
            (n, sum)
        });
    }
}
