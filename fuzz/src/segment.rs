//! Segments of the log, mutated record by record. The layout is described in
//! `crates/firndb/src/log/format/record.rs`.

use crate::frozen::{u32_at, u64_at};
use crate::mutate::{Rng, in_place, plain, put, resize};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

const HEADER: usize = 64;
const EXPIRES: u8 = 1 << 5;
const MOVED: u8 = 1 << 6;
/// Maximum growth of a record per mutation, in bytes.
const ROOM: usize = 64;

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The end of the record at an offset, by its own lengths.
fn end_of(bytes: &[u8], offset: usize) -> Option<usize> {
    let flags = *bytes.get(offset + 4)?;
    if !(1..=4).contains(&(flags & 0x8F)) {
        return None;
    }
    let mut at = offset + 5;
    let key = varint(bytes, &mut at)?;
    let value = if flags & 0x0F == 2 { 0 } else { varint(bytes, &mut at)? };
    if flags & EXPIRES != 0 {
        varint(bytes, &mut at)?;
    }
    if flags & (MOVED | 0x0F) == MOVED | 1 {
        at += 8; // The version of a copied put.
    }
    let end = (at as u64).checked_add(key)?.checked_add(value)?;
    usize::try_from(end).ok().filter(|&end| end <= bytes.len())
}

/// The records of the segment, up to the first invalid one.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let granule = 1usize << u32_at(bytes, 12).unwrap_or(0).min(30);
    let (mut found, mut at) = (Vec::new(), HEADER);
    while let Some(end) = end_of(bytes, at) {
        found.push(at..end);
        at = end.next_multiple_of(granule);
    }
    found
}

/// Recomputes the checksums of the header and of all records.
fn seal(bytes: &mut [u8]) {
    let number = u64_at(bytes, 24).unwrap_or(0);
    let sum = xxh3_64(&bytes[..56]);
    bytes[56..HEADER].copy_from_slice(&sum.to_le_bytes());
    for range in records(bytes) {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ range.start as u64;
        let place = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        let sum = xxh3_64(&bytes[range.start + 4..range.end]) ^ place;
        bytes[range.start..range.start + 4].copy_from_slice(&(sum as u32).to_le_bytes());
    }
}

/// Mutates the header or a record, which may grow or shrink, and recomputes all checksums.
pub fn mutate(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    if size < HEADER || rng.one_in(8) {
        return plain(rng, data, size, max_size);
    }
    let mut parts: Vec<Vec<u8>> =
        records(&data[..size]).into_iter().map(|range| data[range].to_vec()).collect();
    let mut out = data[..HEADER].to_vec();
    if parts.is_empty() || rng.one_in(16) {
        in_place(rng, &mut out[8..56]);
    }
    for _ in 0..1 + rng.below(3) {
        if parts.is_empty() {
            break;
        }
        let i = rng.below(parts.len());
        match rng.below(8) {
            0 => drop(parts.remove(i)),
            1 => parts.insert(i, parts[i].clone()),
            2 => {
                let j = rng.below(parts.len());
                parts.swap(i, j);
            }
            3 | 4 => {
                let mut body = parts[i].split_off(4);
                resize(&mut body, ROOM);
                parts[i].append(&mut body);
            }
            // The header of a record is a few bytes, and determines how the rest is parsed.
            5 => {
                let end = parts[i].len().min(16);
                in_place(rng, &mut parts[i][4..end]);
            }
            _ => in_place(rng, &mut parts[i][4..]),
        }
    }
    let granule = 1usize << u32_at(&out, 12).unwrap_or(0).min(12);
    for part in parts {
        out.extend_from_slice(&part);
        out.resize(out.len().next_multiple_of(granule), 0);
    }
    if out.len() < size {
        out.resize(size, 0);
    } else if rng.one_in(2) {
        let len = out.len() as u64;
        out[32..40].copy_from_slice(&len.to_le_bytes());
    }
    seal(&mut out);
    put(data, size, max_size, &out)
}
