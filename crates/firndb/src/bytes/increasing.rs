//! Strictly increasing sequences of u64 with O(1) access and binary search: dictionaries, offsets,
//! prefix sums.
//!
//! A sequence has one of two forms. Short ones are blocks along lines (`lines.rs`), which are read
//! in the least time. One of 32,768 numbers and more has divided blocks (`elias_fano.rs`) where
//! these take fewer bytes. Byte 7 says which form it is: 0 is the first, 1 the second.

use super::elias_fano::{self, EliasFano};
use super::lines::{self, Lines};
use crate::Result;

/// Numbers of the shortest sequence that may have the second form.
const LONG: usize = 1 << 15;

/// Encodes a strictly increasing sequence.
pub(crate) fn encode(values: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    encode_from(values, 0)
}

/// [`encode`] to no fewer bytes than [`least_size`] says: for sequences whose length in the file
/// has to vouch for how many numbers a reader may ask memory for.
pub(crate) fn encode_vouching(values: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let least = least_size(values.len());
    encode_from(values, least)
}

/// Takes the second form only if it has `least` bytes.
fn encode_from(mut values: impl ExactSizeIterator<Item = u64>, least: usize) -> Vec<u8> {
    let len = values.len();
    let mut lines = lines::Writer::new(len);
    let mut divided = (len >= LONG).then(|| elias_fano::Writer::new(len));
    let mut block = Vec::with_capacity(elias_fano::BLOCK);
    loop {
        block.clear();
        block.extend(values.by_ref().take(elias_fano::BLOCK));
        if block.is_empty() {
            break;
        }
        block.chunks(lines::BLOCK).for_each(|part| lines.push(part));
        if let Some(divided) = &mut divided {
            divided.push(&block);
        }
    }
    match divided {
        Some(divided) if (least..lines.size()).contains(&divided.size()) => divided.finish(),
        _ => lines.finish(),
    }
}

/// Bytes that a sequence from [`encode_vouching`] has at least.
pub(crate) fn least_size(len: usize) -> usize {
    lines::least_size(len)
}

/// A strictly increasing sequence over bytes.
#[derive(Clone, Copy)]
pub(crate) enum Increasing<'a> {
    Lines(Lines<'a>),
    Divided(EliasFano<'a>),
}

/// The same expression of either form.
macro_rules! either {
    ($sequence:expr, $s:ident => $do:expr) => {
        match $sequence {
            Increasing::Lines($s) => $do,
            Increasing::Divided($s) => $do,
        }
    };
}

impl<'a> Increasing<'a> {
    /// Checks the number of entries and the place of the block heads.
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Result<Increasing<'a>> {
        Ok(match is_divided(bytes, len) {
            true => Increasing::Divided(EliasFano::new(bytes)?),
            false => Increasing::Lines(Lines::new(bytes, len)?),
        })
    }

    /// A sequence that [`Increasing::new`] accepted before; of other bytes it gives some numbers.
    #[inline(always)]
    pub(crate) fn trusted(bytes: &'a [u8], len: usize) -> Increasing<'a> {
        match is_divided(bytes, len) {
            true => Increasing::Divided(EliasFano::trusted(bytes)),
            false => Increasing::Lines(Lines::trusted(bytes, len)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        either!(self, s => s.len())
    }

    /// Number `i`; out of bounds it is some number.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> u64 {
        either!(self, s => s.get(i))
    }

    /// Asks for the memory that [`Increasing::fetch`] of number `i` reads.
    #[inline(always)]
    pub(crate) fn fetch_head(&self, i: usize) {
        either!(self, s => s.fetch_head(i));
    }

    /// Asks for the memory of number `i`.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        either!(self, s => s.fetch(i));
    }

    /// Numbers `i` and `i + 1`, mostly for the price of one.
    #[inline]
    pub(crate) fn pair(&self, i: usize) -> (u64, u64) {
        either!(self, s => s.pair(i))
    }

    /// All numbers.
    pub(crate) fn decode(&self) -> Vec<u64> {
        either!(self, s => s.decode())
    }

    /// How many numbers are below `v`: the index of the first that is at least `v`.
    #[inline]
    pub(crate) fn lower_bound(&self, v: u64) -> usize {
        either!(self, s => s.lower_bound(v))
    }

    /// [`Increasing::lower_bound`] of two numbers, `a <= b`. The second is searched from where the
    /// first was found: most ranges are short.
    #[inline]
    pub(crate) fn lower_bounds(&self, a: u64, b: u64) -> (usize, usize) {
        either!(self, s => s.lower_bounds(a, b))
    }

    /// The index of `v` if it is in the sequence.
    pub(crate) fn find(&self, v: u64) -> Option<usize> {
        let i = self.lower_bound(v);
        (i < self.len() && self.get(i) == v).then_some(i)
    }

    /// Checks every number: above the one before it, and where a search looks for it.
    pub(crate) fn verify(&self) -> Result<()> {
        either!(self, s => s.verify())
    }
}

/// Whether a sequence has the second form; of a short one that is known without looking.
#[inline(always)]
fn is_divided(bytes: &[u8], len: usize) -> bool {
    len >= LONG && elias_fano::is_divided(bytes, len)
}

/// The last block from `block` on that begins at or below a number: found in steps that double, for
/// most are near.
#[inline(always)]
pub(super) fn gallop(mut block: usize, blocks: usize, begins: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    while block + step < blocks && begins(block + step) {
        block += step;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if block + step < blocks && begins(block + step) {
            block += step;
        }
    }
    block
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::Rng;
    use xxhash_rust::xxh3::xxh3_64;

    /// Sequences of many shapes.
    pub(in crate::bytes) fn shapes() -> Vec<Vec<u64>> {
        let mut all: Vec<Vec<u64>> = vec![
            vec![],
            vec![0],
            vec![u64::MAX],
            vec![0, u64::MAX],
            vec![u64::MAX - 3, u64::MAX - 2, u64::MAX],
            (0..1000).collect(),
            (0..63).map(|i| i * (1 << 58)).collect(),
            (0..300).map(|i| (i << 44) + (i * i) % 97).collect(),
            // A gap in the middle, at the border of a block, at the end, as wide as can be.
            (0..300).map(|i| if i < 150 { i } else { u64::MAX - 300 + i }).collect(),
            (0..300).map(|i| if i < 128 { i } else { u64::MAX - 300 + i }).collect(),
            (0..300).chain([u64::MAX - 1]).collect(),
        ];
        let mut rng = Rng(7);
        for shift in 0..60 {
            // Numbers as far apart on the average, and then in crowds with wide gaps between.
            for crowds in [1, 9, 200] {
                let (mut v, mut values) = (0u64, Vec::new());
                for _ in 0..100 + rng.below(300) {
                    let apart = rng.next() >> (4 + shift);
                    let gap = if rng.below(crowds) == 0 { 1 + apart } else { 1 };
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

    /// All that can be asked of a sequence, against what the numbers say.
    pub(in crate::bytes) fn check_sequence(s: Increasing, values: &[u64]) {
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
                    assert_eq!(s.lower_bound(probe), expected, "{probe} behind number {i}");
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

    /// The form that is taken.
    fn is_divided(values: &[u64]) -> bool {
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
        let lines =
            values.chunks(lines::BLOCK).fold(lines::Writer::new(values.len()), |mut w, b| {
                w.push(b);
                w
            });
        let divided = matches!(s, Increasing::Divided(_));
        assert_eq!(bytes.len() < lines.size(), divided, "the other form is no smaller");
        assert_eq!(matches!(trusted, Increasing::Divided(_)), divided);
        divided
    }

    #[test]
    fn long_sequences_have_the_form_that_is_smaller() {
        let mut rng = Rng(3);
        let mut v = 0;
        let mut numbers = |most: u64| {
            v += 1 + rng.below(most);
            v
        };
        let far: Vec<u64> = (0..LONG).map(|_| numbers(1000)).collect();
        let near: Vec<u64> = (0..LONG).map(|_| numbers(2)).collect();
        let line: Vec<u64> = (0..LONG as u64).map(|i| i * 5000 + i * i % 61).collect();
        assert!(is_divided(&far) && is_divided(&near) && !is_divided(&line));
        assert!(is_divided(&(9..9 + LONG as u64).collect::<Vec<_>>()));
        assert!(!is_divided(&far[1..]) && !is_divided(&near[1..]), "short ones are read faster");
    }

    #[test]
    fn sequences_that_vouch_have_their_bytes() {
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
        assert!(!same(&values(1)), "consecutive numbers take no bytes else");
    }

    #[test]
    fn bytes_of_long_sequences_do_not_change() {
        let mut rng = Rng(5);
        let mut v = 0;
        let mut numbers = Vec::new();
        for i in 0..50_000 {
            // Crowds, deserts and runs, a block and more each.
            let most = [1, 3, 200, 1 << 20, 1 << 40][i / 777 % 5];
            v += 1 + rng.below(most);
            numbers.push(v);
        }
        let bytes = encode(numbers.iter().copied());
        assert!(is_divided(&numbers));
        assert_eq!((bytes.len(), xxh3_64(&bytes)), (101_321, 0x01CA_4366_067E_1BBC));
    }
}
