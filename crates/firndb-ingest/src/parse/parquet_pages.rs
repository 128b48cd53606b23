//! Checks of Parquet pages that the crate `parquet` leaves out. Columns that need one are read
//! twice: those with the encoding DELTA_BYTE_ARRAY and those of the type INT96, which are rare.
//!
//! - A value in DELTA_BYTE_ARRAY shares a prefix with the value before it. The reader takes what is
//!   there if the prefix is longer than that value, and so invents values.
//! - The reader truncates INT96 timestamps to microseconds, and wraps those out of range.
//! - Dictionaries of values of a fixed size that the crate itself writes have the length of each
//!   value before it, against the specification. Only the dictionary is read twice.

use crate::parse::failure::{Failure, guarded};
use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// Checks a column of a row group. `leaf` is its number.
pub(crate) fn check_column(
    file: &File,
    group: &RowGroupMetaData,
    leaf: usize,
    column: &ColumnDescriptor,
) -> Result<()> {
    let lacks = || Failure::damaged("it is damaged: a row group lacks the column");
    let chunk = group.columns().get(leaf).ok_or_else(lacks)?;
    let is_old_time = column.physical_type() == Physical::INT96;
    let is_delta = chunk.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY);
    let is_fixed = column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY;
    let has_sizes = is_fixed && chunk.dictionary_page_offset().is_some();
    if !is_old_time && !is_delta && !has_sizes {
        return Ok(());
    }
    let file = Arc::new(file.try_clone()?);
    let rows = usize::try_from(group.num_rows()).unwrap_or_default();
    let mut pages = guarded(|| SerializedPageReader::new(file, chunk, rows, None))?;
    while let Some(page) = guarded(|| pages.get_next_page())? {
        match (&page, page.encoding()) {
            (Page::DictionaryPage { buf, .. }, _) if is_old_time => check_times(buf)?,
            (Page::DictionaryPage { buf, num_values, .. }, _) if has_sizes => {
                check_sizes(buf.len(), *num_values as usize, column.type_length())?;
            }
            (Page::DictionaryPage { .. }, _) => {}
            (_, Encoding::PLAIN) if is_old_time => check_times(values_of(&page, column)?)?,
            (_, Encoding::DELTA_BYTE_ARRAY) => {
                check_prefixes(values_of(&page, column)?, page.num_values() as usize)?;
            }
            _ => {}
        }
        if !is_old_time && !is_delta {
            break;
        }
    }
    Ok(())
}

/// Checks that a dictionary has the bytes of its values, which have a fixed size.
fn check_sizes(bytes: usize, values: usize, size: i32) -> Result<()> {
    match usize::try_from(size).ok().and_then(|size| size.checked_mul(values)) == Some(bytes) {
        true => Ok(()),
        false => Err(Failure::damaged(format!(
            "it is damaged: its dictionary has {bytes} bytes for {values} values of {size} bytes"
        ))),
    }
}

/// The bytes of the values of a data page, after the levels.
fn values_of<'p>(page: &'p Page, column: &ColumnDescriptor) -> Result<&'p [u8]> {
    let cut = || Failure::damaged("it is damaged: a page is too short");
    let skip = |bytes: &'p [u8], len: usize| bytes.get(len..).ok_or_else(cut);
    match page {
        Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
            let mut rest: &[u8] = buf;
            let levels = [
                (column.max_rep_level(), rep_level_encoding),
                (column.max_def_level(), def_level_encoding),
            ];
            for (max, encoding) in levels.into_iter().filter(|(max, _)| *max > 0) {
                rest = if *encoding == Encoding::RLE {
                    let len = *rest.first_chunk::<4>().ok_or_else(cut)?;
                    skip(&rest[4..], u32::from_le_bytes(len) as usize)?
                } else {
                    let bits = (i16::BITS - max.leading_zeros()) as usize;
                    skip(rest, (*num_values as usize * bits).div_ceil(8))?
                };
            }
            Ok(rest)
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            skip(buf, *def_levels_byte_len as usize + *rep_levels_byte_len as usize)
        }
        Page::DictionaryPage { buf, .. } => Ok(buf),
    }
}

/// The Julian day of 1970-01-01.
const EPOCH_DAY: i128 = 2_440_588;

/// Checks INT96 timestamps: nanoseconds of the day, then the Julian day.
fn check_times(values: &[u8]) -> Result<()> {
    for value in values.as_chunks::<12>().0 {
        let (nanos, day) = value.split_at(8);
        let nanos = nanos.try_into().map(i64::from_le_bytes).unwrap_or_default();
        let day = day.try_into().map(u32::from_le_bytes).unwrap_or_default();
        if nanos % 1000 != 0 {
            return Err(Failure::unsupported(format!(
                "a timestamp of the legacy type INT96 has nanoseconds ({nanos} of the day), and \
                 microseconds are supported; write it as INT64"
            )));
        }
        let micros = (i128::from(day) - EPOCH_DAY) * 86_400_000_000 + i128::from(nanos / 1000);
        if i64::try_from(micros).is_err() {
            let message =
                format!("a timestamp of the legacy type INT96 is out of range: day {day}");
            return Err(Failure::unsupported(message));
        }
    }
    Ok(())
}

/// Checks that each value has a prefix of the value before it, and that all bytes are there.
fn check_prefixes(bytes: &[u8], most: usize) -> Result<()> {
    let mut prefixes = Lengths::new(bytes, most)?;
    let mut suffixes = Lengths::new(prefixes.clone().skip_all()?, most)?;
    if prefixes.left != suffixes.left {
        let message = "it is damaged: a page has fewer suffixes than prefixes";
        return Err(Failure::damaged(message));
    }
    let (mut before, mut left) = (0, suffixes.clone().skip_all()?.len());
    while let (Some(prefix), Some(suffix)) = (prefixes.next()?, suffixes.next()?) {
        if prefix > before {
            return Err(Failure::damaged(format!(
                "it is damaged: a value begins with {prefix} bytes of the value before it, which \
                 has {before}"
            )));
        }
        let cut = || Failure::damaged("it is damaged: a value is cut off");
        left = left.checked_sub(suffix).ok_or_else(cut)?;
        before = prefix + suffix;
    }
    Ok(())
}

/// Most values of a page. A few bytes can encode billions of equal lengths, for which the reader
/// would allocate memory. Pages usually have a few thousand values.
const MOST_VALUES: usize = 1 << 26;

/// Lengths in the encoding DELTA_BINARY_PACKED, decoded one by one.
#[derive(Clone)]
struct Lengths<'p> {
    rest: &'p [u8],
    /// Lengths that have not been returned.
    left: usize,
    /// The next length.
    value: i64,
    miniblocks: usize,
    per_miniblock: usize,
    /// What is left of the current block: the widths of its miniblocks, and the least delta.
    widths: &'p [u8],
    least: i64,
    /// The current miniblock, its width, and the number of its deltas that were used.
    packed: &'p [u8],
    width: usize,
    used: usize,
}

impl<'p> Lengths<'p> {
    /// At most `most` lengths.
    fn new(bytes: &'p [u8], most: usize) -> Result<Lengths<'p>> {
        let mut rest = bytes;
        let block = varint(&mut rest).ok_or_else(undecodable)?;
        let miniblocks = varint(&mut rest).ok_or_else(undecodable)?;
        let total = varint(&mut rest).ok_or_else(undecodable)?;
        let value = zigzag(varint(&mut rest).ok_or_else(undecodable)?);
        let left = usize::try_from(total).map_err(|_| undecodable())?;
        let per_miniblock = block.checked_div(miniblocks).unwrap_or_default() as usize;
        let is_valid = per_miniblock > 0 && per_miniblock.is_multiple_of(32) && block <= 1 << 20;
        if left > most || (left > 1 && !is_valid) {
            return Err(undecodable());
        }
        if left > MOST_VALUES {
            let message = format!("a page has {left} values, and {MOST_VALUES} are supported");
            return Err(Failure::unsupported(message));
        }
        let miniblocks = miniblocks as usize;
        let (widths, packed, used) = (&rest[..0], &rest[..0], per_miniblock);
        let (least, width) = (0, 0);
        Ok(Lengths {
            rest,
            left,
            value,
            miniblocks,
            per_miniblock,
            widths,
            least,
            packed,
            width,
            used,
        })
    }

    /// The next length, or `None` at the end.
    fn next(&mut self) -> Result<Option<usize>> {
        if self.left == 0 {
            return Ok(None);
        }
        // Lengths are computed with 32 bits.
        let length = self.value as i32;
        let length = usize::try_from(length).map_err(|_| {
            Failure::damaged(format!("it is damaged: a value has a length of {length} bytes"))
        })?;
        self.left -= 1;
        if self.left > 0 {
            let delta = self.delta()?;
            self.value = self.value.wrapping_add(self.least).wrapping_add(delta as i64);
        }
        Ok(Some(length))
    }

    fn delta(&mut self) -> Result<u64> {
        if self.used == self.per_miniblock {
            if self.widths.is_empty() {
                self.least = zigzag(varint(&mut self.rest).ok_or_else(undecodable)?);
                self.widths = self.take(self.miniblocks)?;
            }
            let (width, widths) = self.widths.split_first().ok_or_else(undecodable)?;
            (self.width, self.widths) = (usize::from(*width), widths);
            if self.width > 64 {
                return Err(undecodable());
            }
            self.packed = self.take(self.per_miniblock / 8 * self.width)?;
            self.used = 0;
        }
        self.used += 1;
        Ok(unpack(self.packed, self.used - 1, self.width))
    }

    fn take(&mut self, len: usize) -> Result<&'p [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(undecodable)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The bytes after the last length. Miniblocks after it have no bytes.
    fn skip_all(mut self) -> Result<&'p [u8]> {
        while self.next()?.is_some() {}
        Ok(self.rest)
    }
}

fn undecodable() -> Failure {
    Failure::damaged("it is damaged: the lengths of values cannot be decoded")
}

/// The number at an index of bit-packed numbers of `width` bits, the lowest bit first.
fn unpack(packed: &[u8], index: usize, width: usize) -> u64 {
    let bit = |at: usize| u64::from(packed[at / 8] >> (at % 8) & 1);
    (0..width).fold(0, |value, i| value | bit(index * width + i) << i)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of lengths: 2^20 numbers in a block, one miniblock, the total, the first number.
    fn header(total: &[u8]) -> Vec<u8> {
        [&[0x80, 0x80, 0x40, 1], total, &[0]].concat()
    }

    #[test]
    fn equal_lengths_take_no_memory() {
        // 2^20 deltas of width 0, twice: no prefixes, and no suffixes.
        let lengths = [header(&[0x80, 0x80, 0x40]), vec![0, 0]].concat();
        let page = [lengths.clone(), lengths.clone()].concat();
        assert!(check_prefixes(&page, 1 << 20).is_ok());
        assert!(check_prefixes(&page, (1 << 20) - 1).is_err());
        assert!(check_prefixes(&page[..page.len() - 1], 1 << 20).is_err());
    }

    #[test]
    fn a_page_with_billions_of_values_is_refused() {
        let lengths = header(&[0xff, 0xff, 0xff, 0xff, 7]);
        let error = check_prefixes(&lengths, i32::MAX as usize).unwrap_err();
        assert_eq!(error.reason(), "a page has 2147483647 values, and 67108864 are supported");
    }
}
