//! Offsets of consecutive items, for example payloads: `n + 1` offsets of n items.
//!
//! There are two forms. The first is an increasing sequence (`monotonic/`) of offset i plus i,
//! since items may be empty. The second packs the lengths of the items. It is taken for 32,768
//! items and more where it saves an eighth, that is, where all items are about equally long:
//! payloads of 440 to 560 bytes take 8 bits per item instead of 11.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       6     n
//! 6       1     bits of a length
//! 7       1     2; the first form has 0 or 1 here
//! 8       8     shortest length
//! 16      8     offset of the first item
//! 24      w b   excess before each block of 64 items: the sum of `length - shortest` of all items
//!               before it; and the excess of all items. u32 where n times `2^bits` fits, else u64
//! ..      ..    lengths less the shortest, packed (`packed.rs`)
//! ```
//! Item i begins at `first + i * shortest + excess before i`.

use crate::bytes::int::{Encoder, u32_at, u64_at};
use crate::bytes::monotonic::{self as increasing, Increasing};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::bytes::prefetch::{LINE, prefetch};
use crate::{Error, Result};

/// The fewest items of the second form.
const LONG: usize = 1 << 15;
/// Items of a block.
const BLOCK: usize = 64;
const HEAD: usize = 24;
/// The form in byte 7.
const LENGTHS: u8 = 2;

/// Encodes offsets, which never decrease, to at least [`least_size`] bytes.
pub(crate) fn encode(offsets: &[u64]) -> Vec<u8> {
    let numbers = offsets.iter().enumerate().map(|(i, offset)| offset + i as u64);
    let first = increasing::encode_vouching(numbers);
    match encode_lengths(offsets) {
        Some(second) if second.len() < first.len() / 8 * 7 => second,
        _ => first,
    }
}

/// The fewest bytes of the offsets of `items` items.
pub(crate) fn least_size(items: usize) -> usize {
    increasing::least_size(items + 1)
}

/// The second form, or `None` if the offsets do not fit it.
fn encode_lengths(offsets: &[u64]) -> Option<Vec<u8>> {
    let items = offsets.len() - 1;
    let lengths = || offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let shortest = lengths().min().filter(|_| items >= LONG)?;
    let bits = width(lengths().max()? - shortest);
    if bits > 32 {
        return None;
    }
    let mut packed = PackedWriter::new(bits);
    lengths().for_each(|length| packed.push((length - shortest) as u32));
    let head = items as u64 | u64::from(bits) << 48 | u64::from(LENGTHS) << 56;
    let starts = (0..items).step_by(BLOCK).chain([items]);
    let mut out = Encoder::default();
    [head, shortest, offsets[0]].into_iter().for_each(|number| out.u64(number));
    for i in starts {
        let excess = offsets[i] - offsets[0] - shortest * i as u64;
        if is_short(items, bits) { out.u32(excess as u32) } else { out.u64(excess) }
    }
    out.0.extend(packed.finish());
    (out.0.len() >= least_size(items)).then_some(out.0)
}

/// Whether the sum of `items` numbers of `bits` bits fits a u32.
fn is_short(items: usize, bits: u8) -> bool {
    (items as u64).checked_mul(1 << bits.min(32)).is_some_and(|most| most <= 1 << 32)
}

/// Offsets of n items over bytes.
#[derive(Clone, Copy)]
pub(crate) enum Offsets<'a> {
    Sequence(Increasing<'a>),
    Lengths(Lengths<'a>),
}

/// The second form.
#[derive(Clone, Copy)]
pub(crate) struct Lengths<'a> {
    shortest: u64,
    first: u64,
    /// The excess before each block, `width` bytes each.
    excesses: &'a [u8],
    width: usize,
    /// Lengths less the shortest.
    lengths: Packed<'a>,
}

impl<'a> Offsets<'a> {
    /// Checks that there are offsets of `items` items.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], items: usize) -> Result<Offsets<'a>> {
        if items < LONG || bytes.get(7) != Some(&LENGTHS) {
            return Ok(Offsets::Sequence(Increasing::new(bytes, items + 1)?));
        }
        let head = u64_at(bytes, 0);
        let bits = (head >> 48) as u8;
        let width = if is_short(items, bits) { 4 } else { 8 };
        let end = HEAD + width * (items.div_ceil(BLOCK) + 1);
        if head << 16 >> 16 != items as u64 || bytes.len() < end {
            return Err(Error::corrupt(format!(
                "{} bytes are no offsets of {items} items",
                bytes.len()
            )));
        }
        let (excesses, lengths) = (&bytes[HEAD..end], Packed::new(&bytes[end..], bits, items)?);
        let (shortest, first) = (u64_at(bytes, 8), u64_at(bytes, 16));
        Ok(Offsets::Lengths(Lengths { shortest, first, excesses, width, lengths }))
    }

    /// Where item `i` begins. Item n, after the last one, begins where the last one ends.
    #[inline]
    pub(crate) fn start(&self, i: usize) -> u64 {
        match self {
            Offsets::Sequence(numbers) => numbers.get(i).wrapping_sub(i as u64),
            Offsets::Lengths(lengths) => lengths.start(i),
        }
    }

    /// Where item `i` begins and ends.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> (u64, u64) {
        match self {
            Offsets::Sequence(numbers) => {
                let (start, end) = numbers.pair(i);
                (start.wrapping_sub(i as u64), end.wrapping_sub(i as u64 + 1))
            }
            Offsets::Lengths(lengths) => {
                let start = lengths.start(i);
                (start, start.wrapping_add(lengths.length(i)))
            }
        }
    }

    /// Prefetches what [`Offsets::fetch`] of item `i` reads.
    #[inline(always)]
    pub(crate) fn fetch_head(&self, i: usize) {
        if let Offsets::Sequence(numbers) = self {
            numbers.fetch_head(i);
        }
    }

    /// Prefetches the offset of item `i`.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        match self {
            Offsets::Sequence(numbers) => numbers.fetch(i),
            Offsets::Lengths(Lengths { excesses, width, lengths, .. }) => {
                let (bytes, bits) = lengths.raw();
                let block = i / BLOCK;
                prefetch(excesses.get(width * block..).unwrap_or(&[]), 1);
                // One line more, because a block begins anywhere in its first line.
                let end = bytes.len().min((block + 1) * BLOCK / 8 * bits + LINE - 1);
                prefetch(bytes.get(block * BLOCK / 8 * bits..end).unwrap_or(&[]), 5);
            }
        }
    }

    /// Checks that offsets never decrease, and that the excess of each block is right.
    pub(crate) fn verify(&self) -> Result<()> {
        match self {
            Offsets::Sequence(numbers) => numbers.verify(),
            Offsets::Lengths(lengths) => lengths.verify(),
        }
    }
}

impl Lengths<'_> {
    #[inline]
    fn length(&self, i: usize) -> u64 {
        self.shortest.wrapping_add(self.lengths.get(i).into())
    }

    #[inline]
    fn start(&self, i: usize) -> u64 {
        let mut excess = self.excess(i);
        if i < self.lengths.len() {
            let add = |length| excess = excess.wrapping_add(u64::from(length));
            self.lengths.for_each(i / BLOCK * BLOCK, i, add);
        }
        self.first.wrapping_add(excess).wrapping_add(self.shortest.wrapping_mul(i as u64))
    }

    /// The excess before the block of item `i`; for item n, the excess of all items.
    #[inline]
    fn excess(&self, i: usize) -> u64 {
        let items = self.lengths.len();
        let block = if i < items { i / BLOCK } else { items.div_ceil(BLOCK) };
        match self.width {
            4 => u32_at(self.excesses, 4 * block).into(),
            _ => u64_at(self.excesses, 8 * block),
        }
    }

    fn verify(&self) -> Result<()> {
        let wrong =
            |i: usize| Error::corrupt(format!("offset {i} is not the end of the item before it"));
        let (items, mut excess) = (self.lengths.len(), 0u64);
        for i in 0..=items {
            if (i % BLOCK == 0 || i == items) && self.excess(i) != excess {
                return Err(wrong(i));
            }
            if i < items {
                let length = self.lengths.get(i).into();
                excess = excess.checked_add(length).ok_or_else(|| wrong(i))?;
            }
        }
        let end = self.shortest.checked_mul(items as u64).and_then(|end| end.checked_add(excess));
        let end = end.and_then(|end| end.checked_add(self.first));
        end.map(|_| ()).ok_or_else(|| wrong(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use xxhash_rust::xxh3::xxh3_64;

    /// Offsets of items of `least` to `most` bytes.
    fn offsets(rng: &mut Rng, items: usize, (least, most): (u64, u64)) -> Vec<u64> {
        let mut at = 5;
        let next = |_| {
            let start = at;
            at += least + rng.below(most - least + 1);
            start
        };
        (0..=items).map(next).collect()
    }

    fn has_lengths(bytes: &[u8], items: usize) -> bool {
        matches!(Offsets::new(bytes, items).unwrap(), Offsets::Lengths(_))
    }

    #[test]
    fn offsets_round_trip() {
        let mut rng = Rng(0x0FF_5E7);
        for items in [0, 1, 63, 64, 1_000, LONG - 1, LONG, LONG + 1, LONG + 70] {
            for lengths in [(440, 560), (0, 0), (7, 7), (0, 1), (0, 9), (0, 1 << 30), (0, 1 << 33)]
            {
                let offsets = offsets(&mut rng, items, lengths);
                let bytes = encode(&offsets);
                assert!(bytes.len() >= least_size(items));
                let read = Offsets::new(&bytes, items).unwrap();
                read.verify().unwrap();
                for (i, pair) in offsets.windows(2).enumerate() {
                    assert_eq!(read.range(i), (pair[0], pair[1]), "{i} of {items}: {lengths:?}");
                    assert_eq!(read.start(i), pair[0]);
                    read.fetch_head(i);
                    read.fetch(i);
                }
                assert_eq!(read.start(items), offsets[items]);
                assert!(Offsets::new(&bytes, items + 1).is_err());
                assert!(items == 0 || Offsets::new(&bytes, items - 1).is_err());
                match lengths {
                    _ if items < LONG => assert!(!has_lengths(&bytes, items)),
                    (440, 560) => assert!(has_lengths(&bytes, items)),
                    (0, most) if most > 1 << 20 => assert!(!has_lengths(&bytes, items)),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn excesses_have_the_smallest_width() {
        let mut rng = Rng(0x0FF_5E8);
        for (bits, width) in [(4, 4), (16, 4), (17, 4), (18, 8), (20, 8), (32, 8)] {
            // Nearly all items have the longest length, so that the excesses are as large as possible.
            let most = (1 << bits) - 1;
            let length = |i: usize| if i % 4_096 == 9 { rng.below(most) } else { most };
            let lengths: Vec<u64> = (0..LONG).map(length).collect();
            let mut offsets = vec![1_000_003];
            for length in [0].iter().chain(&lengths[1..]) {
                offsets.push(offsets.last().unwrap() + length);
            }
            let bytes = encode_lengths(&offsets).unwrap();
            let read = Offsets::new(&bytes, LONG).unwrap();
            read.verify().unwrap();
            assert!(
                matches!(read, Offsets::Lengths(Lengths { width: found, .. }) if found == width)
            );
            for (i, pair) in offsets.windows(2).enumerate() {
                assert_eq!(read.range(i), (pair[0], pair[1]), "{i}, {bits} bits");
                read.fetch(i);
            }
            assert_eq!(read.start(LONG), offsets[LONG]);
        }
    }

    #[test]
    fn verify_rejects_wrong_lengths() {
        let bytes = encode(&offsets(&mut Rng(3), LONG, (440, 560)));
        assert!(has_lengths(&bytes, LONG));
        let rejects = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut damaged = bytes.clone();
            edit(&mut damaged);
            let found = Offsets::new(&damaged, LONG).and_then(|offsets| offsets.verify());
            assert!(found.is_err());
        };
        let last = HEAD + LONG / BLOCK * 4;
        for at in [0, 6, 7, HEAD, HEAD + 4, last, last + 4, last + 5_000] {
            rejects(&|bytes| bytes[at] ^= 1);
        }
        rejects(&|bytes| bytes[15] = 0xFF);
        rejects(&|bytes| bytes[16..24].fill(0xFF));
        rejects(&|bytes| bytes.truncate(last));
        rejects(&|bytes| bytes.truncate(bytes.len() - 1));
        // Damaged bytes yield some numbers.
        let mut rng = Rng(4);
        for _ in 0..1_000 {
            let mut damaged = bytes.clone();
            let at = rng.below(last);
            damaged[at] ^= 1 << rng.below(8);
            if let Ok(offsets) = Offsets::new(&damaged, LONG) {
                for i in [0, 77, LONG - 1] {
                    offsets.fetch(i);
                    let _ = (offsets.range(i), offsets.start(LONG));
                }
                let _ = offsets.verify();
            }
        }
    }

    #[test]
    fn encoding_is_stable() {
        let bytes = encode(&offsets(&mut Rng(5), 40_000, (440, 560)));
        assert_eq!((bytes.len(), xxh3_64(&bytes)), (37_536, 0x7726_842B_D84F_1610));
    }
}
