//! Strictly increasing sequences of u64 with O(1) access and binary search: dictionaries, offsets,
//! prefix sums.
//!
//! A sequence has one of two forms. Sequences of fewer than 32,768 numbers have the form of
//! `linear.rs`, which is read fastest. Longer ones have the form of `partitioned.rs` where that
//! takes fewer bytes. Byte 7 identifies the form: 0 is linear, 1 partitioned.

mod gallop;
mod linear;
mod partitioned;

use crate::Result;
use crate::bytes::monotonic::linear::Linear;
use crate::bytes::monotonic::partitioned::Partitioned;

/// Numbers of the shortest sequence that may be partitioned.
const LONG: usize = 1 << 15;

/// Encodes a strictly increasing sequence.
pub(crate) fn encode(values: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    encode_from(values, 0)
}

/// [`encode`] to at least [`least_size`] bytes. A reader that allocates memory for the numbers can
/// then check their count against the length of the section.
pub(crate) fn encode_vouching(values: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let least = least_size(values.len());
    encode_from(values, least)
}

/// Takes the partitioned form only if it has at least `least` bytes.
fn encode_from(mut values: impl ExactSizeIterator<Item = u64>, least: usize) -> Vec<u8> {
    let len = values.len();
    let mut linear = linear::Writer::new(len);
    let mut partitioned = (len >= LONG).then(|| partitioned::Writer::new(len));
    let mut block = Vec::with_capacity(partitioned::BLOCK);
    loop {
        block.clear();
        block.extend(values.by_ref().take(partitioned::BLOCK));
        if block.is_empty() {
            break;
        }
        block.chunks(linear::BLOCK).for_each(|part| linear.push(part));
        if let Some(partitioned) = &mut partitioned {
            partitioned.push(&block);
        }
    }
    match partitioned {
        Some(shorter) if (least..linear.size()).contains(&shorter.size()) => shorter.finish(),
        _ => linear.finish(),
    }
}

/// The fewest bytes of a sequence of `len` numbers from [`encode_vouching`].
pub(crate) fn least_size(len: usize) -> usize {
    linear::least_size(len)
}

/// A strictly increasing sequence over bytes.
#[derive(Clone, Copy)]
pub(crate) enum Increasing<'a> {
    Linear(Linear<'a>),
    Partitioned(Partitioned<'a>),
}

/// Evaluates the same expression for either form.
macro_rules! either {
    ($sequence:expr, $s:ident => $do:expr) => {
        match $sequence {
            Increasing::Linear($s) => $do,
            Increasing::Partitioned($s) => $do,
        }
    };
}

impl<'a> Increasing<'a> {
    /// Checks the number of numbers, and that there is room for the heads of all blocks.
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Result<Increasing<'a>> {
        Ok(match is_partitioned(bytes, len) {
            true => Increasing::Partitioned(Partitioned::new(bytes)?),
            false => Increasing::Linear(Linear::new(bytes, len)?),
        })
    }

    /// For bytes that [`Increasing::new`] accepted before. Other bytes yield some numbers.
    #[inline(always)]
    pub(crate) fn trusted(bytes: &'a [u8], len: usize) -> Increasing<'a> {
        match is_partitioned(bytes, len) {
            true => Increasing::Partitioned(Partitioned::trusted(bytes)),
            false => Increasing::Linear(Linear::trusted(bytes, len)),
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

    /// Prefetches what [`Increasing::fetch`] of number `i` reads.
    #[inline(always)]
    pub(crate) fn fetch_head(&self, i: usize) {
        either!(self, s => s.fetch_head(i));
    }

    /// Prefetches number `i`.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        either!(self, s => s.fetch(i));
    }

    /// Numbers `i` and `i + 1`, in most cases at the cost of one.
    #[inline]
    pub(crate) fn pair(&self, i: usize) -> (u64, u64) {
        either!(self, s => s.pair(i))
    }

    /// All numbers.
    pub(crate) fn decode(&self) -> Vec<u64> {
        either!(self, s => s.decode())
    }

    /// The number of numbers below `v`, which is the index of the first that is at least `v`.
    #[inline]
    pub(crate) fn lower_bound(&self, v: u64) -> usize {
        either!(self, s => s.lower_bound(v))
    }

    /// [`Increasing::lower_bound`] of two numbers, `a <= b`. The search for the second starts where
    /// the first was found: most ranges are short.
    #[inline]
    pub(crate) fn lower_bounds(&self, a: u64, b: u64) -> (usize, usize) {
        either!(self, s => s.lower_bounds(a, b))
    }

    /// The index of `v`, or `None` if `v` is not in the sequence.
    pub(crate) fn find(&self, v: u64) -> Option<usize> {
        let i = self.lower_bound(v);
        (i < self.len() && self.get(i) == v).then_some(i)
    }

    /// Checks that every number is above the one before it and is where a search looks for it.
    pub(crate) fn verify(&self) -> Result<()> {
        either!(self, s => s.verify())
    }
}

/// Whether the sequence is partitioned. Short ones are not: no bytes are read.
#[inline(always)]
fn is_partitioned(bytes: &[u8], len: usize) -> bool {
    len >= LONG && partitioned::is_partitioned(bytes, len)
}

#[cfg(test)]
mod tests;
