//! Checks of Parquet pages that the crate `parquet` leaves out. Columns that need one are read
//! twice: those with the encoding DELTA_BYTE_ARRAY and those of the type INT96, which are rare.
//!
//! - A value in DELTA_BYTE_ARRAY shares a prefix with the value before it. The reader takes what is
//!   there if the prefix is longer than that value, and so invents values.
//! - The reader truncates INT96 timestamps to microseconds, and wraps those out of range.
//! - Dictionaries of values of a fixed size that the crate itself writes have the length of each
//!   value before it, against the specification. Only the dictionary is read twice.

use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::sync::Arc;

/// The error is the reason why a column cannot be read.
type Result<T> = std::result::Result<T, String>;

/// Checks a column of a row group. `leaf` is its number.
pub(crate) fn check_column(
    file: &File,
    group: &RowGroupMetaData,
    leaf: usize,
    column: &ColumnDescriptor,
) -> Result<()> {
    let chunk = group.columns().get(leaf).ok_or("it is damaged: a row group lacks the column")?;
    let is_old_time = column.physical_type() == Physical::INT96;
    let is_delta = chunk.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY);
    let is_fixed = column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY;
    let has_sizes = is_fixed && chunk.dictionary_page_offset().is_some();
    if !is_old_time && !is_delta && !has_sizes {
        return Ok(());
    }
    let file = Arc::new(file.try_clone().map_err(|e| e.to_string())?);
    let rows = usize::try_from(group.num_rows()).unwrap_or_default();
    let pages = SerializedPageReader::new(file, chunk, rows, None);
    let mut pages = pages.map_err(|e| e.to_string())?;
    while let Some(page) = pages.get_next_page().map_err(|e| e.to_string())? {
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
        false => Err(format!(
            "it is damaged: its dictionary has {bytes} bytes for {values} values of {size} bytes"
        )),
    }
}

/// The bytes of the values of a data page, after the levels.
fn values_of<'p>(page: &'p Page, column: &ColumnDescriptor) -> Result<&'p [u8]> {
    let cut = || "it is damaged: a page is too short".to_string();
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
            return Err(format!(
                "a timestamp of the legacy type INT96 has nanoseconds ({nanos} of the day), and \
                 microseconds are supported; write it as INT64"
            ));
        }
        let micros = (i128::from(day) - EPOCH_DAY) * 86_400_000_000 + i128::from(nanos / 1000);
        if i64::try_from(micros).is_err() {
            return Err(format!("a timestamp of the legacy type INT96 is out of range: day {day}"));
        }
    }
    Ok(())
}

/// Checks that each value has a prefix of the value before it, and that all bytes are there.
fn check_prefixes(bytes: &[u8], most: usize) -> Result<()> {
    let (prefixes, rest) = delta_lengths(bytes, most)?;
    let (suffixes, rest) = delta_lengths(rest, most)?;
    if prefixes.len() != suffixes.len() {
        return Err("it is damaged: a page has fewer suffixes than prefixes".to_string());
    }
    let (mut before, mut left) = (0, rest.len());
    for (prefix, suffix) in prefixes.into_iter().zip(suffixes) {
        if prefix > before {
            return Err(format!(
                "it is damaged: a value begins with {prefix} bytes of the value before it, which \
                 has {before}"
            ));
        }
        left = left.checked_sub(suffix).ok_or("it is damaged: a value is cut off")?;
        before = prefix + suffix;
    }
    Ok(())
}

/// Lengths in the encoding DELTA_BINARY_PACKED, at most `most` of them, and the bytes after them.
fn delta_lengths(bytes: &[u8], most: usize) -> Result<(Vec<usize>, &[u8])> {
    let mut rest = bytes;
    let wrong = || "it is damaged: the lengths of values cannot be decoded".to_string();
    let block = varint(&mut rest).ok_or_else(wrong)?;
    let miniblocks = varint(&mut rest).ok_or_else(wrong)?;
    let total = usize::try_from(varint(&mut rest).ok_or_else(wrong)?).map_err(|_| wrong())?;
    let mut value = zigzag(varint(&mut rest).ok_or_else(wrong)?);
    let per_miniblock = block.checked_div(miniblocks).unwrap_or_default();
    let is_valid = per_miniblock > 0 && per_miniblock.is_multiple_of(32) && block <= 1 << 20;
    if total > most || (total > 1 && !is_valid) {
        return Err(wrong());
    }
    let mut lengths = Vec::with_capacity(total);
    let mut push = |value: i64| {
        // Lengths are computed with 32 bits.
        lengths.push(usize::try_from(value as i32).map_err(|_| {
            format!("it is damaged: a value has a length of {} bytes", value as i32)
        })?);
        Ok::<usize, String>(lengths.len())
    };
    let mut count = if total > 0 { push(value)? } else { 0 };
    while count < total {
        let least = zigzag(varint(&mut rest).ok_or_else(wrong)?);
        let (widths, after) = rest.split_at_checked(miniblocks as usize).ok_or_else(wrong)?;
        rest = after;
        for width in widths {
            // Miniblocks after the last value have no bytes.
            if count == total {
                break;
            }
            let len = (per_miniblock as usize / 8).checked_mul(*width as usize);
            let len = len.filter(|_| *width <= 64).ok_or_else(wrong)?;
            let (packed, after) = rest.split_at_checked(len).ok_or_else(wrong)?;
            rest = after;
            for number in (0..per_miniblock as usize).take(total - count) {
                let delta = unpack(packed, number, usize::from(*width));
                value = value.wrapping_add(least).wrapping_add(delta as i64);
                count = push(value)?;
            }
        }
    }
    Ok((lengths, rest))
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
