//! Bit-packed arrays: unsigned numbers of one width, 0 to 32 bits.
//!
//! ```text
//! OFFSET  SIZE                FIELD
//! 0       ceil(n * bits / 8)  number i occupies bits i*bits .. (i+1)*bits, lowest bit first
//! ..      8                   zeros, so that any number is inside one 8-byte read
//! ```

use super::int::u64_at;
use crate::{Error, Result};
use std::ops::Range;

/// Bits that hold every number up to `max`.
pub(crate) fn width(max: u64) -> u8 {
    (64 - max.leading_zeros()) as u8
}

/// Packs numbers, which must be below `2^bits`.
pub(crate) struct PackedWriter {
    bits: u32,
    acc: u64,
    filled: u32,
    out: Vec<u8>,
}

impl PackedWriter {
    pub(crate) fn new(bits: u8) -> PackedWriter {
        debug_assert!(bits <= 32);
        PackedWriter { bits: u32::from(bits), acc: 0, filled: 0, out: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, v: u32) {
        debug_assert!(self.bits == 32 || u64::from(v) < 1 << self.bits);
        self.acc |= u64::from(v) << self.filled;
        self.filled += self.bits;
        if self.filled >= 32 {
            self.out.extend_from_slice(&(self.acc as u32).to_le_bytes());
            self.acc >>= 32;
            self.filled -= 32;
        }
    }

    /// The bytes of the numbers and the 8 zeros after them.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let rest = self.filled.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.acc.to_le_bytes()[..rest]);
        self.out.extend_from_slice(&[0; 8]);
        self.out
    }
}

/// A packed array over bytes.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    bits: u32,
    mask: u64,
    len: usize,
}

impl<'a> Packed<'a> {
    /// Checks that `bytes` is exactly an array of `len` numbers of `bits` bits.
    pub(crate) fn new(bytes: &'a [u8], bits: u8, len: usize) -> Result<Packed<'a>> {
        let size = Self::size(bits, len);
        if bits > 32 || size != Some(bytes.len()) {
            return Err(Error::corrupt(format!(
                "{} bytes do not hold {len} numbers of {bits} bits",
                bytes.len()
            )));
        }
        Ok(Packed { bytes, bits: u32::from(bits), mask: (1 << bits) - 1, len })
    }

    /// For bytes that [`Packed::new`] accepted before. Other bytes yield some numbers.
    #[inline(always)]
    pub(crate) fn trusted(bytes: &'a [u8], bits: u8, len: usize) -> Packed<'a> {
        Packed { bytes, bits: u32::from(bits), mask: (1 << (bits & 63)) - 1, len }
    }

    /// Bytes of an array of `len` numbers; `None` if it does not fit in memory.
    pub(crate) fn size(bits: u8, len: usize) -> Option<usize> {
        Some(len.checked_mul(usize::from(bits))?.div_ceil(8) + 8)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes, and the width of a number in bits: for kernels that unpack many numbers at a time.
    pub(crate) fn raw(&self) -> (&'a [u8], usize) {
        (self.bytes, self.bits as usize)
    }

    /// Number `i`; 0 if `i` is out of bounds.
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> u32 {
        let bit = i * self.bits as usize;
        (u64_at(self.bytes, bit >> 3) >> (bit & 7) & self.mask) as u32
    }

    /// Appends numbers `start..end` to `out`.
    pub(crate) fn decode(&self, start: usize, end: usize, out: &mut Vec<u32>) {
        if start >= end {
            return;
        }
        let head = end.min(start.next_multiple_of(GROUP));
        out.extend((start..head).map(|i| self.get(i)));
        let mut at = head;
        while at + GROUP <= end {
            out.extend_from_slice(&self.group(at / GROUP));
            at += GROUP;
        }
        out.extend((at..end).map(|i| self.get(i)));
    }

    /// Calls `each` with numbers `start..end`.
    #[inline]
    pub(crate) fn for_each(&self, start: usize, end: usize, mut each: impl FnMut(u32)) {
        if start >= end {
            return;
        }
        let head = end.min(start.next_multiple_of(GROUP));
        (start..head).for_each(|i| each(self.get(i)));
        let groups = head / GROUP..(end / GROUP).max(head / GROUP);
        let tail = if head < end { groups.end * GROUP } else { end };
        self.for_each_group(groups, |numbers| numbers.into_iter().for_each(&mut each));
        (tail..end).for_each(|i| each(self.get(i)));
    }

    /// Calls `each` with numbers `8 g .. 8 g + 8` for each g of a range.
    #[inline]
    pub(crate) fn for_each_group(&self, groups: Range<usize>, mut each: impl FnMut([u32; GROUP])) {
        // Dispatches on the width once, not per group.
        macro_rules! widths {
            ($($bits:literal)*) => {
                match self.bits {
                    $($bits => for g in groups {
                        each(unpack::<$bits, { $bits + 8 }>(self.bytes, g));
                    },)*
                    _ => groups.for_each(|_| each([0; GROUP])),
                }
            };
        }
        widths!(
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        );
    }

    /// Numbers `8 g .. 8 g + 8`, which occupy whole bytes. The code is specialised per width, with
    /// constant shifts.
    #[inline(always)]
    fn group(&self, g: usize) -> [u32; GROUP] {
        macro_rules! widths {
            ($($bits:literal)*) => {
                match self.bits {
                    $($bits => unpack::<$bits, { $bits + 8 }>(self.bytes, g),)*
                    _ => [0; GROUP],
                }
            };
        }
        widths!(
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        )
    }
}

/// Numbers that are unpacked together.
pub(crate) const GROUP: usize = 8;

#[inline(always)]
fn unpack<const BITS: usize, const WINDOW: usize>(bytes: &[u8], group: usize) -> [u32; GROUP] {
    let start = group * BITS;
    let Some(window) = bytes.get(start..start + WINDOW) else { return [0; GROUP] };
    let mut out = [0; GROUP];
    for (i, v) in out.iter_mut().enumerate() {
        *v = (u64_at(window, i * BITS / 8) >> (i * BITS % 8) & ((1 << BITS) - 1)) as u32;
    }
    out
}

/// Fills `out` with the bits from `bit` on, lowest first; bits after the end are zeros.
#[inline(always)]
pub(crate) fn bits_at(bytes: &[u8], bit: usize, out: &mut [u8]) {
    let (mut at, shift) = (bit >> 3, bit & 7);
    for piece in out.chunks_mut(8) {
        let mut window = [0; 16];
        let rest = bytes.get(at..).unwrap_or(&[]);
        match rest.first_chunk::<16>() {
            Some(all) => window = *all,
            None => window[..rest.len()].copy_from_slice(rest),
        }
        let word = (u128::from_le_bytes(window) >> shift) as u64;
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
        at += 8;
    }
}

/// Writes `from` at bit `bit`, where `bytes` must have zeros and enough room.
pub(crate) fn put_bits(bytes: &mut [u8], bit: usize, from: &[u8]) {
    let (at, shift) = (bit >> 3, bit & 7);
    for (i, &byte) in from.iter().enumerate() {
        let both = u16::from(byte) << shift;
        bytes[at + i] |= both as u8;
        if both > 0xFF {
            bytes[at + i + 1] |= (both >> 8) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_the_specification() {
        let mut w = PackedWriter::new(4);
        [0x1, 0x2, 0xF].into_iter().for_each(|v| w.push(v));
        // 1 and 2 share the first byte, low half first; then the 8 zeros.
        assert_eq!(w.finish(), [0x21, 0x0F, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_width_round_trips() {
        for bits in 0..=32u8 {
            let mask = ((1u64 << bits) - 1) as u32;
            let values: Vec<u32> =
                (0..300u32).map(|i| i.wrapping_mul(0x9E37_79B9) & mask).collect();
            let mut w = PackedWriter::new(bits);
            values.iter().for_each(|&v| w.push(v));
            let bytes = w.finish();
            let packed = Packed::new(&bytes, bits, values.len()).unwrap();
            let mut all = Vec::new();
            packed.decode(0, packed.len(), &mut all);
            assert_eq!(all, values, "{bits} bits");
            for (start, end) in
                [(0, 300), (3, 5), (3, 8), (7, 17), (8, 16), (9, 10), (5, 5), (1, 299)]
            {
                let mut some = Vec::new();
                packed.for_each(start, end, |v| some.push(v));
                assert_eq!(some, values[start..end], "{bits} bits, {start}..{end}");
            }
            assert_eq!(Packed::new(&bytes, bits, values.len() + 9).is_err(), bits > 0);
        }
    }
}
